"""The graph with which a fusion pass begins: the types of values in the profiled
runs, and the code that ran.

The executor puts a prim::profile before the tensors that most nodes read and that
blocks return (torch/csrc/jit/runtime/profiling_record.cpp, ``instrumentBlock``;
1.12 to 2.13). The graph ``Before Fusion`` still has these nodes. ``Before
TExprFuser`` has their types at the values instead
(``removeProfileNodesAndSpecializeTypes``) and keeps only the profile nodes that saw
no tensor, with type ``Tensor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.parsers.ir.types import is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import IrDump, Node

PROFILE = "prim::profile"
PROFILE_OF_VALUE = "prim::profile_ivalue"
_UNKNOWN = ("Tensor", "Tensor?", "")


class PropertyRead(NamedTuple):
    """An operator that reads the dtype, device or layout of a tensor:
    ``y.to(x.dtype)``."""

    what: str
    """"dtype", "device" or "layout"."""
    op: str
    source: str | None
    of: tuple[str, str | None] | None = None
    """Kind and source of the node that makes the tensor; None for an input of the
    graph or a block."""


@dataclass(frozen=True)
class ProfiledFacts:
    """The facts of the profiled runs, by value name."""

    types: Mapping[str, str] = field(default_factory=dict)
    """The types of values that have a known type."""
    ran: Mapping[str, bool] = field(default_factory=dict)
    """True if the node that makes the value ran. A block runs as a whole, so the
    facts about one of its nodes hold for all; values of a block without such facts
    are missing."""
    blocks: Mapping[str, Sequence[bool | None]] = field(default_factory=dict)
    """True for each block of the node that makes the value if it ran; None if
    unknown."""
    property_reads: Mapping[str, Sequence[PropertyRead]] = field(
        default_factory=dict
    )
    """The operators that read the dtype, device or layout of the value."""


_PROPERTIES = {
    "prim::dtype": "dtype",
    "prim::device": "device",
    "prim::layout": "layout",
}


def profiled_in(dump: IrDump) -> ProfiledFacts:
    """Return the facts in the graph with which a fusion pass begins."""
    runs = _Runs(dump)
    return ProfiledFacts(_types(dump), runs.ran, runs.blocks, _property_reads(dump))


def _property_reads(dump: IrDump) -> dict[str, list[PropertyRead]]:
    """Return the reads of properties, by the name of the tensor. In a plan the
    property is a constant of the group that takes it, and its origin is lost; while
    a pass makes groups it is a node between the two."""
    properties: dict[str, tuple[str, str]] = {}
    """Name of a property's value -> the property, and its tensor."""
    profiled: dict[str, str] = {}
    """Output of a profile node -> its input."""
    found: dict[str, list[PropertyRead]] = {}
    made: dict[str, tuple[str, str | None]] = {}
    for node in dump.graph.walk():
        kind, inputs = node.kind, node.inputs
        made.update((value.name, (kind, node.source)) for value in node.outputs)
        makes = node.outputs[0].name if node.outputs else None
        if kind in (PROFILE, PROFILE_OF_VALUE) and inputs and makes is not None:
            profiled[makes] = profiled.get(inputs[0], inputs[0])
            if inputs[0] in properties:
                properties[makes] = properties[inputs[0]]
        elif kind in _PROPERTIES and inputs and makes is not None:
            properties[makes] = (
                _PROPERTIES[kind],
                profiled.get(inputs[0], inputs[0]),
            )
        elif properties and not kind.startswith("prim::"):
            for name in inputs:
                if name in properties:
                    what, tensor = properties[name]
                    found.setdefault(tensor, []).append(
                        PropertyRead(what, kind, node.source, made.get(tensor))
                    )
    return found


def _types(dump: IrDump) -> dict[str, str]:
    types = {v.name: v.type for v in dump.graph.params}
    for node in dump.graph.walk():
        profiled = None
        if node.kind == PROFILE:
            profiled = node.attributes.get("profiled_type")
        if (
            profiled
            and node.inputs
            and (profiled not in _UNKNOWN or node.inputs[0] not in types)
        ):
            types[node.inputs[0]] = profiled
        for value in node.outputs:
            text = profiled or value.type
            if types.get(value.name, "") in _UNKNOWN:
                types[value.name] = text
    return {name: text for name, text in types.items() if text not in _UNKNOWN}


class _Block:
    """A block of the graph (or the whole graph), and the blocks inside it."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.ran: bool | None = None
        self.inner: list[tuple[Node, list[_Block]]] = []

    def never_ran(self) -> None:
        """Mark this block, and the blocks inside it, as not run."""
        self.ran = False
        for _, blocks in self.inner:
            for block in blocks:
                block.never_ran()

    def walk(self) -> Iterator[_Block]:
        yield self
        for _, blocks in self.inner:
            for block in blocks:
                yield from block.walk()


class _Runs:
    """The nodes of a graph that ran."""

    def __init__(self, dump: IrDump) -> None:
        self.ran: dict[str, bool] = {}
        self.blocks: dict[str, Sequence[bool | None]] = {}
        self._by_nodes = any(
            node.kind == PROFILE
            and node.attributes.get("profiled_type") not in (None, *_UNKNOWN)
            for node in dump.graph.walk()
        )
        """True if the graph has all its profile nodes; some passes leave only those
        that saw no tensor."""
        self._seen: dict[str, bool] = {}
        """Output of a profile node -> True if it saw its input."""
        whole = self._block(dump.graph.nodes, dump.graph.outputs)
        if not whole.ran:
            return
        _follow_conditions(whole)
        for block in whole.walk():
            if block.ran is not None:
                self.ran.update(
                    (value.name, block.ran)
                    for node in block.nodes
                    for value in node.outputs
                )
            for node, inner in block.inner:
                self.blocks.update(
                    (value.name, [one.ran for one in inner])
                    for value in node.outputs
                )

    def _block(self, nodes: Sequence[Node], outputs: Iterable[str]) -> _Block:
        made = _Block(nodes)
        shown: set[bool] = set()
        for node in nodes:
            shown.update(self._shown_by(node))
            if node.blocks:
                inner = [
                    self._block(block.nodes, block.outputs) for block in node.blocks
                ]
                made.inner.append((node, inner))
                if any(block.ran for block in inner):
                    shown.add(True)
        shown.update(self._seen[name] for name in outputs if name in self._seen)
        if True in shown:
            made.ran = True
        elif shown:
            made.never_ran()
        return made

    def _shown_by(self, node: Node) -> Iterable[bool]:
        if node.kind == PROFILE:
            known = node.attributes
            seen = (
                known.get("profiled_type") not in (None, *_UNKNOWN)
                or known.get("seen_none", "0") != "0"
            )
            for value in node.outputs:
                self._seen[value.name] = seen
            if self._by_nodes:
                return ()
            return (seen,)
        if node.kind == PROFILE_OF_VALUE:
            if node.attributes:
                return (True,)
            return ()
        if not self._by_nodes:
            # A result also lacks a type if only nodes without profiled inputs read
            # it.
            return [
                True
                for value in node.outputs
                if is_tensor(value.type) and value.type not in _UNKNOWN
            ]
        return [self._seen[name] for name in node.inputs if name in self._seen]


def _follow_conditions(whole: _Block) -> None:
    """Mark further blocks as not run: a condition that was never true (or never
    false) at one prim::If was not at others that read it."""
    never: set[tuple[str, int]] = set()
    for block in whole.walk():
        for node, inner in block.inner:
            if block.ran and node.kind == "prim::If":
                never.update(
                    (node.inputs[0], i)
                    for i, one in enumerate(inner)
                    if one.ran is False
                )
    for block in whole.walk():
        for node, inner in block.inner:
            for i, one in enumerate(inner):
                if (
                    node.kind == "prim::If"
                    and one.ran is None
                    and (node.inputs[0], i) in never
                ):
                    one.never_ran()
