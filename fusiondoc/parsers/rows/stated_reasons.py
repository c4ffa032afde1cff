"""The statements of the log about an operator outside groups, and the reasons that
they give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.model.reasons import Stated
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.parsers.facts import PlanUse
from fusiondoc.parsers.jit.plan import LooseNode, Op
from fusiondoc.parsers.jit.statements import Statement, Statements, best_of
from fusiondoc.parsers.rows.group_rows import PhasedPlan
from fusiondoc.parsers.rows.shared_operators import SharedOperators

_OF_A_KIND = ("FD201", "FD211")
"""Codes of statements that a fuser has no rule for a kind of node, where that is
true."""

_OfPhase = tuple["str | None", Statement]
"""A statement, and the phase of the plan whose pass made it."""
_Alike = tuple["str | None", str]
"""Phase and reason code, by which statements about an operator are merged."""


class StatedReasons:
    """The statements of one stream, by the operator that they are about.

    Args:
        uses: the plans that count, with their statements.
        unplanned: statements of passes whose plan is not in the log.
    """

    def __init__(self, uses: Iterable[PhasedPlan], unplanned: Statements) -> None:
        self._planned = []
        for use, phase in uses:
            if use.stated:
                self._planned.append((phase, use.stated))
        self._unplanned = unplanned
        self._with = SharedOperators()
        for _, statements in self._planned:
            self._with.add(statements.hashes())
        self._of_several = self._statements_of_several()
        """Hash of an operator with statements in several plans -> those statements,
        by phase and code."""
        self._best: dict[tuple[int, str | None], Sequence[Statement]] = {}
        """The best statements, by operator and phase. Cached: an operator of a
        formula is in as many nodes as there are plans."""
        self._reasons: dict[tuple[str, Stated], Reason] = {}
        """The reasons that statements give, by code and detail."""
        self._alike: dict[Reason, Reason] = {}
        """Equal reasons -> the first of them: there are few."""
        self._latest: Reason | None = None

    def about(
        self, use: PlanUse, phase: str | None, node: LooseNode, own_pass: bool
    ) -> Sequence[Statement]:
        """Return the most specific statement of the log about a node, in all its
        forms. Statements of the node's own pass come first.

        Args: own_pass: True if the statements of the node's own pass are in the
        log: no others are about it.
        """
        if node.source is None:
            # Without a source only the value's name identifies the node, which
            # holds inside one pass only.
            return best_of(use.stated.get().of((node.op, "%" + node.value)))
        key = (node.op, node.source)
        own = use.stated.get().of(key)
        if own_pass:
            return best_of(
                [statement for statement in own if statement.is_about(node.value)]
            )
        if own:
            return best_of(own)
        best = self._best.get((hash(key), phase))
        if best is None:
            planned = self._of_plans(key)
            same_phase = []
            for its_phase, statement in planned:
                if its_phase == phase:
                    same_phase.append(statement)
            best = best_of(same_phase) or best_of(self._anywhere(key))
            if hash(key) in self._of_several:
                self._best[hash(key), phase] = best
        return best

    def of_kind(self, node: LooseNode) -> Sequence[Statement]:
        """Return the statements about this kind of node on its line: they hold for
        all such nodes."""
        about = self._anywhere((node.op, node.source))
        return best_of(
            [statement for statement in about if statement.code in _OF_A_KIND]
        )

    def _statements_of_several(self) -> dict[int, dict[_Alike, Statement]]:
        """Return the statements about operators that are in several plans. Formulas
        of gradients and lines of libraries are in thousands of plans: their
        statements of one code become one statement, with the lines of all."""
        found: dict[int, dict[_Alike, Statement]] = {}
        for phase, statements in self._planned:
            shared = set()
            for op in statements.hashes():
                if len(self._with.of(op)) > 1:
                    shared.add(op)
            if not shared:
                continue
            for key, about in statements.get().items():
                if hash(key) in shared:
                    _add(found.setdefault(hash(key), {}), phase, about)
        return found

    def _of_plans(self, key: Op) -> Sequence[_OfPhase]:
        """Return the statements about an operator in the passes whose plan is in
        the log."""
        several = self._of_several.get(hash(key))
        if several is not None:
            return [(phase, one) for (phase, _), one in several.items()]
        found: list[_OfPhase] = []
        for number in self._with.of(hash(key)):
            phase, statements = self._planned[number]
            for statement in statements.get().get(key, ()):
                found.append((phase, statement))
        return found

    def _anywhere(self, key: Op) -> list[Statement]:
        planned = [statement for _, statement in self._of_plans(key)]
        return [*planned, *self._unplanned.get(key, ())]

    def reason(self, statement: Statement) -> Reason:
        """Return the reason that a statement gives."""
        key = statement.code, statement.detail
        known = self._reasons.get(key)
        if known is None:
            known = self._reasons[key] = self.one_of_equal(
                Reason.of(*key, stated=True)
            )
        return known

    def one_of_equal(self, reason: Reason) -> Reason:
        """Return the first of equal reasons: rows are keyed by it."""
        if reason is not self._latest:
            self._latest = self._alike.setdefault(reason, reason)
        return self._latest


def _add(
    into: dict[_Alike, Statement],
    phase: str | None,
    statements: Iterable[Statement],
) -> None:
    for one in statements:
        known = into.get((phase, one.code))
        if known is None:
            known = Statement(one.code, one.detail, one.tensor)
            into[phase, one.code] = known
        known.lines.extend(one.lines)
