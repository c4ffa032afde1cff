"""Printed plans and graphs of groups, read once for each form that they have (``printed_forms.py``).

A plan is read together with the graph that its pass began with, which tells more types. What it tells of
later graphs (the layers around its differentiable graphs, the sources that its pass lost) is noted each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fusiondoc.parsers.ir.parse import parse_text
from fusiondoc.parsers.jit.earlier_graphs import Around, Kept, Regions, profiled_in
from fusiondoc.parsers.jit.lost_sources import FoundSources, LostSources, give_sources
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.plan import Plan, PlanGroup
from fusiondoc.parsers.jit.plan_walk import summarise, summarise_group, summarise_rest
from fusiondoc.parsers.jit.printed_forms import Canonical, PrintedForms, canonical_digest


class PlanPrint(NamedTuple):
    """A printed plan."""

    graph: Print
    began: Print | None
    """The graph that the pass began with which left it."""
    of_pass: bool
    """A fusion pass prints it."""
    executor: bool
    """It is that of an executor: the layers around its differentiable graphs are known to later plans."""
    rest: bool
    """Its beginning is missing."""


class _Told(NamedTuple):
    """The plan, and what it tells of later graphs."""

    plan: Plan
    learnt: list[tuple[tuple[str, ...], Around]]
    kept: list[tuple[Kept, ...]]
    sources: FoundSources | None
    """Those of operators that lost their own, as the pass found them."""


class _OfOnePlan(Regions):
    """The regions as one plan is read: ``of`` answers, and what the plan adds is collected."""

    def __init__(self, of: Regions, known: Around | None, asks: bool) -> None:
        super().__init__()
        self.live = of.live
        self.learnt: list[tuple[tuple[str, ...], Around]] = []
        self.returned: list[tuple[Kept, ...]] = []
        self._of = of
        self._around = known
        self._asks = asks

    def around(self, names: tuple[str, ...]) -> Around | None:
        return self._of.around(names) if self._asks else self._around

    def learn(self, names: tuple[str, ...], around: Around) -> None:
        self.learnt.append((names, around))

    def keep(self, returned: tuple[Kept, ...]) -> None:
        self.returned.append(returned)


def read_plan(printed: PlanPrint, forms: PrintedForms, regions: Regions, sources: LostSources) -> Plan:
    """What a printed plan says; what it tells of later ones goes into ``regions`` and ``sources``."""
    graph, began, of_pass, executor, rest = printed
    inputs = regions.inputs_of(graph) if executor else ()
    around = regions.around(inputs) if executor else None
    finds_sources = of_pass and began is not None
    known: FoundSources = sources.known(inputs) if executor and not finds_sources else {}

    def read(texts: Sequence[bytes], canonical: Canonical) -> _Told:
        dumps = list(map(parse_text, texts))
        dump, before = dumps[0], dumps[1] if began is not None else None
        found = give_sources(dump, before if finds_sources else None, known) if executor else None
        if rest:
            return _Told(summarise_rest(dump, canonical), [], [], found)
        added = _OfOnePlan(regions if executor else Regions(), around, canonical is canonical_digest)
        profiled = profiled_in(before) if before is not None else None
        plan = summarise(dump, profiled, added, canonical)
        return _Told(plan, added.learnt, added.returned, found)

    texts = [one.printed() for one in (graph, began) if one is not None]
    if regions.live or known:  # they name source positions and values
        told = read(texts, canonical_digest)
    else:
        told = forms.read(texts, (of_pass, executor, rest, around), read)
    if executor:
        for names, surroundings in told.learnt:
            regions.learn(names, surroundings)
        for returned in told.kept:
            regions.keep(returned)
        if finds_sources and told.sources is not None:
            sources.note(inputs, told.sources)
    return told.plan


def read_group(graph: Print, forms: PrintedForms) -> PlanGroup:
    """What a printed graph of a group says."""

    def read(texts: Sequence[bytes], canonical: Canonical) -> PlanGroup:
        return summarise_group(parse_text(texts[0]), canonical)

    return forms.read([graph.printed()], None, read)
