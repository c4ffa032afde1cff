"""What the logs show besides the report, for the rules of the diagnosis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.model.numbers import BITS_64, whole_number
from fusiondoc.model.report import Evidence
from fusiondoc.parsers.facts import CacheInstance, CrashSeen, ErrorSeen, KernelNamed, PlanLevel, Work
from fusiondoc.parsers.jit.plan import PlanGroup
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.group_rows import GroupRow, GroupTable


class LastWork(NamedTuple):
    """A group that a fuser worked on."""

    stage: str
    """"compile" or "run"."""
    group: str | None
    """Its id, if its graph is in the log."""
    line: Evidence
    kernel: str | None = None
    """The kernel of it that was named last."""
    cut: bool = False
    """The log breaks off in the print of its graph."""


class NamedKernel(NamedTuple):
    """A kernel, where its source begins."""

    name: str
    line: Evidence


class LoggedError(NamedTuple):
    """The last line of a traceback, and those behind it that belong to it."""

    text: str
    line: Evidence
    work: LastWork | None = None
    """What was not done by then."""
    unfused: LastWork | None = None
    """What had fallen back, and whose unfused operators ran."""
    rank: int | None = None
    """Whose it is, where several ranks wrote the log, or torch tagged it."""
    at: str | None = None
    """``file:line`` of the operator that failed, where TorchScript's traceback tells it."""


class LoggedCrash(NamedTuple):
    """What the log says of a signal that ended the process."""

    text: str
    line: Evidence
    work: LastWork | None
    """What was not done by then."""
    kernel: NamedKernel | None = None
    """The kernel whose source was printed last, if no time of it was."""
    rank: int | None = None
    """Whose it is, where the log says it."""
    signal: str | None = None
    """Such as SIGSEGV, where the log names it."""


class SizedReduction(NamedTuple):
    """A reduction over constant dimensions of which a plan computes only the size."""

    op: str
    source: str | None
    dims: tuple[int, ...]
    group: str
    """The id of its group."""
    line: Evidence
    """Where that was printed."""


@dataclass(frozen=True)
class Observed:
    files: tuple[str, ...] = ()
    headers: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of graph was dumped, by header text."""
    levels: frozenset[str] = frozenset()
    """JIT log files that printed something."""
    release: str | None = None
    """The release of torch that the lines of its messages tell."""
    nvfuser_gone: Evidence | None = None
    """Where torch says that nvFuser is not in this TorchScript any more."""
    options_set: Evidence | None = None
    """Where a variable with options of nvFuser is set."""
    thunder_traces: int = 0
    """Traces of Lightning Thunder."""
    other_fusions: tuple[str, ...] = ()
    """Fusions that Thunder's traces and stand-alone nvFuser's definitions name."""
    other_tools: Evidence | None = None
    """Where the first line of stand-alone nvFuser's or Thunder's is."""
    disordered: bool = False
    """stdout and stderr are not in true order."""
    errors: tuple[LoggedError, ...] = ()
    sized: tuple[SizedReduction, ...] = ()
    """In the order of the plans."""
    last_works: Mapping[int | None, LastWork] = field(default_factory=dict)
    """What a fuser worked on last, by the rank of the process."""
    only_inner_plans: bool = False
    """Executors of differentiable graphs printed their plans, and no plan that holds such a graph is there:
    what is in none of them is not in the log."""
    other_gradients: frozenset[str] = frozenset()
    """Ids of groups that were made again because other gradients were defined."""
    traced: bool = False
    """A plan has scopes, which only tracing writes."""
    plans_cut: bool = False
    """The log lacks a part of a plan."""
    looked_at_in_part: int = 0
    """Nodes of plans that have more neighbours than the rules for reasons look at."""
    first_run: LastWork | None = None
    """The log ends in the first run of this group, or while it is compiled."""
    cut_kernel: NamedKernel | None = None
    """The log ends in the source of this kernel."""
    crash: LoggedCrash | None = None
    stacks: Mapping[int | None, Evidence] = field(default_factory=dict)
    """Where Python's faulthandler printed the stack of a process, by its rank."""
    launched: Evidence | None = None
    """Where torch's launcher says that it starts several processes."""
    torn: int = 0
    """Lines that are torn apart by lines of other processes, at least; none where these are told apart."""
    torn_lines: tuple[Evidence, ...] = ()
    """The first of them."""
    ranks_by: str | None = None
    """How the ranks are known: "files", "prefixes" or "order"; None for one process."""
    machines: bool = False
    """The local ranks of several logs are counted on, one machine after the other."""
    same_local: bool = False
    """Several logs have the same local ranks, which were taken for the same processes; nothing tells it."""

    @property
    def last_work(self) -> LastWork | None:
        """What a fuser worked on last: of several ranks the last one's."""
        return next(reversed(tuple(self.last_works.values())), None)

    def last_work_of(self, rank: int | None) -> LastWork | None:
        """The same of one rank; of the run where no rank is named."""
        return self.last_works.get(rank) if rank is not None else self.last_work

    def stack_of(self, rank: int | None) -> Evidence | None:
        """Where the stack of that process is printed; of the lines that nothing ties to a rank, any."""
        return self.stacks.get(rank) or self.stacks.get(None)

    def sized_for(self, text: str) -> list[SizedReduction]:
        """The reductions with the size of whose result an error is explained; those of one group.

        The run ends with that error, so the plan that was made last is the one that ran."""
        found = _RANGE.search(text)
        if found is not None:
            dim = whole_number(found.group(1), BITS_64)
            same = [one for one in self.sized if dim is not None and dim - BITS_64 in one.dims]
        else:
            same = list(self.sized) if NOT_IN_SCOPE.search(text) else []
        return [one for one in same if one.group == same[-1].group]


_RANGE = re.compile(
    r"vector::_M_range_check: __n \(which is (\d{1,20})\) >= this->size\(\) \(which is (\d{1,3})\)"
)
"""Of libstdc++. The first number is a dimension as an unsigned one of 64 bits."""

NOT_IN_SCOPE = re.compile(r"Graph::copy\(\) encountered a use of a value \S+ not in scope")
"""Block::cloneFrom of torch/csrc/jit/ir/ir.cpp."""


def observed_in(streams: Iterable[GroupTable], files: Sequence[str]) -> Observed:
    """What the streams of a run show together. Of what torch says once a process, the first stream's line
    counts."""

    streams = list(streams)

    def evidence(pos: int) -> Evidence:
        return PackedEvidence([pos], files)[0]

    def last_work(groups: GroupTable, work: Work | None) -> LastWork | None:
        if work is None:
            return None
        rows = groups.of_cache(work.cache) or groups.of_graph(work.graph)
        if not rows and work.cache is not None and work.cache.begun:
            rows = _being_made(groups, work.cache)
        kernel = groups.facts.work.kernel_of(work)
        cut = work.cache is not None and work.cache.begun and work.cache.graph is None
        return LastWork(work.stage, rows[0].id if rows else None, evidence(work.line), kernel, cut)

    def named(kernel: KernelNamed | None) -> NamedKernel | None:
        return NamedKernel(kernel.name, evidence(kernel.line)) if kernel is not None else None

    def logged_crash(there: GroupTable, seen: CrashSeen) -> LoggedCrash:
        rank = seen.rank if seen.rank is not None else there.facts.rank
        begun, kernel = seen.work, seen.kernel
        own = next((one for one in streams if one.facts.rank == rank), there)
        if own is not there:  # a launcher's words stand in the lines of any of its ranks
            there, begun, kernel = own, own.facts.work.open(), own.facts.work.kernel
        line, last = evidence(seen.line), last_work(there, begun)
        return LoggedCrash(seen.text, line, last, named(kernel), rank, seen.signal)

    torn = 0
    torn_lines: list[int] = []
    headers: Counter[str] = Counter()
    levels: set[str] = set()
    errors: list[LoggedError] = []
    sized: list[SizedReduction] = []
    releases: set[str] = set()
    again: set[str] = set()
    launched: Evidence | None = None
    stacks: dict[int | None, Evidence] = {}
    failed_rank: ErrorSeen | None = None
    crash: CrashSeen | None = None
    crashed: GroupTable | None = None
    last_works: dict[int | None, LastWork] = {}
    gone = options = first_run = cut_kernel = None
    disordered = only_inner = cut = traced = False
    traces, other, in_part = 0, None, 0
    fusions: dict[str, None] = {}
    for groups in streams:
        facts = groups.facts
        traces += facts.other_tools.traces
        fusions.update({**facts.other_tools.fusions, **facts.other_tools.definitions})
        if other is None and facts.other_tools.named and facts.other_tools.line is not None:
            other = evidence(facts.other_tools.line)
        headers.update(facts.headers)
        levels |= facts.levels
        again.update(row.id for row in groups.rows if row.other_gradients)
        releases |= {facts.release} if facts.release is not None else set()
        errors += (
            LoggedError(
                error.text,
                evidence(error.line),
                last_work(groups, error.work),
                last_work(groups, error.unfused),
                facts.rank if facts.rank is not None else error.rank,
                error.at,
            )
            for error in facts.errors
        )
        for rank, line in facts.stacks.items():
            stacks.setdefault(facts.rank if facts.rank is not None else rank, evidence(line))
        failed_rank = failed_rank or facts.failed_rank
        disordered = disordered or facts.disordered
        torn += facts.torn
        torn_lines += facts.torn_lines
        plans = [use.plan for use, _ in groups.plans]
        sized += (
            SizedReduction(one.op, one.source, one.dims, row.id, evidence(row.lines[0]))
            for plan in groups.plans
            for group, row in groups.rows_of(plan)
            for one in group.sized
        )
        only_inner = only_inner or (
            any(plan.of_region for plan in plans) and not any(plan.diff_graphs for plan in plans)
        )
        traced = traced or any(plan.traced for plan in plans)
        cut = cut or any(not plan.complete for plan in plans)
        flows = {plan.flow for plan in plans} | {one.flow for plan in plans for one in plan.diff_graphs}
        in_part += sum(flow.looked_at_in_part for flow in flows if flow is not None)
        if gone is None and facts.nvfuser_gone is not None:
            gone = evidence(facts.nvfuser_gone)
        if launched is None and facts.launched is not None:
            launched = evidence(facts.launched)
        if options is None and facts.options_set is not None:
            options = evidence(facts.options_set)
        work = facts.work
        last = last_work(groups, work.last)
        if last is not None:
            last_works[facts.rank] = last
        if first_run is None and work.first_run():
            first_run = last_work(groups, work.open())
        cut_kernel = cut_kernel or named(work.cut_kernel)
        if crash is None and work.crash is not None:
            crash = work.crash
            crashed = groups
    own = failed_rank is not None and any(one.rank in (None, failed_rank.rank) for one in errors)
    if failed_rank is not None and not own and crash is None:
        errors.append(LoggedError(failed_rank.text, evidence(failed_rank.line), rank=failed_rank.rank))
    return Observed(
        files=tuple(files),
        headers=dict(headers),
        levels=frozenset(levels),
        release=releases.pop() if len(releases) == 1 else None,
        nvfuser_gone=gone,
        options_set=options,
        launched=launched,
        torn=torn,
        torn_lines=tuple(map(evidence, torn_lines)),
        thunder_traces=traces,
        other_fusions=tuple(fusions),
        other_tools=other,
        disordered=disordered,
        errors=tuple(errors),
        sized=tuple(sized),
        last_works=last_works,
        first_run=first_run,
        cut_kernel=cut_kernel,
        crash=logged_crash(crashed, crash) if crash is not None and crashed is not None else None,
        stacks=stacks,
        only_inner_plans=only_inner,
        other_gradients=frozenset(again),
        traced=traced,
        plans_cut=cut,
        looked_at_in_part=in_part,
    )


def _being_made(groups: GroupTable, cache: CacheInstance) -> list[GroupRow]:
    """The row of the group whose GraphCache nvFuser began to make and whose graph the log cuts off.

    Right after it printed a plan, nvFuser makes the caches of its groups, in the order of the nodes and
    one for each distinct graph (compileFusionRecursive of torch/csrc/jit/codegen/cuda/graph_fuser.cpp and
    registerOrGetCacheId of manager.cpp, 1.12 to 2.1).
    """
    made = {one.graph.canonical for one in groups.facts.caches if one.graph is not None}
    printed = [
        (line, plan)
        for plan in groups.plans
        if plan.use.plan.groups and plan.use.level is PlanLevel.FUSION_PASS
        for line in plan.use.lines
        if line < cache.created
    ]
    for _, plan in sorted(printed, key=lambda one: one[0], reverse=True):
        for group, row in groups.rows_of(plan):
            if group.canonical not in made and _begins_with(group, cache.in_part):
                return [row]
    return []


def _begins_with(group: PlanGroup, part: PlanGroup | None) -> bool:
    """Whether ``part`` can be the beginning of the print of that group; its last line may be cut, too."""
    if part is None:
        return True
    body, inputs = part.body[:-1], part.inputs if part.body else part.inputs[:-1]
    return group.body[: len(body)] == body and group.inputs[: len(inputs)] == inputs
