"""Finds the operators that a group lacks: outside every group, in another group, or
nowhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from fusiondoc.alignment import common
from fusiondoc.expectations import GroupExpectation, instances_in
from fusiondoc.expectations.source_lines import line_of
from fusiondoc.graph.neighbours import GroupNeighbours
from fusiondoc.model import dataclass
from fusiondoc.model.operator_places import folded
from fusiondoc.model.report import Group, OpNode, Report, Unfused
from fusiondoc.model.source import Source

_FAR = 1_000_000
"""A distance in lines larger than in any file: another file, or a line that the log
does not have."""

_BESIDE = 5
"""Distance in lines within which operators are mostly in one function."""

Key = tuple[bool, bool, bool, int, bool, bool]
"""Sort key, lower is nearer: never ran, in another layer, not next to the group,
distance in lines, in another form, fused."""


_Found = Unfused | tuple[Group, OpNode]
"""An operator outside groups, or a node of a group."""


@dataclass(frozen=True)
class Missing:
    """An expected operator that the nearest group lacks. ``where`` is "unfused",
    "group" or "absent"."""

    op: str
    where: str
    row: Unfused | None = None
    """Its row among the unfused ones, with the reason."""
    group: Group | None = None
    """The other group that has it."""
    node: OpNode | None = None
    between: tuple[Unfused, ...] = ()
    """The unfused operators that split the two groups, the most important first."""
    layer: str = ""
    """The operator's layer, if it differs from the nearest group's."""
    stands_as: str | None = None
    """The form that exists instead: in-place ``aten::mul_`` for ``aten::mul``."""
    phase: str | None = None
    """The phase in which it was searched for; None is any."""
    of_others: bool = False
    """Absent, except for operators of that name in groups that fulfil other
    expectations."""


def where_is(
    report: Report,
    wanted: GroupExpectation,
    group: Group | None,
    lacking: Sequence[tuple[str, int | None]],
    claimed: Collection[str] = (),
    outside: Collection[str] = (),
) -> tuple[Missing, ...]:
    """Each lacking operator with its whereabouts, in the phase of the expectation.

    ``lacking`` has with each operator the index of the node of ``group`` that
    precedes it in the expectation: of several such operators the one next to that
    node in the program is meant. ``claimed`` are the groups whose operators other
    expectations count; ``outside`` names operators of which some are known to be
    outside groups, so that one is only meant where it stands beside the group.
    """
    neighbours = GroupNeighbours(report)
    used: set[int] = set()
    if group is None:
        # A group with few of its operators is another group, and these are other
        # operators of the same name.
        unlike = (
            group.id
            for group in report.groups
            if 2 * common(group.ops, wanted.ops) < len(wanted.ops)
        )
        claimed = {*claimed, *unlike}
    here = _Here.of(group, wanted, neighbours)
    found: list[Missing] = []
    for op, before in lacking:
        at = here.at(before)
        best = _best(report, op, at, used, claimed, outside)
        if best is None:
            of_others = _is_of_others(report, op, at.phase, claimed)
            found.append(Missing(op, "absent", phase=at.phase, of_others=of_others))
        elif isinstance(best, Unfused):
            layer = ""
            if _apart(best.layers, here.layers) or not here.layers:
                layer = folded(best.layers)
            found.append(
                Missing(
                    op,
                    "unfused",
                    row=best,
                    layer=layer,
                    stands_as=_other_name(best.op, op),
                )
            )
        else:
            other, node = best
            if group is not None:
                rows = neighbours.between(group.id, other.id)
            else:
                rows = ()
            between = sorted(rows, key=_weight) or _on_lines_between(
                report, at.anchor, node
            )
            layer = ""
            if _apart(other.layers, here.layers):
                layer = folded(other.layers)
            stands_as = _other_name(node.op, op)
            found.append(
                Missing(
                    op, "group", None, other, node, tuple(between), layer, stands_as
                )
            )
    return tuple(found)


def _is_of_others(
    report: Report, op: str, phase: str | None, claimed: Collection[str]
) -> bool:
    """True if operators of that name are outside groups, or in groups of other
    expectations."""
    if any(row.op == op and same_phase(row.phase, phase) for row in report.unfused):
        return True
    of_others = (group for group in report.groups if group.id in claimed)
    return any(
        op in group.ops and same_phase(group.phase, phase) for group in of_others
    )


def _other_name(there: str, wanted: str) -> str | None:
    if there != wanted:
        return there
    return None


def other_form(op: str) -> str:
    """The in-place form of an operator, or the other way round: ``aten::mul_`` for
    ``aten::mul`` and back."""
    if op.endswith("_"):
        return op[:-1]
    return op + "_"


def _weight(row: Unfused) -> tuple[int, bool]:
    """Sort key: operators that keep most others out of groups first, then those
    with a reason stated in the log."""
    return -(row.keeps_out or 0), not row.reason.stated


@dataclass(frozen=True)
class _Here:
    """The nearest group, from which distances are measured."""

    group: Group | None
    phase: str | None
    layers: tuple[str, ...]
    """The expected instances of the group."""
    next_to: tuple[
        Mapping[str, tuple[Unfused, ...]], Mapping[str, tuple[Unfused, ...]]
    ] = ({}, {})
    """The groups before and after it, with the rows between."""
    anchor: Source | None = None
    """The user's line to measure from."""
    side: int | None = None
    """0 for an operator before the group, 1 for one after it."""

    @classmethod
    def of(
        cls,
        group: Group | None,
        wanted: GroupExpectation,
        neighbours: GroupNeighbours,
    ) -> _Here:
        if group is None:
            return cls(None, wanted.phase, ())
        instances = instances_in(group, wanted.layer) or group.instances
        layers = tuple(
            dict.fromkeys(
                instance.layer
                for instance in instances
                if instance.layer is not None
            )
        )
        next_to = neighbours.before(group.id), neighbours.after(group.id)
        return cls(group, wanted.phase or group.phase, layers, next_to)

    def at(self, before: int | None) -> _Here:
        """Measure from the node at this index of the group, or from its first
        node."""
        return replace(
            self,
            anchor=_anchor(self.group, before),
            side=0 if before is None else 1,
        )

    def nearness(
        self, found: Unfused | Group, node: Unfused | OpNode, other_form: bool
    ) -> Key:
        """The distance of a candidate for the missing operator: outside groups, or
        a node of a group."""
        return (
            isinstance(found, Unfused) and found.ran is False,
            _apart(found.layers, self.layers),
            not self.adjoins(found),
            _distance(line_of(node), self.anchor),
            other_form,
            isinstance(found, Group),
        )

    def may_have_it(self, group: Group) -> bool:
        """True if the missing operators may be in that group: another one of the
        same phase, or another instance."""
        if (
            self.group is not None
            and group.id == self.group.id
            and group.count == 1
        ):
            return False
        return same_phase(group.phase, self.phase)

    def is_beside(self, row: Unfused) -> bool:
        """True if it adjoins the group, or is a few lines away; also if no line is
        known."""
        line = line_of(row)
        if self.anchor is None or line is None:
            return True
        return self.adjoins(row) or _distance(line, self.anchor) <= _BESIDE

    def adjoins(self, here: Unfused | Group) -> bool:
        """True if it is a group before or after the nearest group, or one of the
        rows between these."""
        if self.side is None:
            return False
        near = self.next_to[self.side]
        if isinstance(here, Group):
            return here.id in near
        for rows in near.values():
            for row in rows:
                if here is row:
                    return True
        return False


def _apart(layers: Sequence[str], here: Sequence[str]) -> bool:
    """True if both layers are known and none is inside one of the others."""
    if not layers or not here:
        return False
    return not any(
        _holds_or_is_in(layer, other) for layer in layers for other in here
    )


def _holds_or_is_in(layer: str, other: str) -> bool:
    return (
        layer == other
        or layer.startswith(f"{other}.")
        or other.startswith(f"{layer}.")
    )


def _anchor(group: Group | None, before: int | None) -> Source | None:
    """The user's line from which to measure: that of the node before, else the
    first known one."""
    if group is None:
        return None
    near = group.nodes[before::-1] if before is not None else group.nodes
    for line in map(line_of, (*near, *group.nodes)):
        if line is not None:
            return line
    return None


def _best(
    report: Report,
    op: str,
    here: _Here,
    used: set[int],
    claimed: Collection[str],
    outside: Collection[str],
) -> _Found | None:
    """Return the nearest operator of that name, or of its other form: same layer,
    next to the group in its graph, fewest lines away, of that name, unfused first.
    None if there is none in the same phase."""
    names = (op, other_form(op))
    candidates: list[tuple[Key, _Found]] = []
    for row in report.unfused:
        far = row.op in outside and not here.is_beside(row)
        if row.op in names and not far and same_phase(row.phase, here.phase):
            candidates.append((here.nearness(row, row, row.op != op), row))
    for other in report.groups:
        if other.id in claimed or not here.may_have_it(other):
            continue
        for node in other.nodes:
            if node.op in names:
                candidates.append(
                    (here.nearness(other, node, node.op != op), (other, node))
                )
    left = [
        candidate for candidate in candidates if _identity(candidate[1]) not in used
    ] or candidates
    _, best = min(left, key=lambda candidate: candidate[0], default=(None, None))
    if best is not None:
        used.add(_identity(best))
    return best


def _identity(found: _Found) -> int:
    if isinstance(found, Unfused):
        return id(found)
    return id(found[1])


def same_phase(phase: str | None, other: str | None) -> bool:
    """True if both may be of one phase: None is an unknown phase."""
    return phase is None or other is None or phase == other


def _distance(line: Source | None, anchor: Source | None) -> int:
    if line is None or anchor is None or line.file != anchor.file:
        return _FAR
    return abs(line.line - anchor.line)


def _on_lines_between(
    report: Report, anchor: Source | None, node: OpNode
) -> list[Unfused]:
    """If the plans do not show it: an unfused operator on the lines between; first
    one with a stated reason."""
    end = line_of(node)
    if anchor is None or end is None or anchor.file != end.file:
        return []
    first, last = sorted((anchor.line, end.line))
    rows = []
    for row in report.unfused:
        line = line_of(row)
        if row.ran is False or line is None or line.file != anchor.file:
            continue
        if first <= line.line <= last:
            rows.append(row)
    return sorted(rows, key=lambda row: not row.reason.stated)[:1]
