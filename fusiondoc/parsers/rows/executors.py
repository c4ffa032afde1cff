"""Assigns the printed plans to the graph executors of the run.

A graph executor makes its plan once. It prints the graph that the fusion pass left
(``FuserLog.plan_header``: ``Before Compilation:``, ``After TExprFuser:``) and, when
the later passes are done, ``Optimized Graph:``
(``ProfilingGraphExecutorImpl::getOptimizedPlanFor`` of
torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, 1.12 to 2.13). So each
print of either kind is the plan of another executor, even if the texts are equal;
but a print of the first kind and the next print of the second kind with the same
groups are one executor. A bare print (``print(f.graph_for(x))``) does not identify
an executor: a second print of the same text is the same plan.

An executor with gradients leaves its regions (prim::DifferentiableGraph) to two
executors each, forward and backward. The else-branch of a guard calls
``fallback_function``, which has an executor too: it runs the same graph for other
types. Its plan has a form of its own (``Plan.may_be_fallback``) and the operators
of the group that the guard protects, which distinguishes it from the executor of an
equal layer. It may come before the plan of the region that it stands for: in a loop
whose state needs no gradient yet, the first step fails the guard. A gradient's
executor also has a fallback function of its whole graph, for calls in which other
gradients are defined (``jit/gradient_plans.py``); profiling of that function begins
while the plan is made. Profiling of the gradients of other regions begins outside of
all plans, and each of those has a first plan of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter

from fusiondoc.model import dataclass
from fusiondoc.parsers.facts import PlanLevel, PlanUse, unpack
from fusiondoc.parsers.jit.gradient_plans import Checks, GradientPlan
from fusiondoc.parsers.jit.plan import HashedOps, Op, Plan, PlanGroup, hashed
from fusiondoc.parsers.rows.shared_operators import SharedOperators

_PENDING = 8
"""Number of fusion passes that still wait for their ``Optimized Graph:``. Processes
in one log interleave."""

Body = tuple[Op, ...]
"""The operators of a group."""
_Bodies = Mapping[Body, int]
_Specialised = tuple[Body, tuple[str, ...]]
"""The body of a group, and the types of its inputs."""
_Content = tuple[HashedOps, frozenset[_Specialised]]
_Print = tuple[int, int, PlanUse]
"""(position, number of the plan, plan)."""


@dataclass(frozen=True)
class PrintedUse:
    """One print of a plan; ``at``: the position of its first line."""

    __slots__ = ("at", "use")
    use: PlanUse
    at: int

    def position(self, line: int) -> int:
        """Return the position of line ``line`` (from 0) of the plan."""
        return self.use.position_of(self.at, line)


@dataclass(frozen=True, eq=False, slots=True)
class Executor:
    """One graph executor, or all bare prints of one plan."""

    prints: tuple[PrintedUse, ...]
    """The print of the fusion pass and the print of the optimised graph, or one of
    the two; bare prints in order."""
    bare: bool = False
    fallback: bool = False
    """True for the executor of a fallback function, or of a region in one."""
    stands_for: tuple[Body, ...] = ()
    """The earlier groups that have the operators of this fallback function: it runs
    instead of one of them."""
    other_gradients: bool = False
    """True if it runs instead of a gradient's first plan because other gradients
    are defined."""
    known: bool = False
    """True if its groups were printed before: the legacy executor fuses inside a
    region, and prints that, before the region has an executor; or the file holds
    the whole log several times."""

    @property
    def use(self) -> PlanUse:
        """The plan in the print with most types, which is the print of the fusion
        pass."""
        return self.prints[0].use

    @property
    def file(self) -> int:
        """Index of the log."""
        return unpack(self.prints[0].at)[0]


def executors_of(
    uses: Iterable[PlanUse],
    lines: int | None = None,
    profiled: Mapping[tuple[str, ...], Sequence[int]] | None = None,
) -> Iterator[Executor]:
    """Yield the executors of these plans, in the order of their first prints.

    Args: lines: number of lines of the log, if there is one log. profiled: the
    positions where profiling of gradients began, by the kinds of their inputs.
    """
    prints = []
    for number, use in enumerate(uses):
        for at in use.lines:
            prints.append((at, number, use))
    prints.sort(key=lambda one: one[:2])
    last = _last_of_first_copy(prints, lines)
    plans = _ComparedPlans()
    paired = _paired(prints, plans)
    del prints  # a log can have a hundred thousand
    executors = _Fallbacks(_outside(paired, profiled or {}), plans).executors(
        paired
    )
    return (_in_first_copy(executor, last) for executor in executors)


def _in_first_copy(executor: Executor, last: int) -> Executor:
    """Return the executor; with ``known`` set if its first print is after
    ``last``."""
    if executor.known or executor.prints[0].at <= last:
        return executor
    return replace(executor, known=True)


class _Compared:
    """The sets by which a plan is compared with others. Each is computed on first
    use."""

    def __init__(self, use: PlanUse) -> None:
        self.use = use

    @property
    def _plan(self) -> Plan:
        return self.use.plan()

    @property
    def every_group(self) -> Sequence[PlanGroup]:
        traits = self.use.traits
        if traits.groups or traits.diff_graphs:
            return self._plan.every_group()
        return ()

    @cached_property
    def ops(self) -> HashedOps:
        """The operators outside regions."""
        return self.use.ops()

    @cached_property
    def operators(self) -> HashedOps:
        """The operators, also those in regions."""
        return self.ops.union(*self.regions)

    @cached_property
    def content(self) -> _Content:
        """The operators, and the groups."""
        groups = set()
        for group in self._plan.every_group():
            groups.add((group.body, group.inputs))
        return self.operators, frozenset(groups)

    @cached_property
    def bodies(self) -> _Bodies:
        """The number of groups with each body."""
        _ = self.ops  # needed soon, and the plan is made for both
        return dict(Counter(one.body for one in self.every_group))

    @cached_property
    def groups(self) -> Counter[_Specialised]:
        """The number of groups with each body and input types, without groups in
        regions."""
        return Counter((group.body, group.inputs) for group in self._plan.groups)

    @cached_property
    def regions(self) -> list[HashedOps]:
        """The operators of each region that are in no group."""
        regions = []
        for diff in self._plan.diff_graphs:
            regions.append(hashed((node.op, node.source) for node in diff.loose))
        return regions

    @cached_property
    def groups_inside(self) -> list[Counter[_Specialised]]:
        """The same as ``groups`` for each region that has groups."""
        groups = []
        for diff in self._plan.diff_graphs:
            if diff.groups:
                groups.append(
                    Counter((group.body, group.inputs) for group in diff.groups)
                )
        return groups


class _ComparedPlans:
    """Cache of ``_Compared``: the sets of a plan with many prints are made once."""

    def __init__(self) -> None:
        self._known: dict[int, _Compared] = {}

    def of(self, use: PlanUse) -> _Compared:
        known = self._known.get(id(use))
        if known is None:
            known = _Compared(use)
            if len(use.lines) > 1:
                self._known[id(use)] = known
        return known


def _last_of_first_copy(prints: Sequence[_Print], lines: int | None) -> int:
    """Return the position of the last print that counts. If one file holds a log
    several times, line for line, only the first copy counts: it is one process."""
    if not prints:
        return 0
    for copies in range(len(prints), 1, -1):
        if lines and not lines % copies and not len(prints) % copies:
            size = len(prints) // copies
            if _repeats(prints, size, lines // copies):
                return prints[size - 1][0]
    return prints[-1][0]


def _repeats(prints: Sequence[_Print], size: int, lines: int) -> bool:
    """True if each print occurs again ``size`` prints and ``lines`` lines later."""
    for (at, number, _), (later_at, later_number, _) in zip(prints, prints[size:]):
        if later_number != number or later_at - at != lines:
            return False
    return True


def _paired(
    prints: Iterable[_Print], plans: _ComparedPlans
) -> list[list[PrintedUse]]:
    """Return the prints of each executor, with the executors in order of their
    first prints."""
    executors: list[list[PrintedUse]] = []
    bare: dict[int, list[PrintedUse]] = {}
    pending: list[tuple[list[PrintedUse], _Compared]] = []
    for at, number, use in prints:
        one = PrintedUse(use, at)
        if use.level == PlanLevel.PRINT and number in bare:
            bare[number].append(one)
            continue
        left = None
        if use.level == PlanLevel.EXECUTOR and not use.simple and pending:
            left = _first_that_becomes(
                plans.of(use), [known for _, known in pending]
            )
        if left is not None:
            pending.pop(left)[0].append(one)
            continue
        executors.append([one])
        if use.level == PlanLevel.PRINT:
            bare[number] = executors[-1]
        elif use.level == PlanLevel.FUSION_PASS:
            pending = [*pending[1 - _PENDING :], (executors[-1], plans.of(use))]
    return executors


def _first_that_becomes(
    optimised: _Compared, pending: Sequence[_Compared]
) -> int | None:
    """Return the index of the first pass whose graph may have become this optimised
    graph."""
    for index, left in enumerate(pending):
        if left.bodies == optimised.bodies and _becomes(left, optimised):
            return index
    return None


def _outside(
    paired: Iterable[list[PrintedUse]],
    profiled: Mapping[tuple[str, ...], Sequence[int]],
) -> dict[tuple[str, ...], list[int]]:
    """Return the positions where profiling of the program's gradients began.
    Positions between the prints of one plan (fusion pass and optimised graph) are
    left out: they belong to fallback functions, which are made with the plan."""
    spans = []
    for prints in paired:
        if len(prints) > 1:
            spans.append((prints[0].at, prints[-1].at))
    spans.sort()
    starts = [start for start, _ in spans]
    found: dict[tuple[str, ...], list[int]] = {}
    for kinds, begun in profiled.items():
        kept = found.setdefault(kinds, [])
        for position in begun:
            before = bisect_right(starts, position)
            if not before or position > spans[before - 1][1]:
                kept.append(position)
    return found


def _becomes(left: _Compared, optimised: _Compared) -> bool:
    """True if an optimised graph with the same groups may have been made from the
    graph that a pass left: they share half of the operators of the smaller one."""
    mine, other = left.ops, optimised.ops
    return len(mine & other) * 2 >= min(len(mine), len(other))


def _are_alike(ops: HashedOps, other: HashedOps) -> bool:
    """True if both share more than half of their operators: passes rewrite some."""
    return len(ops & other) * 2 > len(ops | other)


def _bodies(groups: Iterable[PlanGroup]) -> tuple[Body, ...]:
    return tuple(group.body for group in groups)


class _Fallbacks:
    """Finds the executors of fallback functions, and the executors whose groups
    were printed before."""

    def __init__(
        self,
        profiled: Mapping[tuple[str, ...], Sequence[int]],
        plans: _ComparedPlans,
    ) -> None:
        self._compared = plans
        self._profiled = {kinds: sorted(begun) for kinds, begun in profiled.items()}
        """The positions where profiling of the program's gradients began, by the
        kinds of their inputs."""
        self._gradients: dict[
            tuple[str, ...], dict[Checks, list[tuple[int, GradientPlan, PlanUse]]]
        ] = {}
        """The first plan of each gradient, and the number of such plans before it,
        by the kinds of its inputs and by its checks."""
        self._groups: dict[int, dict[Body, None]] = {}
        """The groups so far, by the hash of their set of operators."""
        self._sizes: list[int] = []
        """The number of operators of each entry of ``_groups`` that ``_shared``
        holds already."""
        self._shared = SharedOperators()
        self._with_groups: set[int] = set()
        """The ids of the uses whose groups are in ``_groups``."""
        self._plans: set[int] = set()
        """Hashes of the contents of the plans that do not stand in for another
        plan."""
        self._to_plans: list[PlanUse] = []
        """Plans whose content is not in ``_plans`` yet. It is added only when
        needed, since few logs have fallback functions."""
        self._inside: list[Counter[_Specialised]] = []
        """The groups inside each region that has no executor yet."""
        self._regions: list[tuple[HashedOps, tuple[Body, ...]]] = []
        """The operators of each region that has no forward executor yet, and the
        groups that the executor around it stands in for."""
        self._of_regions: list[tuple[HashedOps, tuple[Body, ...]]] = []
        """The operators of each region of the program that has a forward executor,
        and the groups of that executor."""
        self._regions_with_a_plan = {False: 0, True: 0}
        """The number of regions with a plan so far, by whether they are in a
        fallback function."""
        self._first_gradients = 0
        """The number of gradients of other regions with a plan so far."""
        self._gradients_of_fallbacks = 0

    def executors(self, paired: Iterable[list[PrintedUse]]) -> Iterator[Executor]:
        """The executors whose prints these are, in order; those of fallback functions
        behind the plan of the region that they stand for."""
        early: list[list[PrintedUse]] = []
        for prints in paired:
            if self._is_early(prints[0].use):
                early.append(prints)
                continue
            yield self._known(prints)
            for one in [each for each in early if not self._is_early(each[0].use)]:
                early.remove(one)
                yield self._known(one)
        for prints in early:
            yield self._known(prints)

    def _known(self, prints: list[PrintedUse]) -> Executor:
        executor = self._executor(prints)
        self._remember(executor)
        return executor

    def _is_early(self, use: PlanUse) -> bool:
        """Whether it is the plan of the fallback function of a region that has no
        plan yet."""
        if not self._regions or use.level == PlanLevel.PRINT:
            return False
        if not use.traits.may_be_fallback or self._protected(use):
            return False
        ops = self._compared.of(use).operators
        return any(
            not stands_for and _are_alike(ops, region)
            for region, stands_for in self._regions
        )

    def _executor(self, prints: list[PrintedUse]) -> Executor:
        use, at = prints[0].use, prints[0].at
        if use.level == PlanLevel.PRINT:
            return Executor(tuple(prints), bare=True, known=self._shown(use))
        traits = use.traits
        other_gradients = False
        stands_for: tuple[Body, ...] = ()
        gradient = use.plan().gradient if traits.gradient else None
        if traits.may_be_fallback:
            stands_for = self._protected(use)
        elif gradient is not None:
            stands_for = self._of_gradient(use, gradient, at)
            other_gradients = bool(stands_for)
        elif not traits.backward and not traits.diff_graphs:
            stands_for = self._around(self._compared.of(use))
        fallback = bool(stands_for)
        return Executor(
            tuple(prints),
            False,
            fallback,
            stands_for,
            other_gradients,
            self._shown(use),
        )

    def _remember(self, executor: Executor) -> None:
        """Record the groups and regions that a later executor may stand in for."""
        use = executor.use
        plan = self._compared.of(use)
        if not executor.fallback:
            self._to_plans.append(use)
        if id(use) not in self._with_groups:
            self._with_groups.add(id(use))
            for group in plan.every_group:
                ops = hash(hashed(group.body))
                self._groups.setdefault(ops, {})[group.body] = None
        self._regions += [(ops, executor.stands_for) for ops in plan.regions]
        self._inside += plan.groups_inside

    def _of_gradient(
        self, use: PlanUse, gradient: GradientPlan, at: int
    ) -> tuple[Body, ...]:
        """Return the groups of the first plan of this gradient; () if this is the
        first plan."""
        gradient = gradient.hashed()
        begun = bisect_left(self._profiled.get(gradient.inputs, ()), at)
        known = self._gradients.setdefault(gradient.inputs, {})
        count = sum(map(len, known.values()))
        if begun <= count:
            others = (
                of for checks, of in known.items() if checks != gradient.checks
            )
            for _, first, its_use in sorted(
                chain.from_iterable(others), key=itemgetter(0)
            ):
                if first.is_of(gradient):
                    return _bodies(its_use.plan().every_group())
        if self._is_of_a_fallback():
            self._gradients_of_fallbacks += 1
            return self._most_alike(self._compared.of(use).operators)
        known.setdefault(gradient.checks, []).append((count, gradient, use))
        self._first_gradients += 1
        return ()

    def _is_of_a_fallback(self) -> bool:
        """True if the next first plan of a gradient belongs to a region in a
        fallback function.

        Each region with a plan has at most one gradient, and the gradients of
        regions in fallback functions come last: they run only after the guard of a
        plan has failed. If the program's plan has no region, as after a run without
        gradients, all gradients belong to regions of its fallback functions.
        """
        regions, of_fallbacks = (
            self._regions_with_a_plan[False],
            self._regions_with_a_plan[True],
        )
        return (
            0 < regions <= self._first_gradients
            and self._gradients_of_fallbacks < of_fallbacks
        )

    def _protected(self, use: PlanUse) -> tuple[Body, ...]:
        """Return the groups that have the operators of a plan. A pass replaces some
        operators (a view by a copy), so most must agree, not all. A plan with
        further operators and the content of an earlier plan belongs to an equal
        layer or to another process: it gives ()."""
        plan = self._compared.of(use)
        ops = plan.operators
        exact = self._groups.get(hash(ops))
        if exact is not None:
            return tuple(exact)
        for known in self._to_plans:
            self._plans.add(hash(self._compared.of(known).content))
        self._to_plans.clear()
        if hash(plan.content) in self._plans:
            return ()
        return self._in_the_region(plan) or self._most_alike(ops)

    def _in_the_region(self, plan: _Compared) -> tuple[Body, ...]:
        """Return the groups of a region of the program whose operators agree with
        those of this plan, which has one region: the plan is the fallback function
        of that region, for values that need other gradients."""
        if len(plan.regions) != 1:
            return ()
        mine = plan.operators
        alike = (
            groups for ops, groups in self._of_regions if _are_alike(ops, mine)
        )
        return next(alike, ())

    def _most_alike(self, ops: HashedOps) -> tuple[Body, ...]:
        """Return the groups that share most operators with ``ops``: more than half
        of the union."""
        for bodies in islice(self._groups.values(), len(self._sizes), None):
            operators = hashed(next(iter(bodies)))
            self._shared.add(operators)
            self._sizes.append(len(operators))
        most, best = 0.5, len(self._sizes)
        for index, count in sorted(self._shared.shared(ops).items()):
            share = count / (len(ops) + self._sizes[index] - count)
            if share > most:
                most, best = share, index
        return tuple(next(islice(self._groups.values(), best, None), ()))

    def _around(self, plan: _Compared) -> tuple[Body, ...]:
        """Return the groups that the executor around a region stands in for, where
        this plan is that of the region. The region is found by its operators; its
        own passes rewrite some."""
        ops = plan.ops
        alike = [
            number
            for number, (region, _) in enumerate(self._regions)
            if _are_alike(ops, region)
        ]
        if not alike:
            return ()
        # A region whose guard fails makes no plan: the region in its fallback
        # function makes one.
        of_fallbacks = [number for number in alike if self._regions[number][1]]
        region, stands_for = self._regions.pop((of_fallbacks or alike)[0])
        self._regions_with_a_plan[bool(stands_for)] += 1
        if not stands_for:
            self._of_regions.append((region, _bodies(plan.every_group)))
        return stands_for

    def _shown(self, use: PlanUse) -> bool:
        if not self._inside or not use.traits.groups or use.traits.diff_graphs:
            return False
        mine = self._compared.of(use).groups
        if mine not in self._inside:
            return False
        self._inside.remove(mine)
        return True
