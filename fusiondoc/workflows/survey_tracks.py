"""Groups of a model followed through its programs: a group whose lines moved, or
whose operators are now in a larger group or in several, is the same one.

Programs are known by their lines (a run that ended early shows some of them), and
the lines of each are aligned with those of the one before it, as ``compare`` aligns
two reports.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.alignment import Marks, align
from fusiondoc.workflows.survey_plans import LocatedOperator, RunPlan

Line = tuple[str, int]
"""(file, line)."""

Node = tuple[str, int]
"""(operator, number of its line in all programs of a model)."""

NOWHERE, FORMULA = -1, -2
"""Lines of operators without a source, and of autodiff formulas (``<string>``),
which several texts share."""

MOST_PROGRAMS = 40
"""Most programs with which the lines of a run are compared, newest first: branches
are developed in parallel."""

WHOLE = 0.6
"""Least share of the last program's lines that the next program must have; with
fewer it is only a part of a program."""

LIKE = 0.5
"""Least share of equal lines with which a file of another name counts as the
renamed one."""


class Track(NamedTuple):
    """A group, independent of its current lines."""

    phase: str | None
    nodes: tuple[Node, ...]
    """Sorted nodes."""


class _Program:
    """The lines of one version of a program."""

    def __init__(self) -> None:
        self.marks: dict[Line, set[tuple[str, int]]] = defaultdict(set)

    def add(self, operators: Iterable[LocatedOperator]) -> None:
        for operator in operators:
            self.marks[operator.file, operator.line].add(
                (operator.op, operator.column)
            )

    def files(self) -> dict[str, list[tuple[int, Marks]]]:
        """File -> its lines in order, with their operators."""
        found: dict[str, list[tuple[int, Marks]]] = defaultdict(list)
        for (file, line), marks in sorted(self.marks.items()):
            found[file].append((line, frozenset(marks)))
        return found


def _is_line(operator: LocatedOperator) -> bool:
    return bool(operator.file) and not operator.file.startswith("<")


def _operators(plan: RunPlan) -> list[LocatedOperator]:
    found: list[LocatedOperator] = []
    for group in plan.groups:
        found.extend(group.operators)
    operators = []
    for operator in (*found, *(row.operator for row in plan.outside)):
        if _is_line(operator):
            operators.append(operator)
    return operators


class Programs:
    """The programs of a model, numbered as they appeared.

    Args:
        plans: plans of its runs, in the order of time.
    """

    def __init__(self, plans: Sequence[RunPlan]) -> None:
        self._programs: list[_Program] = []
        self._of_plan: dict[str, int | None] = {}
        for plan in plans:
            if plan.digest not in self._of_plan:
                self._of_plan[plan.digest] = self._index_of(plan)
        self._numbers: list[dict[Line, int]] = []
        self._next = 0
        self._number_lines()

    def of(self, plan: RunPlan) -> int | None:
        """The program of a plan; None if it names no line."""
        return self._of_plan[plan.digest]

    def line(self, plan: RunPlan, operator: LocatedOperator) -> int:
        """The line of an operator, as a number that is valid in all programs."""
        if not _is_line(operator):
            if operator.file:
                return FORMULA
            return NOWHERE
        program = self._of_plan[plan.digest]
        assert program is not None
        return self._numbers[program][operator.file, operator.line]

    def _index_of(self, plan: RunPlan) -> int | None:
        operators = _operators(plan)
        lines = {(operator.file, operator.line) for operator in operators}
        if not lines:
            return None
        for number in range(
            len(self._programs) - 1,
            max(-1, len(self._programs) - 1 - MOST_PROGRAMS),
            -1,
        ):
            known = self._programs[number].marks.keys()
            if lines <= known or known <= lines:
                self._programs[number].add(operators)
                return number
        self._programs.append(_Program())
        self._programs[-1].add(operators)
        return len(self._programs) - 1

    def _number_lines(self) -> None:
        whole: _Program | None = None
        numbers_of_whole: dict[Line, int] = {}
        for program in self._programs:
            same = _same_lines(whole, program) if whole is not None else {}
            numbers: dict[Line, int] = {}
            for line in sorted(program.marks):
                earlier = same.get(line)
                if earlier is not None:
                    numbers[line] = numbers_of_whole[earlier]
                else:
                    numbers[line] = self._next
                    self._next += 1
            self._numbers.append(numbers)
            # A run that ended early and is only partly known does not link the
            # programs before and after it.
            if whole is None or len(program.marks) >= WHOLE * len(whole.marks):
                whole, numbers_of_whole = program, numbers


def _same_lines(before: _Program, after: _Program) -> dict[Line, Line]:
    """Lines of the later program -> the corresponding earlier lines."""
    found: dict[Line, Line] = {}
    files = before.files(), after.files()
    for name_before, name_after in _same_files(*files):
        a, b = files[0][name_before], files[1][name_after]
        pairs = align(
            [marks for _, marks in a],
            [marks for _, marks in b],
            ([line for line, _ in a], [line for line, _ in b]),
        )
        for i, j in _nearest(a, b, pairs):
            found[name_after, b[j][0]] = name_before, a[i][0]
    return found


def _nearest(
    a: Sequence[tuple[int, Marks]],
    b: Sequence[tuple[int, Marks]],
    pairs: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Pair equal lines next to one another, if some are gone, with the nearest
    ones."""
    found: list[tuple[int, int]] = []
    for nth, (i, j) in enumerate(pairs):
        first = found[-1][0] + 1 if found else 0
        end = pairs[nth + 1][0] if nth + 1 < len(pairs) else len(a)
        equal = [at for at in range(first, end) if at == i or a[at][1] == a[i][1]]
        found.append(
            (min(equal, key=lambda at: (abs(a[at][0] - b[j][0]), at != i)), j)
        )
    return found


def _same_files(
    before: Mapping[str, Sequence[tuple[int, Marks]]],
    after: Mapping[str, Sequence[tuple[int, Marks]]],
) -> list[tuple[str, str]]:
    """Pairs of files: equal names first, then renamed files."""
    pairs = [(name, name) for name in before if name in after]
    left = (
        [name for name in before if name not in after],
        [name for name in after if name not in before],
    )
    scored = []
    for name in left[0]:
        for other in left[1]:
            marks = (
                Counter(marks for _, marks in before[name]),
                Counter(marks for _, marks in after[other]),
            )
            total = len(before[name]) + len(after[other])
            like = 2 * sum((marks[0] & marks[1]).values()) / total
            if like > LIKE:
                scored.append((-like, name, other))
    taken: set[str] = set()
    for _, name, other in sorted(scored):
        if name not in taken and other not in taken:
            taken.update((name, other))
            pairs.append((name, other))
    return pairs


class Holdings:
    """The number of instances of each track in the plan of a run. All tables are
    keyed by the digest of a plan."""

    def __init__(self, programs: Programs, plans: Iterable[RunPlan]) -> None:
        self._groups: dict[
            str, list[tuple[str | None, Mapping[Node, int], int]]
        ] = {}
        """Phase, operators and instances of its groups."""
        self._together: dict[str, Mapping[str | None, Mapping[Node, int]]] = {}
        """By phase, the operators of all its groups."""
        self.tracks: dict[str, dict[Track, int]] = {}
        """Its groups as tracks, with their index in the plan."""
        for plan in plans:
            if plan.digest not in self._groups:
                self._add(programs, plan)

    def _add(self, programs: Programs, plan: RunPlan) -> None:
        groups: list[tuple[str | None, Mapping[Node, int], int]] = []
        together: dict[str | None, Counter[Node]] = defaultdict(Counter)
        tracks: dict[Track, int] = {}
        for index, group in enumerate(plan.groups):
            nodes = []
            for operator in group.operators:
                nodes.append((operator.op, programs.line(plan, operator)))
            if not nodes:
                continue
            counts = Counter(nodes)
            groups.append((group.key.phase, counts, group.instances))
            tracks.setdefault(Track(group.key.phase, tuple(sorted(nodes))), index)
            for node, number in counts.items():
                together[group.key.phase][node] += number * group.instances
        self._groups[plan.digest] = groups
        self._together[plan.digest] = together
        self.tracks[plan.digest] = tracks

    def count(self, track: Track, plan: RunPlan) -> int:
        """Return the number of instances of the track whose operators are all in
        groups of this plan: for a track with source lines in any groups, else in a
        single group."""
        needed = Counter(track.nodes)
        if all(line >= 0 for _, line in needed):
            together = self._together[plan.digest]
            phases = [phase for phase in together if _may_be(phase, track.phase)]
            return min(
                sum(together[phase].get(node, 0) for phase in phases) // number
                for node, number in needed.items()
            )
        total = 0
        for phase, counts, count in self._groups[plan.digest]:
            if _may_be(phase, track.phase):
                total += count * min(
                    counts.get(node, 0) // number for node, number in needed.items()
                )
        return total


def _may_be(phase: str | None, other: str | None) -> bool:
    """True if the phases may be equal: the phase is None for a log in which forward
    and backward cannot be distinguished."""
    return phase == other or None in (phase, other)
