"""Cut a part out of a graph of torch.compile: some nodes of Inductor's scheduler,
as the operators that they compute, with the values that these read as inputs and
the values that others read from them as outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import prod

from fusiondoc.diagnosis.of_fusers.inductor_graphs import (
    CAT,
    ComputingNode,
    FinalGraph,
    Role,
)
from fusiondoc.fusers.inductor.compilation import Buffer, GraphOperator
from fusiondoc.fusers.inductor.targets import GETITEM, moves_nothing, operator_name
from fusiondoc.model import dataclass
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.inductor.python_text import size_of
from fusiondoc.parsers.inductor.tensor_types import SHORT_NAMES, element_size
from fusiondoc.repro import UNKNOWN_SIZE

_TENSOR = re.compile(
    r"(\w{1,20})\[([^\[\]]*)\](?:\[([^\[\]]*)\])?([a-z]{1,20}(?::\d{1,4})?)?\Z"
)
_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_SIZE = re.compile(r"Sym\((.*)\)\Z")
_IN_PLACE = re.compile(r"\w_(?:\.\w+)?\Z")
_LONG_NAMES = {short: name for name, short in SHORT_NAMES.items()}


@dataclass(frozen=True)
class PartInput:
    """An input of the part: a tensor, or a size, whose ``dtype`` is None."""

    name: str
    type: str
    """The type as the graph has it."""
    dtype: str | None = None
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    device: str = "cpu"
    value: int = 0
    """The value of a size."""


@dataclass(frozen=True)
class CompiledPart:
    """The elements of a script."""

    operators: tuple[GraphOperator, ...]
    inputs: tuple[PartInput, ...]
    outputs: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    """Symbols of sizes whose values are not known, so that numbers were chosen."""
    dynamic: bool = False
    """Whether the graph was compiled for symbolic sizes."""


class CannotCut(Exception):
    """The part cannot be cut out: the text names the missing fact."""


def part_of(found: FinalGraph, nodes: Sequence[ComputingNode]) -> CompiledPart:
    """Return the part that consists of these nodes.

    Raises:
        CannotCut: the log does not show their operators, or the type of an input.
    """
    return _Cut(found, nodes).part()


class _Cut:
    def __init__(self, found: FinalGraph, nodes: Sequence[ComputingNode]) -> None:
        self._found = found
        self._nodes = nodes
        self._by_name = {}
        for operator in found.graph.operators:
            self._by_name[operator.name] = operator
        self._computed = set()
        for node in nodes:
            for operator in node.operators:
                self._computed.add(operator.name)
        if not self._by_name:
            raise CannotCut("the graph after the post-grad passes")
        if not self._computed or not self._computed <= self._by_name.keys():
            raise CannotCut("the operators of this part")
        self._readers: dict[str, list[str]] = {}
        for operator in found.graph.operators:
            for name in operator.inputs:
                self._readers.setdefault(name, []).append(operator.name)
            if self._takes_apart(operator) and operator.inputs[0] in self._computed:
                self._computed.add(operator.name)

    def part(self) -> CompiledPart:
        kept, inputs = self._reached()
        hints = _hints(self._found.graph.buffers)
        types = (self._by_name[name].type or "" for name in inputs)
        symbols: dict[str, None] = {}
        for text in types:
            for symbol in _SYMBOL.findall(_sizes_in(text)):
                symbols[symbol] = None
        sizes = {symbol: hints.get(symbol, UNKNOWN_SIZE) for symbol in symbols}
        ordered = self._found.graph.operators
        return CompiledPart(
            tuple(one for one in ordered if one.name in kept),
            tuple(_input(one, sizes) for one in ordered if one.name in inputs),
            tuple(self._outputs(kept)),
            tuple(symbol for symbol in symbols if symbol not in hints),
            bool(symbols),
        )

    def _reached(self) -> tuple[set[str], set[str]]:
        """Names of the operators of the part, including views of its inputs and
        views between its operators; and names of its inputs."""
        kept, inputs = set(self._computed), set()
        waiting: list[str] = []
        for one in self._computed:
            waiting.extend(self._by_name[one].inputs)
        while waiting:
            name = waiting.pop()
            operator = self._by_name.get(name)
            if operator is None or name in kept or name in inputs:
                continue
            if self._is_view(operator):
                kept.add(name)
                waiting += operator.inputs
            else:
                inputs.add(name)
        return kept, inputs

    def _takes_apart(self, operator: GraphOperator) -> bool:
        """True if it takes one of several results of an operator."""
        of = self._by_name.get(operator.inputs[0]) if operator.inputs else None
        is_one = (
            operator.op == "call_function"
            and operator_name(operator.target) == GETITEM
        )
        return is_one and of is not None and of.type is None

    def _is_view(self, operator: GraphOperator) -> bool:
        """True if its result is memory of others: a view, or a concatenation of
        results of the part."""
        op = operator_name(operator.target)
        if operator.op != "call_function" or self._takes_apart(operator):
            return False
        return moves_nothing(op) or (
            op == CAT and not self._computed.isdisjoint(operator.inputs)
        )

    def _outputs(self, kept: AbstractSet[str]) -> list[str]:
        """Names of the values read outside; if none are known, of those that the
        part itself does not read."""
        values = []
        for one in self._found.graph.operators:
            if (
                one.name in self._computed
                and one.type is not None
                and not self._is_view(one)
            ):
                values.append(one)
        values = [one for one in values if not self._changes_input(one)]
        read = [one.name for one in values if self._is_output(one)]
        return read or [
            one.name
            for one in values
            if kept.isdisjoint(self._readers.get(one.name, ()))
        ]

    def _changes_input(self, operator: GraphOperator) -> bool:
        """True if its result is an input of the graph:
        ``aten.copy_.default(primals_1, add)``."""
        first = self._by_name.get(operator.inputs[0]) if operator.inputs else None
        in_place = _IN_PLACE.search(operator.target) is not None
        return in_place and first is not None and first.op == "placeholder"

    def _is_output(self, operator: GraphOperator) -> bool:
        """True if it is returned, or read by a node that does not compute it
        itself."""
        whose = operator.inputs[0] if self._takes_apart(operator) else operator.name
        waiting, seen = [operator.name], set()
        while waiting:
            for reader in self._readers.get(waiting.pop(), ()):
                if reader not in seen and self._is_view(self._by_name[reader]):
                    waiting.append(reader)
                seen.add(reader)
        returned = any(self._by_name[reader].op == "output" for reader in seen)
        return (
            not seen
            or returned
            or any(self._reads(node, whose, seen) for node in self._found.nodes)
        )

    def _reads(
        self, node: ComputingNode, value: str, readers: AbstractSet[str]
    ) -> bool:
        """True if a node is outside the part and computes a reader of the value,
        but not the value."""
        if node in self._nodes or node.role is Role.PASSES_ON:
            return False
        names = {operator.name for operator in node.operators}
        return value not in names and not names.isdisjoint(readers)


def _hints(buffers: Sequence[Buffer]) -> dict[str, int]:
    """Symbols of sizes whose numbers follow from the bytes of a buffer."""
    hints: dict[str, int] = {}
    for buffer in buffers:
        found = _TENSOR.match(buffer.type or "")
        sizes = []
        if found is not None:
            sizes = [size.strip() for size in found[2].split(",")]
        symbols = [size for size in sizes if _SYMBOL.fullmatch(size)]
        item = element_size(found[1]) if found is not None else None
        numbers = []
        for size in sizes:
            if size not in symbols:
                numbers.append(whole_number(size) or 0)
        others = prod(numbers) * (item or 0)
        if len(symbols) == 1 and others > 0 and buffer.bytes:
            hints.setdefault(symbols[0], buffer.bytes // others)
    return hints


def _sizes_in(text: str) -> str:
    """The part of a type that holds sizes and strides."""
    found = _SIZE.match(text) or _TENSOR.match(text)
    if found is None:
        return ""
    return " ".join(found.groups("")[:3][-2:])


def _input(operator: GraphOperator, hints: dict[str, int]) -> PartInput:
    """Return the input that replaces an operator."""
    text = operator.type or ""
    number = _SIZE.match(text)
    if number is not None:
        value = size_of(number[1], hints)
        return PartInput(
            operator.name, text, value=UNKNOWN_SIZE if value is None else value
        )
    found = _TENSOR.match(text)
    dtype = _LONG_NAMES.get(found[1]) if found is not None else None
    if found is None or dtype is None:
        raise CannotCut(f"the type of {operator.name}")
    sizes = _numbers(found[2], hints)
    strides = _numbers(found[3], hints) if found[3] is not None else None
    if sizes is None:
        raise CannotCut(f"the sizes of {operator.name}")
    if strides is None or len(strides) != len(sizes):
        strides = tuple(
            prod(max(1, size) for size in sizes[at + 1 :])
            for at in range(len(sizes))
        )
    return PartInput(operator.name, text, dtype, sizes, strides, found[4] or "cpu")


def _numbers(text: str, hints: dict[str, int]) -> tuple[int, ...] | None:
    numbers = []
    for part in text.split(","):
        if part.strip():
            numbers.append(size_of(part, hints))
    known = []
    for number in numbers:
        if number is not None and number >= 0:
            known.append(number)
    if len(known) == len(numbers):
        return tuple(known)
    return None
