"""The artifact ``fusion`` of TORCH_LOGS: rounds, candidates, refusals and merges of
each compiled graph (``torch/_inductor/scheduler.py``; the forms are the same in
2.6, 2.11 and 2.13).

The candidates of a graph's last round, with what was merged in it, are its final
nodes. After "fusion complete" one more round may follow, which has no header.
"""

from __future__ import annotations

import re
from collections import deque

from fusiondoc.fusers.inductor.compilation import (
    FinalKind,
    FinalNode,
    Line,
    Refusal,
)
from fusiondoc.fusers.inductor.node_kinds import final_kind
from fusiondoc.numbers import whole_number

MOST_REFUSALS = 4096
"""Number of refusals of a graph that are kept, which are the last; the others are
only counted."""

_HEADER = re.compile(r"===== attempting fusion \((\d+)/\d+\): (\d+) nodes =====")
_LIST = "fuse_nodes_once, candidates"
_COMPLETE = "===== fusion complete"
_KNOWN = (
    *("found ", "completed fusion round", _COMPLETE, "can fuse "),
    # measured and combined kernels
    *("ComboKernel", "Exception in compiling ", "Shared memory after inversion: "),
)
"""Beginnings of lines without a decision (``fusion_log.debug`` in
torch/_inductor/scheduler.py, 2.6 to 2.14)."""
_CANDIDATE = re.compile(r"\s*(\w+)\((?:name='|nodes=)([\w]+)")
_REFUSED = re.compile(r"cannot fuse (\w+) with (\w+): (.*)", re.DOTALL)
_REFUSED_BY_BENCHMARK = re.compile(r"cannot fuse \(benchmark\): (.*)", re.DOTALL)
_NODES = r"(\w+\(\[.*?\]\)|\{.*?\}|\S+)"
"""A set of buffers, or the name of a node."""
_BENCHMARKED = re.compile(
    rf"(?:fusing |node1 )?{_NODES} (?:with|and) (?:node2 )?{_NODES}"
)
_FUSING = re.compile(r"fusing (\w+) with (\w+)")
_MEMBER = re.compile(r"(?:op|buf)\d+")
_ORIGINS = re.compile(r"origins=(?:OrderedSet\(\[|\{)([\w, .]*)")
_FRAME = re.compile(r"File \"([^\"]{1,400})\", line (\d{1,9}), in")
_COLOUR = re.compile("\x1b\\[[0-9;]*m|\\[\\d{1,3}m(?=[\\d.])|(?<=[\\dx])\\[0?m")


def members_of(name: str) -> tuple[str, ...]:
    """Return ``op0``, ``op1`` for ``op0_op1``; the name itself if it does not
    consist of such names."""
    members = tuple(_MEMBER.findall(name))
    if "_".join(members) == name:
        return members
    return (name,)


class Decisions:
    """The rounds of one graph while they are read."""

    def __init__(self, compile_id: str | None, line: Line) -> None:
        self.compile_id = compile_id
        self.line = line
        self.round = 0
        self._listed = False
        """True after the candidates of this round were listed."""
        self._candidates: dict[str, tuple[str, str, Line]] = {}
        """Name -> class, text and line of each candidate of the last round."""
        self._merged: list[tuple[str, str]] = []
        self._refusals: deque[Refusal] = deque(maxlen=MOST_REFUSALS)
        self.left_out = 0
        """Number of refusals that are not kept."""
        self.complete = False
        """True if the last round is complete."""

    def begin_round(self, number: int) -> None:
        """Begin a round with a header."""
        self.round, self._listed = number, False

    def list_candidates(self) -> None:
        """Begin the list of candidates of a round."""
        if self._listed:  # the round after "fusion complete" has no header
            self.round += 1
        self._listed = True
        self._candidates.clear()
        self._merged.clear()

    def candidate(self, text: str, line: Line) -> bool:
        """Add a candidate; return False for another text. If the beginning of the
        list is missing, the rest of it does not count as final nodes."""
        found = _CANDIDATE.match(text)
        if found is not None and self._listed:
            self._candidates[found.group(2)] = (found.group(1), text, line)
        return found is not None

    def refused(
        self,
        first: str,
        second: str,
        text: str,
        line: Line,
        by_benchmark: bool = False,
    ) -> None:
        """Record that two nodes were not fused."""
        if len(self._refusals) == MOST_REFUSALS:
            self.left_out += 1
        self._refusals.append(
            Refusal(first, second, text, self.round, False, line, by_benchmark)
        )

    def merged(self, first: str, second: str) -> None:
        """Record that two nodes were fused in this round."""
        self._merged.append((first, second))

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The last refusals, in order."""
        refusals = []
        for refusal in self._refusals:
            refusals.append(_of_last_round(refusal, self.round))
        return tuple(refusals)

    def final_nodes(self) -> list[FinalNode]:
        """Return the nodes of the last round, with the merges of that round
        applied."""
        nodes = {}
        for name, found in self._candidates.items():
            nodes[name] = _final_node(name, *found)
        for first, second in self._merged:
            if first in nodes and second in nodes:
                _merge(nodes, first, second)
        return list(nodes.values())


def _of_last_round(refusal: Refusal, last: int) -> Refusal:
    if refusal.round != last:
        return refusal
    return Refusal(
        refusal.first,
        refusal.second,
        refusal.text,
        last,
        True,
        refusal.line,
        refusal.by_benchmark,
    )


def _final_node(
    name: str, scheduler_class: str, text: str, line: Line
) -> FinalNode:
    operators: dict[str, None] = {}
    for found in _ORIGINS.finditer(text):
        operators.update(
            dict.fromkeys(part.strip() for part in found.group(1).split(","))
        )
    operators.pop("", None)
    return FinalNode(
        name,
        members_of(name),
        final_kind(scheduler_class),
        scheduler_class,
        tuple(operators),
        stack_sources=_sources(text),
        lines=(line,),
    )


def _sources(text: str) -> tuple[str, ...]:
    """Return ``file:line`` of the innermost frame of each stack in a candidate."""
    sources: dict[str, None] = {}
    for stack in text.split("stack_traces = {")[1:]:
        frames = _FRAME.findall(stack)
        if frames:
            sources[f"{frames[-1][0]}:{frames[-1][1]}"] = None
    return tuple(sources)


def _merge(nodes: dict[str, FinalNode], first: str, second: str) -> None:
    """Merge two nodes, at the position of the first."""
    one, other = nodes[first], nodes.pop(second)
    name = f"{first}_{second}"
    both = FinalNode(
        name,
        one.members + other.members,
        FinalKind.LOOPS if one.kind is other.kind is FinalKind.LOOPS else one.kind,
        "FusedSchedulerNode"
        if one.scheduler_class == "SchedulerNode"
        else one.scheduler_class,
        tuple(dict.fromkeys(one.operators + other.operators)),
        stack_sources=tuple(dict.fromkeys(one.stack_sources + other.stack_sources)),
        lines=one.lines + other.lines,
    )
    in_order = list(nodes.items())
    nodes.clear()
    for key, node in in_order:
        if node is one:
            nodes[name] = both
        else:
            nodes[key] = node


class FusionLog:
    """Reads the lines of the artifact ``fusion`` of one process."""

    def __init__(self) -> None:
        self._open: dict[str | None, Decisions] = {}

    def take(
        self, compile_id: str | None, text: str, line: Line
    ) -> tuple[bool, Decisions | None]:
        """Read a line of the artifact.

        Returns: True if its form is known, and the graph that begins with it, if
        one does.
        """
        header = _HEADER.match(text)
        graph = self._open.get(compile_id)
        is_list = text.startswith(_LIST)
        if header is not None:
            number = whole_number(header.group(1)) or 1
            begins = graph is None or number == 1
            if graph is None or begins:
                graph = self._begin(compile_id, line)
            graph.begin_round(number)
            return True, graph if begins else None
        if graph is not None:
            return _take(graph, text, line), None
        if not is_list:
            return self._without_beginning(compile_id, text, line)
        graph = self._begin(compile_id, line)
        graph.begin_round(1)
        graph.list_candidates()
        return True, graph

    def _without_beginning(
        self, compile_id: str | None, text: str, line: Line
    ) -> tuple[bool, Decisions | None]:
        """Read a line of a graph whose first lines are missing: they were cut off,
        or filtered out by a search."""
        graph = Decisions(compile_id, line)
        if not text.strip() or not _take(graph, text, line):
            return not text.strip(), None
        self._open[compile_id] = graph
        return True, graph

    def _begin(self, compile_id: str | None, line: Line) -> Decisions:
        graph = Decisions(compile_id, line)
        self._open[compile_id] = graph
        return graph


def _take(graph: Decisions, text: str, line: Line) -> bool:
    """Read a line of a graph that has begun; return False if its form is not
    known."""
    if text.startswith(_LIST):
        graph.list_candidates()
        return True
    if text.startswith("cannot fuse"):
        return _take_refusal(graph, text, line)
    if text.startswith("fusing "):
        found = _FUSING.match(text)
        if found is not None:
            graph.merged(*found.groups())
        return found is not None
    if text.startswith(_KNOWN):
        graph.complete = graph.complete or text.startswith(_COMPLETE)
        return True
    return not text.strip() or graph.candidate(text, line)


def _take_refusal(graph: Decisions, text: str, line: Line) -> bool:
    found = _REFUSED.match(text)
    if found is not None:
        first, second, reason = found.groups()
        graph.refused(first, second, reason, line)
        return True
    measured = _REFUSED_BY_BENCHMARK.match(text)
    if measured is None:
        return False
    text = _COLOUR.sub("", measured.group(1))
    nodes = _BENCHMARKED.match(text)
    if nodes:
        first, second = ("_".join(_MEMBER.findall(part)) for part in nodes.groups())
    else:
        first, second = "", ""
    graph.refused(first, second, text, line, by_benchmark=True)
    return True
