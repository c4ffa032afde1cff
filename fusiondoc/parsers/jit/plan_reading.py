"""Reads printed plans and group graphs, once for each form (``printed_forms.py``).

A plan is read together with the graph with which its pass began, which has more
types. Its facts about later graphs (the layers around its differentiable graphs,
the sources that its pass lost) are recorded each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from fusiondoc.parsers.ir.parse import parse_text
from fusiondoc.parsers.jit.lost_sources import (
    FoundSources,
    LostSources,
    give_sources,
)
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.patterns import Canonical, canonical_digest
from fusiondoc.parsers.jit.plan import (
    Flows,
    GroupGraph,
    Plan,
    PlanGroup,
    PlanParts,
    Traits,
)
from fusiondoc.parsers.jit.plan_walk import (
    summarise,
    summarise_group,
    summarise_rest,
)
from fusiondoc.parsers.jit.printed_forms import PrintedForms, whole
from fusiondoc.parsers.jit.profiled_graphs import profiled_in
from fusiondoc.parsers.jit.regions import Around, RegionOutput, Regions


class PlanPrint(NamedTuple):
    """A printed plan."""

    graph: Print
    began: Print | None
    """The graph with which the pass began that left this plan."""
    of_pass: bool
    """True if a fusion pass prints it."""
    executor: bool
    """True for the plan of an executor: later plans know the layers around its
    differentiable graphs."""
    rest: bool
    """True if its beginning is missing."""


class _Earlier(NamedTuple):
    """Facts from earlier plans that are needed to read an executor's plan."""

    regions: Regions
    around: Around | None
    """The layers around its graph."""
    sources: FoundSources
    """Sources of operators that lost theirs, found by an earlier pass."""


class _AtOnce(NamedTuple):
    """The facts of a plan's print that are needed immediately when it is read. Where
    they contain no text of the graph, all graphs of its form share one object."""

    traits: Traits
    learnt: tuple[tuple[tuple[str, ...], Around], ...]
    """The layers around its differentiable graphs."""
    kept: tuple[tuple[RegionOutput, ...], ...]
    sources: FoundSources | None
    """Sources of operators that lost theirs, found by this pass."""


_Read = tuple[_AtOnce, Plan, Flows]
"""The parts into which a plan's print is read."""


class _OfOnePlan(Regions):
    """The regions while one plan is read. The plan's additions are collected.

    Args:
        earlier: the facts from earlier plans.
        pattern: the print is read as a pattern: its names are not names of the log.
    """

    def __init__(self, earlier: _Earlier, pattern: bool) -> None:
        super().__init__()
        self.live = earlier.regions.live
        self.learnt: list[tuple[tuple[str, ...], Around]] = []
        self.returned: list[tuple[RegionOutput, ...]] = []
        self._earlier = earlier
        self._pattern = pattern

    def around(self, names: tuple[str, ...]) -> Around | None:
        if self._pattern:
            return self._earlier.around
        return self._earlier.regions.around(names)

    def learn(self, names: tuple[str, ...], around: Around) -> None:
        self.learnt.append((names, around))

    def keep(self, returned: tuple[RegionOutput, ...]) -> None:
        self.returned.append(returned)


def read_plan(
    printed: PlanPrint, forms: PrintedForms, regions: Regions, sources: LostSources
) -> PlanParts:
    """Return the plan of a print; its facts about later plans go into ``regions``
    and ``sources``."""
    texts = [
        graph.printed()
        for graph in (printed.graph, printed.began)
        if graph is not None
    ]
    about = printed.of_pass, printed.executor, printed.rest
    if not printed.executor:
        earlier = _Earlier(Regions(), None, {})
        at_once, plan, flows = forms.read(
            texts, (*about, None), partial(_read, printed, earlier)
        )
        return PlanParts(at_once.get().traits, plan, flows)
    inputs = regions.inputs_of(printed.graph)
    finds_sources = _finds_sources(printed)
    around = regions.around(inputs)
    earlier = _Earlier(
        regions, around, {} if finds_sources else sources.known(inputs)
    )
    # Both contain source positions and value names.
    if regions.live or earlier.sources:
        at_once, plan, flows = whole(partial(_read, printed, earlier), texts)
    else:
        at_once, plan, flows = forms.read(
            texts, (*about, around), partial(_read, printed, earlier)
        )
    read: _AtOnce = at_once.get()
    for names, surroundings in read.learnt:
        regions.learn(names, surroundings)
    for returned in read.kept:
        regions.keep(returned)
    if finds_sources and read.sources is not None:
        sources.note(inputs, read.sources)
    return PlanParts(read.traits, plan, flows)


def _finds_sources(printed: PlanPrint) -> bool:
    """True if the sources that the pass lost can be found in the graph with which
    it began."""
    return printed.of_pass and printed.began is not None


def _read(
    printed: PlanPrint,
    earlier: _Earlier,
    texts: Sequence[bytes],
    canonical: Canonical,
) -> _Read:
    """Read the texts of a plan and, if it is in the log, of the graph with which
    its pass began."""
    dump, *began = map(parse_text, texts)
    before = began[0] if began else None
    found = None
    if printed.executor:
        found = give_sources(
            dump, before if _finds_sources(printed) else None, earlier.sources
        )
    if printed.rest:
        plan, flows = summarise_rest(dump, canonical)
        return _AtOnce(plan.traits(flows), (), (), found), plan, flows
    added = _OfOnePlan(earlier, pattern=canonical is not canonical_digest)
    profiled = profiled_in(before) if before is not None else None
    plan, flows = summarise(dump, profiled, added, canonical)
    return (
        _AtOnce(
            plan.traits(flows), tuple(added.learnt), tuple(added.returned), found
        ),
        plan,
        flows,
    )


def read_group(graph: Print, forms: PrintedForms) -> GroupGraph:
    """Return the graph of a printed body."""

    def read(texts: Sequence[bytes], canonical: Canonical) -> tuple[GroupGraph]:
        group = summarise_group(parse_text(texts[0]), canonical)
        return (GroupGraph(group.canonical, tuple([op for op, _ in group.body])),)

    (kept,) = forms.read([graph.printed()], None, read)
    body: GroupGraph = kept.get()
    return body


def read_cut_group(graph: Print) -> PlanGroup:
    """Return the body of a group as far as it is printed."""
    return summarise_group(parse_text(graph.printed()))
