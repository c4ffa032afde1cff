"""Groups that are the same except for their names or positions: files, lines,
functions.

The matcher of ``compare`` decides which groups are the same ones, by their
operators. A file of expectations holds no lines of the run that it was written
from. So something only counts as moved where the section accounts for every group
of the run: there are as many as ``number_of_groups`` is (or more of those that are
expected), and each that fulfils nothing is, but for its names, one that an
expectation lacks. Of a group that was lost none is left to be it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusiondoc.comparison.group_match import Cluster, items_of, match
from fusiondoc.comparison.positions import NOWHERE
from fusiondoc.expectations import ExpectationSection, GroupExpectation, SourceRange
from fusiondoc.expectations.assignment import (
    Assignment,
    Matched,
    specialised_once,
    with_instances,
)
from fusiondoc.expectations.near_miss import mismatches, same_operators, short
from fusiondoc.expectations.outcome import new_name
from fusiondoc.expectations.source_lines import (
    is_in,
    line_of,
    named,
    names_at,
    near,
)
from fusiondoc.model import dataclass
from fusiondoc.model.report import Group, Instance, OpNode, Report
from fusiondoc.model.source import Source, path_ends_with


@dataclass(frozen=True)
class Moved:
    """An expectation that groups fulfil under other names."""

    groups: tuple[Group, ...]
    """These groups."""
    number: int
    """Number of their instances."""
    names: Mapping[str, tuple[str, ...]]
    """Key of the expectation -> its values now: ``source``, ``function``,
    ``module`` or ``ops``."""
    note: str


def moved_groups(
    section: ExpectationSection, found: Assignment, report: Report
) -> dict[int, Moved]:
    """Index of an expectation -> the groups that now correspond to it; empty if a
    group is lost or new."""
    lacking = _lacking(section, found, report)
    wanted = []
    for number, matched in lacking.items():
        wanted.append(as_group(matched.wanted, matched.lacking, str(number)))
    free = {group.id: group for group in report.groups if found.free.get(group.id)}
    left = []
    for name, group in free.items():
        left.append(
            _without_more(with_instances(group, sorted(found.free[name])), wanted)
        )
    became: dict[int, list[Group]] = {}
    for cluster in clusters(wanted, left):
        if len(cluster.a) != 1 or len(cluster.b) != 1:
            return {}
        index, group = int(cluster.a[0].group.id), free[cluster.b[0].group.id]
        if not _the_same(found.matched[index].wanted, group, report):
            return {}
        became.setdefault(index, []).append(group)
    return {
        index: _moved(found.matched[index].wanted, groups)
        for index, groups in became.items()
    }


def _lacking(
    section: ExpectationSection, found: Assignment, report: Report
) -> dict[int, Matched]:
    """Index of an expectation -> its groups, if those are too few; empty if the
    section does not cover all groups, or if there are too many."""
    lacking = {}
    for index, matched in enumerate(found.matched):
        if matched.lacking:
            lacking[index] = matched
    more = 0
    for matched in found.matched:
        if matched.is_whole:
            more += matched.more
    are_named = all(
        matched.is_whole and matched.lacking <= _MOST_INSTANCES
        for matched in lacking.values()
    )
    if are_named and has_its_number(section, report, more):
        return lacking
    return {}


def _without_more(group: Group, wanted: Sequence[Group]) -> Group:
    """The group reduced by the part that it repeats more often than the expected
    one: with more equal layers it would be another group for the matcher."""
    for expected in wanted:
        if one_more(expected.ops, group.ops) is not None:
            return replace(group, nodes=expected.nodes)
    return group


def has_its_number(
    section: ExpectationSection, report: Report, more: int = 0
) -> bool:
    """True if the section has a number of groups, and there are exactly that many.

    Args:
        more: groups beyond that, which are known to be equal to expected ones.
    """
    wanted = section.number_of_groups
    return wanted is not None and specialised_once(report) - more in (
        wanted.at_least,
        wanted.at_most,
    )


def as_group(wanted: GroupExpectation, number: int, name: str) -> Group:
    """A group made from an expectation, for the matcher: ``number`` instances of
    it."""
    nodes = [OpNode(op, None, None) for op in wanted.ops]
    group = Group.of_operators(name, wanted.phase, nodes)
    return replace(group, instances=(Instance(None, (), None),) * number)


def clusters(wanted: Sequence[Group], there: Sequence[Group]) -> list[Cluster]:
    """Match expected groups with existing ones, by the matcher of ``compare``; the
    expectations have no lines."""
    a, b = items_of(wanted, lambda _: NOWHERE), items_of(there, lambda _: NOWHERE)
    return match(a, b, lambda item: None)


def alike(section: ExpectationSection, report: Report) -> float:
    """Share of equal groups among the groups that a section names in full and those
    of a run, from 0 to 1."""
    wanted = []
    for index, group in enumerate(section.groups):
        if group.ops and group.order != "contains":
            wanted.append(
                as_group(
                    group,
                    min(group.count.at_least or 0, _MOST_INSTANCES),
                    str(index),
                )
            )
    there = [group for group in report.groups if group.respecialises is None]
    equal = total = 0
    for cluster in clusters(wanted, there):
        total += len(cluster.a) + len(cluster.b)
        if (
            len(cluster.a) == len(cluster.b) == 1
            and cluster.a[0].ops == cluster.b[0].ops
        ):
            equal += 2
    if total:
        return equal / total
    return 0.0


_MOST_INSTANCES = 1000
"""Most instances of one expectation that are matched: a file can require any
number."""


def _the_same(wanted: GroupExpectation, group: Group, report: Report) -> bool:
    """True if the group is the expected one, except for names and added
    operators."""
    kernels = {kernel.id: kernel for kernel in report.kernels}
    names = _names_now(wanted, [group])
    for mismatch in mismatches(group, wanted, kernels):
        if mismatch.what == "operators":
            if sorted(group.ops) != sorted(wanted.ops) and not one_more(
                wanted.ops, group.ops
            ):
                return False
        elif mismatch.what not in names:
            return False
    return True


def one_more(few: Sequence[str], many: Sequence[str]) -> tuple[str, ...] | None:
    """The part that ``many`` repeats more often than ``few``, if they are otherwise
    the same: one more equal layer in one group; else None."""
    longer = len(many) - len(few)
    if longer <= 0:
        return None
    start = 0
    while start < len(few) and few[start] == many[start]:
        start += 1
    end = 0
    while end < len(few) and few[-1 - end] == many[-1 - end]:
        end += 1
    for size in range(1, longer + 1):
        if longer % size:
            continue
        for end_of_part in range(max(size, len(few) - end), start + 1):
            part = tuple(few[end_of_part - size : end_of_part])
            if tuple(many[end_of_part : end_of_part + longer]) == part * (
                longer // size
            ):
                return part
    return None


def _moved(wanted: GroupExpectation, groups: Sequence[Group]) -> Moved:
    heads = tuple({group.id: group for group in groups}.values())
    names = _names_now(wanted, heads)
    notes = []
    for key, values in names.items():
        notes.append(new_name(_before(wanted, key), values))
    if not any(same_operators(group.ops, wanted) for group in heads):
        part = one_more(wanted.ops, heads[0].ops)
        if part is not None:
            notes.append(f"it has more of {short(part)}")
        else:
            notes.append("its operators are in another order; --update writes that")
            names["ops"] = heads[0].ops
    return Moved(heads, len(groups), names, "; ".join(notes))


def _before(wanted: GroupExpectation, key: str) -> tuple[object, ...]:
    values = getattr(wanted, key)
    if isinstance(values, tuple):
        return values
    return (values,)


def _names_now(
    wanted: GroupExpectation, groups: Sequence[Group]
) -> dict[str, tuple[str, ...]]:
    """The conditions on names that do not hold for the groups, each with names that
    would hold."""
    names: dict[str, tuple[str, ...]] = {}
    lines = []
    for group in groups:
        for line in map(line_of, group.nodes):
            if line is not None:
                lines.append(line)
    sources = [_source_now(source, lines) for source in wanted.source]
    if sources != [str(source) for source in wanted.source]:
        names["source"] = tuple(dict.fromkeys(sources))
    around = []
    for known in map(names_at, dict.fromkeys(lines)):
        if known is not None:
            around.append(known)
    function = _name_now(wanted.function, [name for name, _ in around])
    if function is not None:
        names["function"] = (function,)
    module = _name_now(wanted.module, [name for _, name in around])
    if module is not None:
        names["module"] = (module,)
    return names


def _name_now(wanted: str | None, found: Sequence[str]) -> str | None:
    """The most common name, if the expected one is not among them; empty names are
    ignored."""
    there = Counter(filter(None, found))
    if wanted is None or not there or any(named(name, wanted) for name in there):
        return None
    return there.most_common(1)[0][0]


def _source_now(wanted: SourceRange, lines: Sequence[Source]) -> str:
    """The current lines of a group that were in this range: in the file of that
    name, else in the file that has most of them."""
    if not lines or any(is_in(line, wanted) for line in lines):
        return str(wanted)
    files = Counter(line.file for line in lines)
    same = next((file for file in files if path_ends_with(file, wanted.file)), None)
    file = same or files.most_common(1)[0][0]
    shown = wanted.file if same else near(Source(file, 1))[: -len(":1")]
    numbers = []
    for line in lines:
        if line.file == file:
            numbers.append(line.line)
    if wanted.first is None:
        return shown
    return str(SourceRange(shown, min(numbers), max(numbers)))
