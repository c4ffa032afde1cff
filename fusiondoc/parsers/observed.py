"""Facts in the logs that are not part of the report, for the rules of the
diagnosis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Evidence
from fusiondoc.numbers import BITS_64, whole_number
from fusiondoc.parsers.facts import ErrorSeen, Facts, PlanLevel
from fusiondoc.parsers.fuser_work import CacheInstance, FuserWork, KernelNamed
from fusiondoc.parsers.jit.plan import PlanGroup, Traits
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.group_rows import GroupRow, GroupTable

if TYPE_CHECKING:
    from fusiondoc.fusers import Compilation


class LastWork(NamedTuple):
    """A group on which a fuser worked."""

    stage: str
    """"compile" or "run"."""
    group: str | None
    """Its id, if its graph is in the log."""
    line: Evidence
    kernel: str | None = None
    """The last of its kernels that was named."""
    cut: bool = False
    """True if the log ends in the print of its graph."""


class NamedKernel(NamedTuple):
    """A kernel, and the line where its source begins."""

    name: str
    line: Evidence


class LoggedError(NamedTuple):
    """The last line of a traceback, and the lines after it that belong to it."""

    text: str
    line: Evidence
    work: LastWork | None = None
    """The work that was unfinished at that line."""
    unfused: LastWork | None = None
    """Work that had fallen back, and whose unfused operators ran."""
    rank: int | None = None
    """Its rank, if several ranks wrote the log, or torch tagged it."""
    at: str | None = None
    """``file:line`` of the operator that failed, if a TorchScript traceback names
    it."""


class LoggedCrash(NamedTuple):
    """The words of the log about a signal that ended the process."""

    text: str
    line: Evidence
    work: LastWork | None
    """The work that was unfinished at that line."""
    kernel: NamedKernel | None = None
    """The kernel whose source was printed last, if its time was not."""
    rank: int | None = None
    """The rank of the process, if the log names it."""
    signal: str | None = None
    """The signal that the log names, such as SIGSEGV."""


class SizedReduction(NamedTuple):
    """A reduction over constant dimensions from whose result a plan computes only a
    size."""

    op: str
    source: str | None
    dims: tuple[int, ...]
    group: str
    """The id of its group."""
    line: Evidence
    """The line where the group was printed."""


@dataclass(frozen=True)
class Observed:
    files: tuple[str, ...] = ()
    compilation: Compilation | None = None
    """The output of torch.compile; None if the log has none."""
    headers: Mapping[str, int] = field(default_factory=dict)
    """Header text -> the number of dumps of that kind of graph."""
    levels: frozenset[str] = frozenset()
    """Files of the JIT log that printed something."""
    release: str | None = None
    """The release of torch, from the source lines of its messages."""
    fuser_gone: Evidence | None = None
    """The line in which torch states that this TorchScript no longer has the
    fuser."""
    options_set: Evidence | None = None
    """The line that sets a variable with options of a fuser."""
    thunder_traces: int = 0
    """Number of traces of Lightning Thunder."""
    other_fusions: tuple[str, ...] = ()
    """Names of fusions in traces and definitions of tools other than
    TorchScript."""
    beside_fusions: tuple[str, ...] = ()
    """Operators that the last trace with fusions calls outside fusions."""
    other_tools: Evidence | None = None
    """The first line of another tool."""
    disordered: bool = False
    """True if stdout and stderr are not in true order."""
    errors: tuple[LoggedError, ...] = ()
    sized: tuple[SizedReduction, ...] = ()
    """The sized reductions in the order of the plans."""
    last_works: Mapping[int | None, LastWork] = field(default_factory=dict)
    """Rank of a process -> the last work of a fuser in it."""
    only_inner_plans: bool = False
    """True if executors of differentiable graphs printed their plans, but no plan
    that contains such a graph is in the log: operators outside these graphs are not
    in the log."""
    other_gradients: frozenset[str] = frozenset()
    """Ids of groups that were made again because other gradients were defined."""
    traced: bool = False
    """True if a plan has scopes, which only tracing writes."""
    plans_cut: bool = False
    """True if the log lacks a part of a plan."""
    looked_at_in_part: int = 0
    """Number of nodes of plans that have more neighbours than the rules for reasons
    inspect."""
    first_run: LastWork | None = None
    """The group in whose first run or compilation the log ends."""
    cut_kernel: NamedKernel | None = None
    """The kernel in whose source the log ends."""
    crash: LoggedCrash | None = None
    stacks: Mapping[int | None, Evidence] = field(default_factory=dict)
    """Rank of a process -> the line where Python's faulthandler printed its
    stack."""
    launched: Evidence | None = None
    """The line in which torch's launcher starts several processes."""
    torn: int = 0
    """Lower bound for the number of lines that were interrupted by lines of other
    processes; 0 if the processes are distinguished."""
    torn_lines: tuple[Evidence, ...] = ()
    """The first of the interrupted lines."""
    ranks_by: str | None = None
    """The source of the ranks: "files", "prefixes" or "order"; None for one
    process."""
    machines: bool = False
    """True if the local ranks of several logs are numbered consecutively, one
    machine after the other."""
    same_local: bool = False
    """True if several logs have the same local ranks and were read as the same
    processes, although nothing shows that."""

    @property
    def last_work(self) -> LastWork | None:
        """The last work of a fuser; of several ranks, that of the last rank."""
        return next(reversed(tuple(self.last_works.values())), None)

    def last_work_of(self, rank: int | None) -> LastWork | None:
        """Return the last work of one rank; of the run if ``rank`` is None."""
        if rank is not None:
            return self.last_works.get(rank)
        return self.last_work

    def stack_of(self, rank: int | None) -> Evidence | None:
        """Return the line with the stack of that process; else that of a process
        whose rank is unknown."""
        return self.stacks.get(rank) or self.stacks.get(None)

    def sized_for(self, text: str) -> list[SizedReduction]:
        """Return the reductions, of one group, whose size explains an error.

        The run ends with that error, so the plan that was made last is the plan
        that ran.
        """
        found = _RANGE.search(text)
        if found is not None:
            dim = whole_number(found.group(1), BITS_64)
            same = []
            for one in self.sized:
                if dim is not None and dim - BITS_64 in one.dims:
                    same.append(one)
        else:
            same = list(self.sized) if NOT_IN_SCOPE.search(text) else []
        return [one for one in same if one.group == same[-1].group]


_RANGE = re.compile(
    r"vector::_M_range_check: __n \(which is (\d{1,20})\) >= this->size\(\) \(which is (\d{1,3})\)"
)
"""An error of libstdc++. The first number is a dimension as an unsigned integer of
64 bits."""

NOT_IN_SCOPE = re.compile(
    r"Graph::copy\(\) encountered a use of a value \S+ not in scope"
)
"""An error of Block::cloneFrom in torch/csrc/jit/ir/ir.cpp."""


def observed_in(streams: Iterable[GroupTable], files: Sequence[str]) -> Observed:
    """Merge the streams: for lines that torch prints once per process the first
    stream counts; the last work of the fuser is kept for each stream."""
    merged = _Merged(list(streams), files)
    plans = []
    for table in merged.tables:
        plans.extend(_traits(table))
    return Observed(
        files=tuple(files),
        headers=merged.headers(),
        levels=frozenset().union(*(facts.levels for facts in merged.facts)),
        release=merged.release(),
        fuser_gone=merged.first(lambda facts: facts.fuser_gone),
        options_set=merged.first(lambda facts: facts.options_set),
        launched=merged.first(lambda facts: facts.launched),
        torn=merged.total(lambda facts: facts.torn),
        torn_lines=merged.torn_lines(),
        thunder_traces=merged.total(lambda facts: facts.other_tools.traces),
        other_fusions=merged.other_fusions(),
        beside_fusions=merged.beside_fusions(),
        other_tools=merged.first(_line_of_other_tools),
        disordered=any(facts.disordered for facts in merged.facts),
        errors=merged.errors(),
        sized=tuple(merged.sized()),
        last_works=merged.last_works(),
        first_run=merged.first_run(),
        cut_kernel=merged.cut_kernel(),
        crash=merged.crash(),
        stacks=merged.stacks(),
        only_inner_plans=any(
            _has_only_inner_plans(table) for table in merged.tables
        ),
        other_gradients=merged.rows_with_other_gradients(),
        traced=any(plan.traced for plan in plans),
        plans_cut=any(not plan.complete for plan in plans),
        looked_at_in_part=sum(plan.looked_at_in_part for plan in plans),
    )


def _traits(table: GroupTable) -> list[Traits]:
    return [use.traits for use, _ in table.plans]


def _has_only_inner_plans(table: GroupTable) -> bool:
    """True if the log has plans of differentiable graphs, but none of the graphs
    that contain them."""
    plans = _traits(table)
    return any(plan.of_region for plan in plans) and not any(
        plan.diff_graphs for plan in plans
    )


def _line_of_other_tools(facts: Facts) -> int | None:
    if facts.other_tools.named:
        return facts.other_tools.line
    return None


class _Merged:
    """The facts of all streams of a run, merged field by field."""

    def __init__(self, tables: Sequence[GroupTable], files: Sequence[str]) -> None:
        self.tables = tables
        self.facts = [table.facts for table in tables]
        self._files = files

    def evidence(self, position: int) -> Evidence:
        return PackedEvidence([position], self._files)[0]

    def first(self, line: Callable[[Facts], int | None]) -> Evidence | None:
        """Return the line of the first stream that has it; None if no stream
        does."""
        for facts in self.facts:
            position = line(facts)
            if position is not None:
                return self.evidence(position)
        return None

    def total(self, number: Callable[[Facts], int]) -> int:
        return sum(number(facts) for facts in self.facts)

    def release(self) -> str | None:
        """Return the release of torch, if all streams that know it agree."""
        releases = set()
        for facts in self.facts:
            if facts.release is not None:
                releases.add(facts.release)
        if len(releases) == 1:
            return releases.pop()
        return None

    def torn_lines(self) -> tuple[Evidence, ...]:
        lines = []
        for facts in self.facts:
            for line in facts.torn_lines:
                lines.append(self.evidence(line))
        return tuple(lines)

    def rows_with_other_gradients(self) -> frozenset[str]:
        rows = set()
        for table in self.tables:
            for row in table.rows:
                if row.other_gradients:
                    rows.add(row.id)
        return frozenset(rows)

    def headers(self) -> dict[str, int]:
        headers: Counter[str] = Counter()
        for facts in self.facts:
            headers.update(facts.headers)
        return dict(headers)

    def other_fusions(self) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for facts in self.facts:
            names.update(facts.other_tools.fusions)
            names.update(facts.other_tools.definitions)
        return tuple(names)

    def beside_fusions(self) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for facts in self.facts:
            for name in facts.other_tools.beside:
                names[name] = None
        return tuple(names)

    def stacks(self) -> dict[int | None, Evidence]:
        """Return the first stack that each process printed, by rank."""
        stacks: dict[int | None, Evidence] = {}
        for facts in self.facts:
            for rank, line in facts.stacks.items():
                stacks.setdefault(
                    facts.rank if facts.rank is not None else rank,
                    self.evidence(line),
                )
        return stacks

    def sized(self) -> Iterator[SizedReduction]:
        for table in self.tables:
            for plan in table.plans:
                if not plan.use.traits.sized:
                    continue
                for group, row in table.rows_of(plan):
                    for sized in group.sized:
                        line = self.evidence(row.lines[0])
                        yield SizedReduction(
                            sized.op, sized.source, sized.dims, row.id, line
                        )

    # -- the fuser's work -----------------------------------------------------------------------------------

    def last_works(self) -> dict[int | None, LastWork]:
        works: dict[int | None, LastWork] = {}
        for table in self.tables:
            work = self._last_work(table, table.facts.work.last)
            if work is not None:
                works[table.facts.rank] = work
        return works

    def first_run(self) -> LastWork | None:
        """Return the first run of a group whose end is not in the log; None without
        one."""
        for table in self.tables:
            seen = table.facts.work
            work = self._last_work(table, seen.open()) if seen.first_run() else None
            if work is not None:
                return work
        return None

    def cut_kernel(self) -> NamedKernel | None:
        for facts in self.facts:
            if facts.work.cut_kernel is not None:
                return self._named(facts.work.cut_kernel)
        return None

    def _last_work(
        self, table: GroupTable, work: FuserWork | None
    ) -> LastWork | None:
        if work is None:
            return None
        rows = table.of_cache(work.cache) or table.of_graph(work.graph)
        if not rows and work.cache is not None and work.cache.begun:
            rows = _being_made(table, work.cache)
        kernel = table.facts.work.kernel_of(work)
        cut = (
            work.cache is not None and work.cache.begun and work.cache.graph is None
        )
        return LastWork(
            work.stage,
            rows[0].id if rows else None,
            self.evidence(work.line),
            kernel,
            cut,
        )

    def _named(self, kernel: KernelNamed | None) -> NamedKernel | None:
        if kernel is None:
            return None
        return NamedKernel(kernel.name, self.evidence(kernel.line))

    # -- errors and crashes ---------------------------------------------------------------------------------

    def errors(self) -> tuple[LoggedError, ...]:
        errors = []
        for table in self.tables:
            for error in table.facts.errors:
                errors.append(self._logged(table, error))
        failed = None
        for facts in self.facts:
            if facts.failed_rank is not None:
                failed = facts.failed_rank
                break
        if failed is None or any(
            error.rank in (None, failed.rank) for error in errors
        ):
            return tuple(errors)
        if self._first_crash() is None:
            errors.append(
                LoggedError(
                    failed.text, self.evidence(failed.line), rank=failed.rank
                )
            )
        return tuple(errors)

    def _logged(self, table: GroupTable, error: ErrorSeen) -> LoggedError:
        return LoggedError(
            error.text,
            self.evidence(error.line),
            self._last_work(table, error.work),
            self._last_work(table, error.unfused),
            table.facts.rank if table.facts.rank is not None else error.rank,
            error.at,
        )

    def crash(self) -> LoggedCrash | None:
        table = self._first_crash()
        seen = table.facts.work.crash if table is not None else None
        if table is None or seen is None:
            return None
        rank = seen.rank if seen.rank is not None else table.facts.rank
        work, kernel = seen.work, seen.kernel
        own = next(
            (other for other in self.tables if other.facts.rank == rank), table
        )
        # A launcher's lines about the crash may be among the lines of any rank.
        if own is not table:
            table, work, kernel = own, own.facts.work.open(), own.facts.work.kernel
        last = self._last_work(table, work)
        return LoggedCrash(
            seen.text,
            self.evidence(seen.line),
            last,
            self._named(kernel),
            rank,
            seen.signal,
        )

    def _first_crash(self) -> GroupTable | None:
        for table in self.tables:
            if table.facts.work.crash is not None:
                return table
        return None


def _being_made(groups: GroupTable, cache: CacheInstance) -> list[GroupRow]:
    """Return the row of the group whose GraphCache the fuser began to make and
    whose graph is truncated.

    Directly after printing a plan, the fuser makes the caches of its groups, in the
    order of the nodes and one for each distinct graph (compileFusionRecursive of
    torch/csrc/jit/codegen/cuda/graph_fuser.cpp and registerOrGetCacheId of
    manager.cpp, 1.12 to 2.1).
    """
    made = set()
    for one in groups.facts.caches:
        if one.graph is not None:
            made.add(one.graph.canonical)
    printed = []
    for plan in groups.plans:
        if plan.use.traits.groups and plan.use.level is PlanLevel.FUSION_PASS:
            for line in plan.use.lines:
                if line < cache.created:
                    printed.append((line, plan))
    for _, plan in sorted(printed, key=lambda one: one[0], reverse=True):
        for group, row in groups.rows_of(plan):
            if group.canonical not in made and _begins_with(group, cache.in_part):
                return [row]
    return []


def _begins_with(group: PlanGroup, part: PlanGroup | None) -> bool:
    """True if ``part`` can be the beginning of the print of that group; its last
    line may be truncated too."""
    if part is None:
        return True
    body, inputs = part.body[:-1], part.inputs if part.body else part.inputs[:-1]
    return group.body[: len(body)] == body and group.inputs[: len(inputs)] == inputs
