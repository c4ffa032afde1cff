"""torch's own parser as the oracle: what it makes of a printed graph, and the
comparison with ours.

``torch._C.parse_ir`` refuses some of what torch prints. NORMALISATIONS lists what
is rewritten before it, each with why. Types it does not know are replaced by types
that nothing else has (see CODES) and put back in what torch answers: so the
comparison of types stays exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from fusiondoc.parsers.ir import Block, Graph, IrDump, Node, Value

_STRING = r'"(?:[^"\\]|\\.)*"'

# Types that parse_ir refuses. Classes of the user: it only knows those registered
# from C++ (`__torch__.torch.classes...`). Functions: none.
OTHER_TYPES = r"__torch__(?:\.\w+)+|(?<= : )Function(?= = )"
# A tensor with requires_grad or device but without sizes: it wants sizes first.
TENSOR_TYPES = r"\b\w*Tensor\((?:requires_grad|device)=[^()]*\)"
# What they are replaced by, numbered: a tensor by one of an odd size, for the
# schemas of operators are checked.
CODES = re.compile(r"Float\(7770(\d+)\)|Storage((?:\[\])+)")

NORMALISATIONS: list[tuple[str, str, str]] = [
    (
        "no outputs: parse_ir wants no '=' before a node that has none",
        r"(?m)^( *) = (?=[\w^]+::)",
        r"\1",
    ),
    ("scope: unknown to parse_ir", r"(?m), scope: [^#\n]*?(?= # |$)", ""),
    (
        "dictionary attribute: unknown to parse_ir",
        r"(?<==)\{[^{}\n]*\}(?=[,\]])",
        '"dictionary"',
    ),
    (
        "tuple constant: unknown to parse_ir",
        r"(?<=\[value=)\((?:[^()\"\n]|\([^()\"\n]*\))*\)(?=\]\(\))",
        '"tuple"',
    ),
    (
        "tensor constant: parse_ir wants to be told of them, and then makes its own",
        "=<Tensor>",
        '="tensor"',
    ),
    (
        "subgraph of a node printed by itself: the print does not have it",
        "=<Graph>",
        '="graph"',
    ),
    (
        "AutogradAnyNonZero: autodiff makes it an int, its schema says bool; without a schema all is taken",
        r"\bprim::AutogradAnyNonZero\b",
        "unregistered::AutogradAnyNonZero",
    ),
    (
        "aten::sub of two ints printed as Scalar (autodiff formulas) is not what its schema says",
        r"(?m)( : Scalar = )aten::(?=\w+\()",
        r"\1unregistered_aten::",
    ),
]
_RENAMED = {"unregistered_aten::": "aten::", "unregistered::": "prim::"}


class Refused(Exception):
    """torch does not read the graph back; the message is its reason."""


class Parsed:
    """A graph as torch reads it. ``as_printed``: no normalisation was needed;
    ``rewritten``: which were."""

    def __init__(self, text: str) -> None:
        self._types: list[str] = []
        self.as_printed = True
        self.rewritten: list[str] = []
        try:
            self.graph = torch._C.parse_ir(text)
        except RuntimeError:
            self.as_printed = False
            normal = self.normalise(text)
            try:
                self.graph = torch._C.parse_ir(normal)
            except RuntimeError as error:
                raise Refused(str(error)) from None

    def normalise(self, text: str) -> str:
        for why, pattern, replacement in NORMALISATIONS:
            text, count = re.subn(pattern, replacement, text)
            if count:
                self.rewritten.append(why)
        # Not inside strings.
        return re.sub(
            f"{_STRING}|({OTHER_TYPES})|({TENSOR_TYPES})", self._encode, text
        )

    def _encode(self, match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return match[0]
        why = (
            "class or function type: unknown to parse_ir"
            if match[1]
            else "tensor type without sizes: wants them"
        )
        if why not in self.rewritten:
            self.rewritten.append(why)
        if match[0] not in self._types:
            self._types.append(match[0])
        number = self._types.index(match[0]) + 1
        return "Storage" + "[]" * number if match[1] else f"Float(7770{number})"

    def _decode(self, match: re.Match[str]) -> str:
        return self._types[(int(match[1]) if match[1] else len(match[2]) // 2) - 1]

    def type(self, value: Any) -> str:
        return CODES.sub(self._decode, value.type().str())

    @staticmethod
    def kind(node: Any) -> str:
        kind = node.kind()
        for ours, printed in _RENAMED.items():
            kind = kind.replace(ours, printed)
        return kind


def cause(message: str) -> str:
    """A refusal of torch, short enough to count: its first words and what it points
    at."""
    lines = [line for line in message.split("\n") if line.strip()]
    at = next((number for number, line in enumerate(lines) if "~" in line), None)
    where = lines[at - 1].strip() if at else ""
    return re.sub(r"[%\d.]+", "0", f"{lines[0][:60]} | {where[:80]}")


def differences(parsed: Parsed, ours: Graph) -> list[str]:
    """Where torch's reading of a print and ours differ; none is what is wanted."""
    comparison = Comparison(parsed.type, parsed.kind)
    comparison.scope("graph", parsed.graph, ours)
    return comparison.wrong


def live_differences(graph: Any, dump: IrDump) -> list[str]:
    """Where a graph and our reading of its print differ: names and the graphs of
    its sections as well."""
    comparison = Comparison(
        lambda value: value.type().str(), lambda node: node.kind(), dump
    )
    comparison.scope("graph", graph, dump.graph)
    return comparison.wrong


class Comparison:
    """Compares node by node. With a ``dump`` the other side is the graph that was
    printed, not one read back."""

    def __init__(
        self,
        type_of: Callable[[Any], str],
        kind_of: Callable[[Any], str],
        dump: IrDump | None = None,
    ) -> None:
        self.type_of = type_of
        self.kind_of = kind_of
        self.dump = dump
        # parse_ir only keeps the names of what the graph takes: values are matched
        # where they are defined.
        self.names: dict[int, str] = {}
        self.wrong: list[str] = []

    def same(self, where: str, theirs: object, ours: object) -> None:
        if theirs != ours:
            self.wrong.append(f"{where}: torch {theirs!r}, ours {ours!r}")

    def scope(self, where: str, theirs: Any, ours: Graph | Block) -> None:
        self.definitions(where, list(theirs.inputs()), ours.params)
        nodes = list(theirs.nodes())
        self.same(f"{where}: number of nodes", len(nodes), len(ours.nodes))
        for their_node, our_node in zip(nodes, ours.nodes):
            self.node(their_node, our_node)
        self.uses(f"{where}: outputs", theirs.outputs(), ours.outputs)

    def definitions(
        self, where: str, theirs: list[Any], ours: tuple[Value, ...]
    ) -> None:
        self.same(f"{where}: number of values", len(theirs), len(ours))
        for their_value, our_value in zip(theirs, ours):
            self.names[their_value.unique()] = our_value.name
            if self.dump is not None or (
                where == "graph" and not our_value.name.isdigit()
            ):
                self.same(f"{where}: name", their_value.debugName(), our_value.name)
            self.same(f"{where}: type", self.type_of(their_value), our_value.type)

    def uses(self, where: str, theirs: Any, ours: tuple[str, ...]) -> None:
        self.same(
            where, tuple(self.names.get(value.unique()) for value in theirs), ours
        )

    def node(self, theirs: Any, ours: Node) -> None:
        where = f"node of line {ours.line} ({ours.kind})"
        kind = self.kind_of(theirs)
        body = None
        if kind == "prim::PythonOp":
            self.same(f"{where}: kind", "^" + theirs.pyname(), ours.kind)
        elif self.dump is not None and theirs.hasAttribute("Subgraph"):
            body = self.dump.resolve(ours)
            self.same(f"{where}: kind", kind, ours.kind)
            self.same(f"{where}: has its section", True, body is not None)
        else:
            self.same(f"{where}: kind", kind, ours.ref or ours.kind)
        self.uses(f"{where}: inputs", theirs.inputs(), ours.inputs)
        self.definitions(f"{where}: outputs", list(theirs.outputs()), ours.outputs)
        if self.dump is None or kind != "prim::DifferentiableGraph":
            self.attributes(where, theirs, ours, body is not None)
        if self.dump is not None:
            self.same(f"{where}: scope", theirs.scopeName(), ours.scope or "")
            # Python's form of the same place, under a picture of the source.
            place = re.search(r'File "(.*)", line (\d+)', theirs.sourceRange())
            if place is not None:
                self.same(
                    f"{where}: source",
                    f"{place[1]}:{place[2]}",
                    (ours.source or "").rpartition(":")[0],
                )
        blocks = list(theirs.blocks())
        self.same(f"{where}: number of blocks", len(blocks), len(ours.blocks))
        for number, (their_block, our_block) in enumerate(zip(blocks, ours.blocks)):
            self.same(f"{where}: number of the block", number, our_block.index)
            self.scope(f"{where}, block {number}", their_block, our_block)
        if body is not None:
            inner = Comparison(self.type_of, self.kind_of, self.dump)
            inner.scope("graph", theirs.g("Subgraph"), body)
            self.wrong += [f"{where}: {what}" for what in inner.wrong]

    def attributes(
        self, where: str, theirs: Any, ours: Node, has_section: bool
    ) -> None:
        names = list(theirs.attributeNames())
        if has_section:
            names.remove("Subgraph")
        printed = list(ours.attributes)
        if self.dump is None:
            # parse_ir gives an `annotate(List[int], [])` to `value`, whatever name
            # it was printed under.
            printed = [
                "value" if ours.attributes[name].startswith("annotate(") else name
                for name in printed
            ]
        self.same(f"{where}: attributes", sorted(names), sorted(printed))
        for name in set(names) & set(ours.attributes):
            kind, text = theirs.kindOf(name), ours.attributes[name]
            if kind == "s" and self.dump is None and not text.startswith('"'):
                continue  # A normalisation made a string of it.
            if kind in _READ:
                self.same(
                    f"{where}: {name}",
                    getattr(theirs, kind)(name),
                    _READ[kind](text),
                )


def unquoted(text: str) -> str:
    """The string that ``c10::printQuotedString`` printed as ``text`` (ASCII
    only)."""
    assert text[0] == text[-1] == '"'
    named = {
        "a": "\a",
        "b": "\b",
        "f": "\f",
        "n": "\n",
        "r": "\r",
        "t": "\t",
        "v": "\v",
    }
    return re.sub(
        r"\\(\d{3}|.)",
        lambda match: (
            chr(int(match[1], 8))
            if len(match[1]) == 3
            else named.get(match[1], match[1])
        ),
        text[1:-1],
        flags=re.DOTALL,
    )


def _numbers(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def numbers(text: str) -> list[Any]:
        return (
            []
            if text.startswith("annotate(")
            else [read(item) for item in text[1:-1].split(", ")]
        )

    return numbers


_READ: dict[str, Callable[[str], Any]] = {
    "i": int,
    "f": float,
    "is": _numbers(int),
    "fs": _numbers(float),
    "s": unquoted,
}
"""How the printed text of an attribute of each kind gives its value."""
