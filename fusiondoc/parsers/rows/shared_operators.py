"""Finds sets that share most operators with another set. Plans, groups and
differentiable graphs are recognised by their operators, and passes rewrite a few of
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain

from fusiondoc.parsers.jit.plan import DiffGraph, HashedOps, Op


class SharedOperators:
    """Sets of operators, numbered from 0 in the order in which they are added."""

    def __init__(self) -> None:
        self.count = 0
        self._with: dict[int, int | list[int]] = {}
        """Operator -> the sets that contain it; most operators are in one set
        only."""

    def add(self, ops: Iterable[int]) -> None:
        """Add a set."""
        number, self.count = self.count, self.count + 1
        for op in ops:
            known = self._with.setdefault(op, number)
            if isinstance(known, list):
                known.append(number)
            elif known != number:
                self._with[op] = [known, number]

    def of(self, op: int) -> Collection[int]:
        """Return the sets that contain an operator."""
        known = self._with.get(op, ())
        if isinstance(known, int):
            return (known,)
        return known

    def shared(self, ops: Iterable[int]) -> Counter[int]:
        """Return the number of these operators in each set that has any."""
        found: Counter[int] = Counter()
        for op in ops:
            found.update(self.of(op))
        return found

    def most_shared(self, ops: Iterable[int]) -> int:
        """Return the number of these operators in the set that has most of them."""
        return max(self.shared(ops).values(), default=0)


class RanPlans:
    """The operators of the plans in the log.

    Args:
        plans: the operators of each plan, and the kinds of the copies that replace
            views in its groups (``Traits.copies``).
    """

    def __init__(self, plans: Iterable[tuple[HashedOps, Collection[str]]]) -> None:
        self._plans = SharedOperators()
        self._copies: dict[str, set[int]] = {}
        """Kind of a copy -> the plans."""
        for ops, copies in plans:
            for kind in copies:
                self._copies.setdefault(kind, set()).add(self._plans.count)
            self._plans.add(ops)

    def of_executor(self, inner: DiffGraph) -> bool:
        """True if a plan in the log is that of the executor of this
        DifferentiableGraph.

        The executor's passes rewrite some operators (dropout, layer_norm; views in
        groups become ``prim::*_copy``), so only most of the tensor operators must
        agree.
        """
        mine = {(node.op, node.source) for node in inner.loose}
        held = sorted((self._with(op) for op in mine), key=_size)
        # A plan with more than half of the operators has one of any half of them.
        # The half in fewest plans is searched: operators of formulas are in
        # thousands of plans.
        candidates = set(
            chain.from_iterable(chain.from_iterable(held[: (len(held) + 1) // 2]))
        )
        shared: Counter[int] = Counter()
        for plans, copies in held:
            shared.update(
                candidates.intersection(plans).union(
                    candidates.intersection(copies)
                )
            )
        return not mine or max(shared.values(), default=0) * 2 > len(mine)

    def _with(self, op: Op) -> tuple[Collection[int], Collection[int]]:
        """Return the plans that contain an operator, and the plans that may contain
        a copy instead of it."""
        return self._plans.of(hash(op)), self._copies.get(
            f"prim::{op[0][len('aten::') :]}_copy", ()
        )


def _size(held: tuple[Collection[int], Collection[int]]) -> int:
    return len(held[0]) + len(held[1])
