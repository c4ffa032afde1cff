"""The sources of operators that plans print without one.

A fusion pass may replace views by copies while it partitions a graph. The views
that it puts back (``revertAliasCopyOps`` of graph_fuser.cpp, 2.0 and 2.1) have no
source and a new name, but the inputs of the original node; the graph with which the
pass began has that node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from fusiondoc.parsers.ir import IrDump, Node
from fusiondoc.parsers.jit.profiled_graphs import PROFILE, PROFILE_OF_VALUE

_MOST_PASSES = 50
"""Number of passes that are remembered: the executor prints its plan after those of
its fallback functions."""

_Key = tuple[str, str, tuple[str, ...]]
"""First output, kind and inputs of a node."""

FoundSources = Mapping[_Key, str]

_NOTHING: FoundSources = {}


class LostSources:
    """The sources that the passes of one stream found."""

    def __init__(self) -> None:
        self._of_passes: deque[tuple[tuple[str, ...], FoundSources]] = deque(
            maxlen=_MOST_PASSES
        )
        """The sources that each pass found, with the inputs of its graph."""

    def note(self, inputs: tuple[str, ...], found: FoundSources) -> None:
        self._of_passes.appendleft((inputs, found))

    def known(self, inputs: tuple[str, ...]) -> FoundSources:
        """Return the sources found by the last pass over a graph with these
        inputs."""
        return next(
            (sources for of, sources in self._of_passes if of == inputs), _NOTHING
        )


def give_sources(
    dump: IrDump, began: IrDump | None, known: FoundSources
) -> FoundSources | None:
    """Set the sources of a plan's operators that lost them. Return the sources
    found in the graph with which the pass began, or None if no operator lost its
    source.

    Args:
        began: that graph; None if an executor prints the plan.
        known: the sources for a plan that an executor prints.
    """
    lost = [
        node for node in dump.graph.walk() if node.source is None and _is_lost(node)
    ]
    if not lost:
        return None
    found = _found(lost, began) if began is not None else known
    for node in lost:
        node.source = found.get(_key(node))
    return found


def _is_lost(node: Node) -> bool:
    return node.kind.startswith("aten::") and bool(node.outputs)


def _key(node: Node) -> _Key:
    return node.outputs[0].name, node.kind, node.inputs


def _found(lost: Sequence[Node], began: IrDump) -> dict[_Key, str]:
    before: dict[tuple[str, tuple[str, ...]], Node | None] = {}
    profiled: dict[str, str] = {}
    for node in began.graph.walk():
        inputs = tuple([profiled.get(name, name) for name in node.inputs])
        if node.kind in (PROFILE, PROFILE_OF_VALUE) and inputs:
            profiled.update((value.name, inputs[0]) for value in node.outputs)
        elif node.source is not None and node.outputs:
            key = node.kind, inputs
            # Two equal nodes cannot be distinguished.
            before[key] = node if key not in before else None
    old_names: dict[str, str] = {}
    found: dict[_Key, str] = {}
    for node in lost:
        old = before.get(
            (node.kind, tuple([old_names.get(name, name) for name in node.inputs]))
        )
        if old is not None and old.source is not None:
            found[_key(node)] = old.source
            old_names.update(
                (new.name, value.name)
                for new, value in zip(node.outputs, old.outputs)
            )
    return found
