"""Which sets of operators share most with another one: plans, groups and
differentiable graphs are recognised by their operators, since passes rewrite a few
of them."""

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
        """Operator -> the sets that hold it; most are in one set only."""

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
        """The sets that hold an operator."""
        known = self._with.get(op, ())
        return (known,) if isinstance(known, int) else known

    def shared(self, ops: Iterable[int]) -> Counter[int]:
        """How many of these operators each set has, where it has any."""
        found: Counter[int] = Counter()
        for op in ops:
            found.update(self.of(op))
        return found

    def most_shared(self, ops: Iterable[int]) -> int:
        """How many of these operators the set has that has most of them."""
        return max(self.shared(ops).values(), default=0)


class RanPlans:
    """The operators of plans in the log.

    Args:
        plans: the operators of each plan, and the kinds of the copies that stand in its groups for views
            (``Traits.copies``).
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
        """Whether some plan is that of the executor of this DifferentiableGraph.

        Its own passes rewrite some operators (dropout, layer_norm; views in groups
        become ``prim::*_copy``), so most of the tensor operators must agree.
        """
        mine = {(node.op, node.source) for node in inner.loose}
        held = sorted((self._with(op) for op in mine), key=_size)
        # A plan with more than half of them has one of any half: thousands of plans
        # have those of formulas.
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
        """The plans that hold an operator, and those that may have a copy in its
        place."""
        return self._plans.of(hash(op)), self._copies.get(
            f"prim::{op[0][len('aten::') :]}_copy", ()
        )


def _size(held: tuple[Collection[int], Collection[int]]) -> int:
    return len(held[0]) + len(held[1])
