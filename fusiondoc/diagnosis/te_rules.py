"""The plan that the rules of Transformer Engine's operation fuser make of a pipeline
(``fusiondoc/fusers/te/rules.py``), and why an operator of it stays basic. The plan is compared with the one
that Transformer Engine made itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from fusiondoc.fusers.te.records import BasicOperator, OperatorFacts, Plan
from fusiondoc.fusers.te.rules import RULES, Condition, Operand, Rule, Slot
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
    """(major, minor) of a version, without its build: ``2.20.2+cu13``."""
    return pair_of(re.match(r"(\d+)\.(\d+)", text or ""))


@dataclass(frozen=True)
class _Taken:
    """An operator of the plan while it is made."""

    kind: str
    operands: tuple[Operand, ...]
    fused: bool

    @property
    def indexes(self) -> tuple[int, ...]:
        return tuple(one.index for one in self.operands)


class Planner:
    """The rules of one version applied to one pipeline in one phase."""

    def __init__(
        self, version: tuple[int, int], phase: str, operators: Sequence[BasicOperator], plan: Plan
    ) -> None:
        self._plan = plan
        self.phase = phase
        gone = tuple(name.partition(".")[0] for name in plan.taken_out)
        self.rules = [
            one
            for one in RULES
            if one.phase == phase and one.known_to(version) and one.fused not in gone and plan.asked
        ]
        self._later = [one for one in RULES if one.phase == phase and one.since > version]
        self._version = version
        facts = [*plan.operators, *[OperatorFacts()] * len(operators)]
        self.operands = [
            Operand(i, frozenset(one.bases) | (set() if one.own else {one.kind}), one.kind, facts[i])
            for i, one in enumerate(operators)
        ]
        done = plan.forward if phase == "forward" else plan.backward
        self.first = 0
        if phase == "backward" and (2, 7) <= version < (2, 13):
            self.first = plan.first_backward  # what comes before is no part of the pass
        self._own = {i: one for one in done if one.own for i in one.operators}
        self._items = self._start()
        for rule in self.rules:
            self._items = self._applied(rule)

    def _start(self) -> list[_Taken]:
        """Basic operators; those that the program's own fusions took are left out of all rules."""
        own = self._own
        items: list[_Taken] = []
        for one in self.operands[self.first :]:
            mine = own.get(one.index)
            if mine is not None and items and items[-1].fused and own.get(items[-1].indexes[-1]) is mine:
                items[-1] = _Taken("", (*items[-1].operands, one), True)
            else:
                items.append(_Taken("" if mine is not None else one.kind, (one,), mine is not None))
        return items

    @property
    def planned(self) -> list[tuple[str, tuple[int, ...]]]:
        """(class, numbers of basic operators) of each fused operator."""
        return [(one.kind, one.indexes) for one in self._items if one.fused and one.kind]

    def _applied(self, rule: Rule) -> list[_Taken]:
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
            operands = tuple(one for item in window[skipped:] for one in item.operands)
            made.append(_Taken(rule.fused, operands, True))
            at += len(window)
        return made

    def _failing(self, rule: Rule, window: Sequence[_Taken]) -> Condition | None:
        operands = [item.operands[-1] for item in window]
        for one in rule.conditions:
            if one.since <= self._version < one.until and not one.holds(operands, self._plan):
                return one
        return None

    # -- why an operator stays basic ------------------------------------------------------------------------

    def why(self, index: int) -> Reason:
        """Why the basic operator is fused in no operator: the condition that fails where all it needs is
        beside it, else what took its neighbours, else what it would need beside it."""
        operand = self.operands[index]
        if not self._plan.asked:
            return Reason.of("FD245", NotInPattern("called_alone"))
        mine = [one for one in self.rules if any(s.kinds and operand.is_a(s.kinds) for s in one.slots)]
        near = list(self._near_misses(mine, index))
        if near:
            unmet = dict.fromkeys(one for _, one in near[:2])
            return Reason.of(near[0][0], UnmetConditions(tuple(unmet)))
        usual = [one for one in mine if not one.fused.startswith("Userbuffers")] or mine
        if usual:
            neighbours = tuple(self._needs(one, operand) for one in usual[:2])
            return Reason.of("FD245", NotInPattern("neighbours", neighbours))
        later = [one for one in self._later if any(s.kinds and operand.is_a(s.kinds) for s in one.slots)]
        if later:
            since = ".".join(map(str, later[0].since))
            return Reason.of("FD246", NotInPattern("newer_rule", rule=later[0].fused, since=since))
        return Reason.of("FD246", NotInPattern("no_rule"))

    def _near_misses(self, rules: Sequence[Rule], index: int) -> Iterator[tuple[str, UnmetCondition]]:
        """The rules that find all their operators, each with the code and the condition that fails."""
        basic = [_Taken(one.kind, (one,), False) for one in self.operands[self.first :]]
        taken = {i: item for item in self._items if item.fused for i in item.indexes}
        for rule in rules:
            for at in range(len(basic)):
                window = _match(rule, basic, at)
                skipped = sum(slot.beside for slot in rule.slots)
                if window is None or all(one.indexes[0] != index for one in window[skipped:]):
                    continue
                failing = self._failing(rule, window)
                if rule.fused.startswith("Userbuffers") and not any(
                    w.operands[0].facts.userbuffers for w in window
                ):
                    continue  # asked for by options alone
                if failing is not None:
                    yield failing.code, UnmetCondition(rule.fused, failing.name)
                    continue
                for one in window[skipped:]:
                    other = taken.get(one.indexes[0])
                    if other is not None:
                        own = self._own.get(one.indexes[0])
                        into = own.kind if own is not None else other.kind
                        taken_there = UnmetCondition(
                            rule.fused, "neighbour_taken", one.kind, into, own_fusion=own is not None
                        )
                        yield "FD245", taken_there
                        break
                else:
                    yield "FD249", UnmetCondition(rule.fused, "left_basic")

    def _needs(self, rule: Rule, operand: Operand) -> MissingNeighbours:
        """The sides of the operator on which the rule finds other operators than it needs."""
        at = next(i for i, slot in enumerate(rule.slots) if slot.kinds and operand.is_a(slot.kinds))
        before, behind = rule.slots[:at][::-1], rule.slots[at + 1 :]
        sides: list[tuple[Sequence[Slot], Sequence[Operand], Side]] = [
            (before, [self.operands[i] for i in range(operand.index - 1, self.first - 1, -1)], "before"),
            (behind, self.operands[operand.index + 1 :], "after"),
        ]
        parts = [_missing(slots, there, side) for slots, there, side in sides if not _stands(slots, there)]
        parts = parts or [_missing(slots, there, side) for slots, there, side in sides if slots]
        return MissingNeighbours(rule.fused, tuple(parts))


def lacks_recipe(detail: Detail | None) -> TypeGuard[UnmetConditions]:
    """Whether a rule does not hold because nothing is quantized."""
    return isinstance(detail, UnmetConditions) and any(
        one.condition == "no_recipe" for one in detail.conditions
    )


def _stands(slots: Sequence[Slot], there: Sequence[Operand]) -> bool:
    """Whether the operators on one side of an operator fill the slots there."""
    at = 0
    for slot in slots:
        if at < len(there) and there[at].is_a(slot.kinds):
            at += 1
        elif not slot.optional:
            return False
    return True


def _missing(slots: Sequence[Slot], there: Sequence[Operand], side: Side) -> MissingSide:
    names = [" or ".join(slot.kinds) if slot.kinds else "an operator" for slot in slots]
    shown = [f"[{name}]" if slot.optional else name for name, slot in zip(names, slots)]
    shown = shown[::-1] if side == "before" else shown
    return MissingSide(tuple(shown), side, there[0].kind if there else None)


def _match(rule: Rule, items: Sequence[_Taken], at: int) -> list[_Taken] | None:
    """The operators from ``at`` on that fill the slots; an optional one is filled where it can be."""
    window: list[_Taken] = []
    for slot in rule.slots:
        item = items[at] if at < len(items) else None
        fits = item is not None and (not item.fused or slot.beside) and item.operands[-1].is_a(slot.kinds)
        if window and slot.modes and window[0].operands[-1].facts.tensor_parallel not in slot.modes:
            fits = False
        if item is not None and fits:
            window.append(item)
            at += 1
        elif not slot.optional:
            return None
    return window
