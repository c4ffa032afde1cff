"""What the graph that a fusion pass begins with tells of the profiled runs: types of values, and which code
ran at all.

The executor puts a prim::profile before the tensors that most nodes read and that blocks return
(torch/csrc/jit/runtime/profiling_record.cpp, ``instrumentBlock``; 1.12 to 2.13). nvFuser's ``Before Fusion``
still has these nodes. NNC's ``Before TExprFuser`` has their types at the values instead
(``removeProfileNodesAndSpecializeTypes`` of torch/csrc/jit/passes/tensorexpr_fuser.cpp) and keeps those nodes
that saw nothing, of type ``Tensor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Iterator, Mapping, Sequence

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.parsers.ir.types import is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Dump, Node

_PROFILE = "prim::profile"
_PROFILE_OF_VALUE = "prim::profile_ivalue"
_UNKNOWN = ("Tensor", "Tensor?", "")


@dataclass(frozen=True)
class Profiled:
    """What was profiled, by name of a value."""

    types: Mapping[str, str] = field(default_factory=dict)
    """Of the values that have a known one."""
    ran: Mapping[str, bool] = field(default_factory=dict)
    """Whether the node that makes the value ran. A block runs as a whole, so what is seen of one of its nodes
    holds for all; values of a block of which nothing is seen are missing."""
    blocks: Mapping[str, Sequence[bool | None]] = field(default_factory=dict)
    """Whether the blocks of the node that makes the value ran."""


def profiled_in(dump: Dump) -> Profiled:
    """What the graph that a fusion pass begins with tells."""
    runs = _Runs(dump)
    return Profiled(_types(dump), runs.ran, runs.blocks)


def _types(dump: Dump) -> dict[str, str]:
    types = {v.name: v.type for v in dump.graph.params}
    for node in dump.graph.walk():
        profiled = node.attributes.get("profiled_type") if node.kind == _PROFILE else None
        if profiled and node.inputs and (profiled not in _UNKNOWN or node.inputs[0] not in types):
            types[node.inputs[0]] = profiled
        for value in node.outputs:
            text = profiled or value.type
            if types.get(value.name, "") in _UNKNOWN:
                types[value.name] = text
    return {name: text for name, text in types.items() if text not in _UNKNOWN}


class _Block:
    """A block of the graph (or all of it), and those inside it."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.ran: bool | None = None
        self.inner: list[tuple[Node, list[_Block]]] = []

    def never_ran(self) -> None:
        """Nothing runs inside what did not run."""
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
    """Which nodes of a graph ran."""

    def __init__(self, dump: Dump) -> None:
        self.ran: dict[str, bool] = {}
        self.blocks: dict[str, Sequence[bool | None]] = {}
        self._by_nodes = any(
            node.kind == _PROFILE and node.attributes.get("profiled_type") not in (None, *_UNKNOWN)
            for node in dump.graph.walk()
        )
        """The profile nodes are in the graph; NNC leaves only those that saw nothing."""
        self._seen: dict[str, bool] = {}
        """Whether the input of a profile node was seen, by the node's output."""
        whole = self._block(dump.graph.nodes, dump.graph.outputs)
        if not whole.ran:
            return
        _follow_conditions(whole)
        for block in whole.walk():
            if block.ran is not None:
                self.ran.update((value.name, block.ran) for node in block.nodes for value in node.outputs)
            for node, inner in block.inner:
                self.blocks.update((value.name, [one.ran for one in inner]) for value in node.outputs)

    def _block(self, nodes: Sequence[Node], outputs: Iterable[str]) -> _Block:
        made = _Block(nodes)
        shown: set[bool] = set()
        for node in nodes:
            shown.update(self._shown_by(node))
            if node.blocks:
                inner = [self._block(block.nodes, block.outputs) for block in node.blocks]
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
        if node.kind == _PROFILE:
            known = node.attributes
            seen = known.get("profiled_type") not in (None, *_UNKNOWN) or known.get("seen_none", "0") != "0"
            for value in node.outputs:
                self._seen[value.name] = seen
            return () if self._by_nodes else (seen,)
        if node.kind == _PROFILE_OF_VALUE:
            return (True,) if node.attributes else ()
        if not self._by_nodes:
            # A result has no type also where only nodes read it whose inputs are not profiled.
            return [True for value in node.outputs if is_tensor(value.type) and value.type not in _UNKNOWN]
        return [self._seen[name] for name in node.inputs if name in self._seen]


def _follow_conditions(whole: _Block) -> None:
    """A condition that was never true (or never false) at one prim::If was not at the others that read it."""
    never: set[tuple[str, int]] = set()
    for block in whole.walk():
        for node, inner in block.inner:
            if block.ran and node.kind == "prim::If":
                never.update((node.inputs[0], i) for i, one in enumerate(inner) if one.ran is False)
    for block in whole.walk():
        for node, inner in block.inner:
            for i, one in enumerate(inner):
                if node.kind == "prim::If" and one.ran is None and (node.inputs[0], i) in never:
                    one.never_ran()
