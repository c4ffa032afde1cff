"""The plan that the rules of Transformer Engine's operation fuser make of a
pipeline (``fusiondoc/fusers/te/rules.py``), and why an operator of it stays basic.
The plan is compared with the one that Transformer Engine made itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from fusiondoc.fusers.te.records import BasicOperator, OperatorFacts, RecordedPlan
from fusiondoc.fusers.te.rules import (
    RULES,
    FusedOperatorRule,
    RecordedOperator,
    RuleCondition,
    Slot,
)
from fusiondoc.model import dataclass
from fusiondoc.model.reasons import (
    Detail,
    MissingNeighbours,
    MissingSide,
    NotInPattern,
    Side,
    UnmetCondition,
    UnmetConditions,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.numbers import pair_of


def version_of(text: str | None) -> tuple[int, int] | None:
    """Return (major, minor) of a version, without its build: ``2.20.2+cu13``."""
    return pair_of(re.match(r"(\d+)\.(\d+)", text or ""))


@dataclass(frozen=True)
class _Taken:
    """An operator of the plan while the plan is made."""

    kind: str
    operands: tuple[RecordedOperator, ...]
    fused: bool

    @property
    def indexes(self) -> tuple[int, ...]:
        return tuple(one.index for one in self.operands)


class Planner:
    """The rules of one version applied to one pipeline in one phase."""

    def __init__(
        self,
        version: tuple[int, int],
        phase: str,
        operators: Sequence[BasicOperator],
        plan: RecordedPlan,
    ) -> None:
        self._plan = plan
        self.phase = phase
        of_phase = [rule for rule in RULES if rule.phase == phase]
        self.rules = _tried(of_phase, version, plan)
        self._later = [rule for rule in of_phase if rule.since > version]
        self._version = version
        facts = [*plan.operators, *[OperatorFacts()] * len(operators)]
        self.operands = []
        for i, one in enumerate(operators):
            self.operands.append(
                RecordedOperator(
                    i,
                    frozenset(one.bases) | (set() if one.own else {one.kind}),
                    one.kind,
                    facts[i],
                )
            )
        done = plan.forward if phase == "forward" else plan.backward
        self.first = 0
        if phase == "backward" and (2, 7) <= version < (2, 13):
            self.first = (
                plan.first_backward
            )  # operators before it are not part of the pass
        self._own = {}
        for planned in done:
            if planned.own:
                for i in planned.operators:
                    self._own[i] = planned
        self._items = self._start()
        for rule in self.rules:
            self._items = self._applied(rule)

    def _start(self) -> list[_Taken]:
        """Return the basic operators; those that the program's own fusions took are
        excluded from all rules."""
        own = self._own
        items: list[_Taken] = []
        for one in self.operands[self.first :]:
            mine = own.get(one.index)
            if (
                mine is not None
                and items
                and items[-1].fused
                and own.get(items[-1].indexes[-1]) is mine
            ):
                items[-1] = _Taken("", (*items[-1].operands, one), True)
            else:
                items.append(
                    _Taken(
                        "" if mine is not None else one.kind,
                        (one,),
                        mine is not None,
                    )
                )
        return items

    @property
    def planned(self) -> list[tuple[str, tuple[int, ...]]]:
        """(class, numbers of basic operators) of each fused operator."""
        planned = []
        for one in self._items:
            if one.fused and one.kind:
                planned.append((one.kind, one.indexes))
        return planned

    def _applied(self, rule: FusedOperatorRule) -> list[_Taken]:
        made: list[_Taken] = []
        at = 0
        while at < len(self._items):
            window = _match(rule, self._items, at)
            if window is None or self._failing(rule, window):
                made.append(self._items[at])
                at += 1
                continue
            skipped = sum(slot.beside for slot in rule.slots)
            made.extend(window[:skipped])
            operands: list[RecordedOperator] = []
            for item in window[skipped:]:
                operands.extend(item.operands)
            made.append(_Taken(rule.fused, tuple(operands), True))
            at += len(window)
        return made

    def _failing(
        self, rule: FusedOperatorRule, window: Sequence[_Taken]
    ) -> RuleCondition | None:
        operands = [item.operands[-1] for item in window]
        for one in rule.conditions:
            if one.since <= self._version < one.until and not one.holds(
                operands, self._plan
            ):
                return one
        return None

    # -- why an operator stays basic ------------------------------------------------------------------------

    def why(self, index: int) -> Reason:
        """Return why the basic operator is in no fused one: the condition that
        fails, if a rule finds all its operators; else the fused operator that took
        its neighbours; else the neighbours that it would need."""
        operand = self.operands[index]
        if not self._plan.asked:
            return Reason.of("FD245", NotInPattern("called_alone"))
        mine = [rule for rule in self.rules if _has_a_slot_for(operand, rule)]
        near = list(self._near_misses(mine, index))
        if near:
            unmet = dict.fromkeys(one for _, one in near[:2])
            return Reason.of(near[0][0], UnmetConditions(tuple(unmet)))
        usual = [rule for rule in mine if not _is_by_request(rule)] or mine
        if usual:
            neighbours = tuple(self._needs(one, operand) for one in usual[:2])
            return Reason.of("FD245", NotInPattern("neighbours", neighbours))
        later = [rule for rule in self._later if _has_a_slot_for(operand, rule)]
        if later:
            since = ".".join(map(str, later[0].since))
            return Reason.of(
                "FD246",
                NotInPattern("newer_rule", rule=later[0].fused, since=since),
            )
        return Reason.of("FD246", NotInPattern("no_rule"))

    def _near_misses(
        self, rules: Sequence[FusedOperatorRule], index: int
    ) -> Iterator[tuple[str, UnmetCondition]]:
        """Yield, for the rules that find all their operators, the code and the
        condition that fails."""
        basic = []
        for operand in self.operands[self.first :]:
            basic.append(_Taken(operand.kind, (operand,), False))
        for rule in rules:
            skipped = sum(slot.beside for slot in rule.slots)
            for at in range(len(basic)):
                window = _match(rule, basic, at)
                if window is None or all(
                    item.indexes[0] != index for item in window[skipped:]
                ):
                    continue
                if _is_by_request(rule) and not any(
                    item.operands[0].facts.userbuffers for item in window
                ):
                    continue
                yield self._near_miss(rule, window, window[skipped:])

    def _near_miss(
        self,
        rule: FusedOperatorRule,
        window: Sequence[_Taken],
        fused: Sequence[_Taken],
    ) -> tuple[str, UnmetCondition]:
        """Return why a rule that finds all its operators does not fuse them: code
        and condition."""
        failing = self._failing(rule, window)
        if failing is not None:
            return failing.code, UnmetCondition(rule.fused, failing.name)
        for item in fused:
            into, own = self._taken_by(item.indexes[0])
            if into is not None:
                return "FD245", UnmetCondition(
                    rule.fused, "neighbour_taken", item.kind, into, own_fusion=own
                )
        return "FD249", UnmetCondition(rule.fused, "left_basic")

    def _taken_by(self, index: int) -> tuple[str | None, bool]:
        """Return the fused operator that contains a basic one, and whether it is
        from the program's own fusions."""
        item = next(
            (item for item in self._items if item.fused and index in item.indexes),
            None,
        )
        if item is None:
            return None, False
        own = self._own.get(index)
        if own is not None:
            return own.kind, True
        return item.kind, False

    def _needs(
        self, rule: FusedOperatorRule, operand: RecordedOperator
    ) -> MissingNeighbours:
        """Return the sides of the operator on which the rule does not find the
        operators that it needs."""
        at = next(
            i
            for i, slot in enumerate(rule.slots)
            if slot.kinds and operand.is_a(slot.kinds)
        )
        before, behind = rule.slots[:at][::-1], rule.slots[at + 1 :]
        sides: list[tuple[Sequence[Slot], Sequence[RecordedOperator], Side]] = [
            (
                before,
                [
                    self.operands[i]
                    for i in range(operand.index - 1, self.first - 1, -1)
                ],
                "before",
            ),
            (behind, self.operands[operand.index + 1 :], "after"),
        ]
        parts = []
        for slots, there, side in sides:
            if not _stands(slots, there):
                parts.append(_missing(slots, there, side))
        parts = parts or [
            _missing(slots, there, side) for slots, there, side in sides if slots
        ]
        return MissingNeighbours(rule.fused, tuple(parts))


def _tried(
    rules: Sequence[FusedOperatorRule], version: tuple[int, int], plan: RecordedPlan
) -> list[FusedOperatorRule]:
    """Return the rules that a plan of this version was made with."""
    if not plan.asked:
        return []
    gone = [name.partition(".")[0] for name in plan.taken_out]
    known = []
    for rule in rules:
        if rule.known_to(version) and rule.fused not in gone:
            known.append(rule)
    return known


def _has_a_slot_for(operand: RecordedOperator, rule: FusedOperatorRule) -> bool:
    """True if a rule names a class of the operator."""
    return any(slot.kinds and operand.is_a(slot.kinds) for slot in rule.slots)


def _is_by_request(rule: FusedOperatorRule) -> bool:
    """True if a rule fuses only operators that have options for it."""
    return rule.fused.startswith("Userbuffers")


def lacks_recipe(detail: Detail | None) -> TypeGuard[UnmetConditions]:
    """True if a rule does not apply because nothing is quantized."""
    return isinstance(detail, UnmetConditions) and any(
        one.condition == "no_recipe" for one in detail.conditions
    )


def _stands(slots: Sequence[Slot], there: Sequence[RecordedOperator]) -> bool:
    """True if the operators on one side of an operator fill the slots there."""
    at = 0
    for slot in slots:
        if at < len(there) and there[at].is_a(slot.kinds):
            at += 1
        elif not slot.optional:
            return False
    return True


def _missing(
    slots: Sequence[Slot], there: Sequence[RecordedOperator], side: Side
) -> MissingSide:
    names = []
    for slot in slots:
        names.append(" or ".join(slot.kinds) if slot.kinds else "an operator")
    shown = []
    for name, slot in zip(names, slots):
        shown.append(f"[{name}]" if slot.optional else name)
    shown = shown[::-1] if side == "before" else shown
    return MissingSide(tuple(shown), side, there[0].kind if there else None)


def _match(
    rule: FusedOperatorRule, items: Sequence[_Taken], at: int
) -> list[_Taken] | None:
    """Return the operators from ``at`` on that fill the slots; an optional slot is
    filled if possible."""
    window: list[_Taken] = []
    for slot in rule.slots:
        item = items[at] if at < len(items) else None
        fits = (
            item is not None
            and (not item.fused or slot.beside)
            and item.operands[-1].is_a(slot.kinds)
        )
        if (
            window
            and slot.modes
            and window[0].operands[-1].facts.tensor_parallel not in slot.modes
        ):
            fits = False
        if item is not None and fits:
            window.append(item)
            at += 1
        elif not slot.optional:
            return None
    return window
