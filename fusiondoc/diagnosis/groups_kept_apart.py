"""Groups of a plan that are separated by more than operators outside groups: by
prints between them, by a number that must be waited for, by the end of a
differentiable graph.

A fusion pass moves no operator past a print or a warning (``printed_later.py``),
and a differentiable graph ends there. The log does not show a print as an operator
outside groups: it is found in the user's source between the lines of two groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.changes.line_edits import line_edits, shown_lines
from fusiondoc.changes.printed_later import prints_between
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.gains import Gain, Rated
from fusiondoc.diagnosis.regions_as_groups import regions_as_groups
from fusiondoc.diagnosis.rules import RunFacts, in_package
from fusiondoc.diagnosis.unlocked import WouldBeGroup, views_of
from fusiondoc.fusers import facts_of
from fusiondoc.graph import graph_of
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Group, Program, ProgramNode, Report
from fusiondoc.model.source import Source

Pair = tuple[Program, int, int]
"""Two groups of a program, by their node indexes: the second takes a result of the
first."""


def prints_between_groups(report: Report, run: RunFacts) -> Iterator[Rated]:
    """Yield a change for each function in which prints separate groups. A trace has
    no prints."""
    if (
        not facts_of(run.fuser).limits.stops_at_side_effects
        or run.traced
        or report.texts is None
        or len(report.groups) < 2
    ):
        return
    by_file: dict[str, list[_PairAtLines]] = {}
    groups = {group.id: group for group in report.groups}
    for pair in _pairs(regions_as_groups(report)):
        found = _lines_between(pair, groups)
        if found is not None:
            file, lines = found
            by_file.setdefault(file, []).append((pair, lines))
    for file, pairs in by_file.items():
        text = report.texts.source(file) if not in_package(file) else None
        if text is not None:
            waiting = [one for one in pairs if not _waits_for_number(text, one[1])]
            yield from _printed_later(text, file, waiting)


_PairAtLines = tuple[Pair, tuple[int, int]]
"""A pair, the last line of its first group and the first line of its second
group."""


def _printed_later(
    text: str, name: str, pairs: Sequence[_PairAtLines]
) -> Iterator[Rated]:
    """Yield changes that move the prints of a file between pairs of groups behind
    the computation."""
    file = parsed_text(text, name)
    for found in (
        prints_between(file, [lines for _, lines in pairs])
        if file is not None
        else ()
    ):
        assert file is not None
        edits = line_edits(file, name, found.edits)
        if not edits:
            continue
        last = file.last_line(found.last)
        before, after = shown_lines(file, edits, found.statements[0].lineno, last)
        change = Change(
            ChangeKind.SPLIT,
            "Print after what is computed",
            before=before,
            after=after,
            where=(f"{name}:{edits[0].line}",),
            lines=edits,
        )
        groups = list(_joined([pairs[number][0] for number in sorted(found.pairs)]))
        yield Rated(change, Gain.of(groups), groups)


_NUMBER = re.compile(r"\b(?:float|int|bool)\(|\.item\(|\.tolist\(")


def _waits_for_number(text: str, lines: tuple[int, int]) -> bool:
    """True if a tensor is converted to a number in these lines: its readers wait
    for it, and the plan has no edges for numbers."""
    return any(
        _NUMBER.search(line) for line in text.splitlines()[lines[0] - 1 : lines[1]]
    )


def with_numbers(report: Report, found: Sequence[Change]) -> Report:
    """Return the report with edges for numbers that would be kept as tensors: their
    readers wait for these as well."""
    kept = [one for one in found if one.kind is ChangeKind.NUMBER]
    if not kept:
        return report
    groups = {group.id: group for group in report.groups}
    programs = []
    for program in report.programs:
        lines = [_lines_of(node, groups) for node in program.nodes]
        more = []
        for one in kept:
            read = {f"{edit.file}:{edit.line}" for edit in one.lines}
            takers = []
            for i, node in enumerate(program.nodes):
                if node.row in one.rows:
                    takers.append(i)
            more += [
                (i, taker)
                for taker in takers
                for i in range(taker)
                if lines[i] & read
            ]
        programs.append(
            replace(program, edges=tuple(dict.fromkeys([*program.edges, *more])))
        )
    return replace(report, programs=tuple(programs))


def _lines_of(node: ProgramNode, groups: Mapping[str, Group]) -> set[str]:
    group = groups.get(node.group or "")
    if group is not None:
        found = [one.user_source for one in group.nodes]
    else:
        found = [node.user_source]
    sources = [Source.parse(one) for one in found]
    lines = set()
    for source in sources:
        if source is not None:
            lines.add(source.at_line)
    return lines


def _pairs(report: Report) -> Iterator[Pair]:
    """Yield pairs of groups in the same block of which one takes a result of the
    other, with nothing else between them."""
    for program in report.programs:
        if program.specialisation > 1 or program.cut:
            continue
        graph = graph_of(program)
        for a, b in program.edges:
            one, other = program.nodes[a], program.nodes[b]
            both = one.kind == other.kind == "group" and one.inside == other.inside
            if both and graph.detour(a, b) is None:
                yield program, a, b


def _lines_between(
    pair: Pair, groups: Mapping[str, Group]
) -> tuple[str, tuple[int, int]] | None:
    """Return the file of both groups, the last line of the first group and the
    first line of the second."""
    program, maker, taker = pair
    before = _sources_of(program.nodes[maker], groups)
    after = _sources_of(program.nodes[taker], groups)
    if (
        not before
        or not after
        or len({source.file for source in (*before, *after)}) != 1
    ):
        return None
    last, first = (
        max(source.line for source in before),
        min(source.line for source in after),
    )
    if last < first:
        return before[0].file, (last, first)
    return None


def _sources_of(node: ProgramNode, groups: Mapping[str, Group]) -> Sequence[Source]:
    """Return the user's lines of a group; none if one of them is not known."""
    group = groups.get(node.group or "")
    found = []
    if group is not None:
        found = [Source.parse(one.user_source) for one in group.nodes]
    known = []
    for source in found:
        if source is not None and source.has_file:
            known.append(source)
    if len(known) == len(found):
        return known
    return ()


def _joined(pairs: Sequence[Pair]) -> Iterator[WouldBeGroup]:
    """Yield the groups that the pairs become: connected pairs of one program become
    one group."""
    parts: list[tuple[Program, set[int]]] = []
    for program, a, b in pairs:
        mine = {a, b}
        touching = [one for one in parts if one[0] is program and one[1] & mine]
        parts = [
            one for one in parts if all(one is not other for other in touching)
        ]
        parts.append((program, mine.union(*(one[1] for one in touching))))
    for program, members in parts:
        names = [program.nodes[i].group for i in sorted(members)]
        groups = tuple(dict.fromkeys(name for name in names if name is not None))
        graph = graph_of(program)
        saved = graph.kept_in_registers(sorted(members), views_of(graph))
        yield WouldBeGroup(
            frozenset(), frozenset(), (), groups, len(members), saved
        )
