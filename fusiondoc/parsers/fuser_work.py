"""The work of a fuser as its log is read: the runtime objects of its groups, and
whether the log shows the end of the work that began.
"""

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
        """What the log holds of its graph, where that is cut off."""
        self.begun = begun
        """The log shows its constructor."""


class Work(NamedTuple):
    """A fuser works on a group."""

    stage: str
    """"compile" or "run"."""
    cache: CacheInstance | None
    """Of the group, where the fuser announces runs."""
    line: int
    graph: GroupGraph | None = None
    """The graph that it compiles, where the fuser prints that."""


class KernelNamed(NamedTuple):
    """A kernel whose source was printed, and which has no time yet."""

    name: str
    line: int


class CrashSeen(NamedTuple):
    """What a shell, a launcher or the process itself says of the signal that ended
    it."""

    text: str
    line: int
    work: Work | None
    """What was open at that line."""
    kernel: KernelNamed | None = None
    """The kernel whose source was printed last, if it has no time yet."""
    rank: int | None = None
    """Of which rank, where that line says it."""
    signal: str | None = None
    """Such as SIGSEGV, where that line names it."""


@dataclass
class WorkSeen:
    """What a fuser works on in one process, in the order of its log, and whether
    the log shows its end: a crash is of the work that is open.

    A fuser that announces runs prints ``GraphCache created`` and ``running
    GraphCache`` before it compiles or runs a group, and then nothing but kernels
    (torch/csrc/jit/codegen/cuda/kernel_cache.cpp, 1.12 to 2.1). Another prints the
    graph of a kernel before it compiles it, and runs the kernel without a word.
    """

    last: Work | None = None
    over: int = -1
    """The last line that only comes when the work before it is done."""
    fell: int = -1
    """The last line that tells of a fallback."""
    launched: int = -1
    """The last line of a launch, or of a kernel's source."""
    timed: int = -1
    """The last line with the time of a launch, which is printed once it is over."""
    kernel: KernelNamed | None = None
    cut_kernel: KernelNamed | None = None
    """The kernel in whose source the log ends."""
    crash: CrashSeen | None = None
    """The first one."""

    def open(self) -> Work | None:
        """What has begun, where no line after it shows its end."""
        if self.last is None or self.last.line < self.over:
            return None
        return (
            None if self.timed > max(self.last.line, self.launched) else self.last
        )

    def fell_back(self, line: int) -> None:
        """The work is over, and its operators run unfused."""
        self.over = self.fell = line

    def unfused(self) -> Work | None:
        """What fell back, where nothing after it shows that its unfused operators
        are done."""
        begun = self.last is not None and self.last.line < self.fell
        return self.last if begun and self.over == self.fell else None

    def first_run(self) -> bool:
        """Whether the log ends in the first run of a group, or in its
        compilation."""
        work = self.open()
        return work is not None and work.cache is not None and work.cache.runs <= 1

    def kernel_of(self, work: Work) -> str | None:
        """The kernel that was compiled last since this work began, and did not come
        to its end."""
        return (
            self.kernel.name
            if self.kernel is not None and self.kernel.line > work.line
            else None
        )

    def compiles(self, kernel: str, line: int) -> None:
        self.kernel = KernelNamed(kernel, line)
        self.launched = line

    def ran(self, line: int) -> None:
        """A launch was timed."""
        self.kernel, self.timed = None, line

    def crashed(
        self, text: str, line: int, rank: int | None, signal: str | None
    ) -> None:
        if self.crash is None:
            self.crash = CrashSeen(
                text, line, self.open(), self.kernel, rank, signal
            )
