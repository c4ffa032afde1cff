"""torch.compile in a run: its graphs, graph breaks and recompilations."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from fusiondoc.model import dataclass

FALLBACKS = frozenset(("FD252", "FD253", "FD254"))
"""Reasons of operators that run in eager code because the compiler generates no
code for them: it has no lowering, leaves them to eager code on purpose, or they are
custom operators."""


@dataclass(frozen=True)
class Accounts:
    """The operators of a graph, counted by what computes them; each counts once."""

    in_groups: int
    in_calls: int
    views: int
    """Views, nodes that unpack the results of an operator, dynamic sizes, memory
    that is only reserved, and constants: no kernel computes them."""
    dead: int
    """Operators whose results nothing reads."""
    not_found: tuple[str, ...]
    """Names of nodes of the graph that no kernel or call is known to compute."""


@dataclass(frozen=True)
class CompiledGraphRow:
    """A graph that was compiled."""

    compile_id: str | None
    """Frame and recompile: ``0/1``."""
    phase: str | None
    specialisation: int
    """2, 3, ... for the same operators with other types."""
    rank: int | None
    groups: tuple[str, ...]
    """Ids of its rows in ``groups``, each once."""
    accounts: Accounts | None
    """None if the operators of the graph are not known."""
    bytes_accessed: int | None
    """Bytes that its kernels and calls read and write in a run, as the compiler
    counts them."""
    decisions: bool
    """The log shows why nodes were not fused."""
    from_cache: bool
    """Its code came from a cache: nothing was lowered."""
    failed: str | None
    """The error with which its compilation ended."""
    failed_at: str | None
    """``file:line`` of the function whose compilation failed, if the log shows
    it."""
    seconds: float | None
    kernels: int = 0
    """Number of its groups, each counted as often as the graph runs it, without
    ``CompiledReport.second_stages``."""

    @property
    def not_found(self) -> tuple[str, ...]:
        """Names of its operators that no kernel or call is known to compute."""
        if self.accounts is None:
            return ()
        return self.accounts.not_found


@dataclass(frozen=True)
class GraphBreakRow:
    """A line at which Dynamo ended a graph."""

    user_source: str | None
    function: str | None
    number: str | None
    """Number in torch's registry of graph breaks: ``GB0059``."""
    reason: str
    hints: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class RecompileRow:
    """A function that was compiled again."""

    function: str | None
    user_source: str | None
    guards: tuple[str, ...]
    """Guards that failed, each once."""
    count: int
    limit_reached: bool
    """The limit of recompilations was reached: it runs in eager code from then
    on."""


@dataclass(frozen=True)
class ComputedAgain:
    """An operator that several groups compute, because that is cheaper than keeping
    its result."""

    op: str
    user_source: str | None
    phase: str | None
    groups: tuple[str, ...]
    times: int
    """Number of kernels that compute it in a run of its graph."""


@dataclass(frozen=True)
class CompiledReport:
    """Graphs, graph breaks and recompilations of torch.compile in the run."""

    graphs: tuple[CompiledGraphRow, ...]
    breaks: tuple[GraphBreakRow, ...]
    recompiles: tuple[RecompileRow, ...]
    computed_again: tuple[ComputedAgain, ...]
    second_stages: tuple[str, ...] = ()
    """Ids of groups that only add up the partial results of a reduction that was
    split in two: whether there are any depends on how many multiprocessors the
    device has."""
    unknown_texts: tuple[str, ...] = ()
    """Messages of the compiler in a form that this version does not know."""

    @property
    def bytes_moved(self) -> int | None:
        """Bytes that all its graphs read and write, each run once; None if those of
        one of them are unknown."""
        known = []
        for graph in self.graphs:
            if graph.bytes_accessed is not None:
                known.append(graph.bytes_accessed)
        if len(known) == len(self.graphs):
            return sum(known)
        return None

    @property
    def views_alone(self) -> int:
        """Number of operators in its graphs if none of the graphs computes
        anything; 0 if one does, or if that is unknown."""
        accounts = []
        for graph in self.graphs:
            accounts.append(None if graph.failed else graph.accounts)
        known = [one for one in accounts if one is not None]
        if len(known) < len(accounts) or any(
            one.in_groups or one.in_calls or one.not_found for one in known
        ):
            return 0
        return sum(one.views + one.dead for one in known)

    def counted_again(self, groups: AbstractSet[str]) -> int:
        """Return how often these groups (their ids) compute an operator again that
        another one of them counts already."""
        total = 0
        for row in self.computed_again:
            if groups >= set(row.groups):
                total += row.times - 1
        return total
