"""The work of a fuser while its log is read: the runtime objects of its groups, and
whether the log shows the end of the work that began."""

from __future__ import annotations

from typing import NamedTuple

from fusiondoc.model import dataclass
from fusiondoc.parsers.jit.plan import GroupGraph, PlanGroup


class CacheInstance:
    """A GraphCache: the runtime object of one distinct group graph. A log can hold
    ten thousand."""

    __slots__ = ("begun", "created", "graph", "in_part", "pointer", "runs")

    def __init__(
        self,
        pointer: bytes,
        graph: GroupGraph | None,
        created: int,
        runs: int = 0,
        begun: bool = False,
    ) -> None:
        self.pointer = pointer
        self.graph = graph
        self.created = created
        self.runs = runs
        self.in_part: PlanGroup | None = None
        """The part of its graph in the log, if the graph is truncated."""
        self.begun = begun
        """True if the log shows its constructor."""


class FuserWork(NamedTuple):
    """The work of a fuser on a group."""

    stage: str
    """"compile" or "run"."""
    cache: CacheInstance | None
    """The cache of the group, if the fuser announces runs."""
    line: int
    graph: GroupGraph | None = None
    """The graph that it compiles, if the fuser prints it."""


class KernelNamed(NamedTuple):
    """A kernel whose source was printed and whose time was not."""

    name: str
    line: int


class CrashSeen(NamedTuple):
    """The words of a shell, a launcher or the process itself about the signal that
    ended it."""

    text: str
    line: int
    work: FuserWork | None
    """The unfinished work at that line."""
    kernel: KernelNamed | None = None
    """The kernel whose source was printed last, if its time was not printed yet."""
    rank: int | None = None
    """The rank that the line names."""
    signal: str | None = None
    """The signal that the line names, such as SIGSEGV."""


@dataclass
class WorkSeen:
    """The work of a fuser in one process, in the order of its log, and whether the
    log shows its end: a crash belongs to unfinished work.

    A fuser that announces runs prints ``GraphCache created`` and ``running
    GraphCache`` before it compiles or runs a group, and after that only kernels
    (torch/csrc/jit/codegen/cuda/kernel_cache.cpp, 1.12 to 2.1). Another fuser
    prints the graph of a kernel before it compiles it, and nothing when the kernel
    runs.
    """

    last: FuserWork | None = None
    over: int = -1
    """The last line that is printed only after the work before it is done."""
    fell: int = -1
    """The last line about a fallback."""
    launched: int = -1
    """The last line about a launch or a kernel's source."""
    timed: int = -1
    """The last line with the time of a launch, which is printed after the
    launch."""
    kernel: KernelNamed | None = None
    cut_kernel: KernelNamed | None = None
    """The kernel in whose source the log ends."""
    crash: CrashSeen | None = None
    """The first crash."""

    def open(self) -> FuserWork | None:
        """Return the work that has begun, unless a later line shows its end."""
        if self.last is None or self.last.line < self.over:
            return None
        if self.timed > max(self.last.line, self.launched):
            return None
        return self.last

    def fell_back(self, line: int) -> None:
        """Record that the work is over, and that its operators run unfused."""
        self.over = self.fell = line

    def unfused(self) -> FuserWork | None:
        """Return the work that fell back, unless a later line shows that its
        unfused operators are done."""
        begun = self.last is not None and self.last.line < self.fell
        if begun and self.over == self.fell:
            return self.last
        return None

    def first_run(self) -> bool:
        """True if the log ends in the first run of a group, or in its
        compilation."""
        work = self.open()
        return work is not None and work.cache is not None and work.cache.runs <= 1

    def kernel_of(self, work: FuserWork) -> str | None:
        """Return the last kernel that was compiled since this work began and has
        not finished; None without one."""
        if self.kernel is not None and self.kernel.line > work.line:
            return self.kernel.name
        return None

    def compiles(self, kernel: str, line: int) -> None:
        self.kernel = KernelNamed(kernel, line)
        self.launched = line

    def ran(self, line: int) -> None:
        """Record a timed launch."""
        self.kernel, self.timed = None, line

    def crashed(
        self, text: str, line: int, rank: int | None, signal: str | None
    ) -> None:
        if self.crash is None:
            self.crash = CrashSeen(
                text, line, self.open(), self.kernel, rank, signal
            )
