"""Generated kernels and their launches, from the output of PYTORCH_NVFUSER_DUMP on
stdout.

Codegen frames, ``Launch Parameters:``, bandwidth lines, perf_debug_verbose figures
and ptxas reports (source: torch/csrc/jit/codegen/cuda/executor.cpp of torch 1.11 to
1.13, third_party/nvfuser/csrc/executor.cpp of 2.0). A launch line names no kernel:
it belongs to the next line that names one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from fusiondoc.fusers import stdout_marks
from fusiondoc.numbers import figure, whole_number, whole_numbers
from fusiondoc.parsers.events import Event, Launched, LibraryLine, Performed, Ran
from fusiondoc.parsers.facts import Facts, KernelUse
from fusiondoc.parsers.fuser_work import CacheInstance
from fusiondoc.parsers.kernels.dump_kernel import DumpsInOrder
from fusiondoc.parsers.kernels.kept_texts import digest_of

_OF_LIBRARY = stdout_marks()
FRAME_START = re.compile(rb"={4,7} [Cc]odegen output for kernel: (\S+) ={4,7}$")
FRAME_END = b"=" * 38
OLD_FRAME_ENDS = (b"=" * 36, b"=====*" + b"=" * 31)
"""Ends of frames that begin ``==== codegen output for kernel: kernel1 ====``, as
torch 1.6 to 1.8 print them (executor.cpp)."""

_DIM = rb"(-?\d{1,18})"
LAUNCH = re.compile(
    rb"Launch Parameters: BlockDim\.x = %s, BlockDim\.y = %s, BlockDim\.z = %s, "
    rb"GridDim\.x = %s, GridDim\.y = %s, GridDim\.z = %s, Smem Size = (\d{1,18})"
    % ((_DIM,) * 6)
)
BANDWIDTH = re.compile(
    rb"(kernel\d+|nvfuser_\w+) run in (\S+) ms, achieved: (\S+) GB/s"
)
PERF = re.compile(rb"(kernel\d+|nvfuser_\w+) (\d{1,18}) bytes/ (\S+) ms (\S+) GB/s")

_LAUNCHES = (b"L", b"With arguments: L")
"""Beginnings of lines that may have the parameters of a launch."""
KERNEL_LINES = (b"k", b"n", b"=", *_LAUNCHES)
"""Beginnings of lines that may be about kernels, and are never the first line of a
graph without prefix."""


def event_of(line: bytes) -> Event | None:
    """Return the event for a line with figures of a kernel, or from a library of
    kernels; None for other lines."""
    if line.startswith((b"k", b"n")):
        ran = BANDWIDTH.match(line)
        if ran is not None:
            return Ran(ran.groups())
        performed = PERF.match(line)
        if performed is None:
            return None
        return Performed(performed.groups())
    if line.startswith(_LAUNCHES):
        launched = LAUNCH.search(line)
        if launched is None:
            return None
        return Launched(launched.groups())
    if line.startswith(_OF_LIBRARY):
        return LibraryLine(line)
    return None


Launch = tuple[tuple[int, int, int], tuple[int, int, int], int]
"""(block, grid, shared memory in bytes)."""


class _Run:
    """A run of a GraphCache, and the kernels that it launched."""

    __slots__ = ("cache", "kernels", "names")

    def __init__(self, cache: CacheInstance) -> None:
        self.cache = cache
        self.kernels: list[KernelUse] = []
        """The kernels in order; incomplete for a log whose lines are out of
        order."""
        self.names: set[str] = set()

    def launches(self, kernel: KernelUse, in_order: bool) -> None:
        self.names.add(kernel.name)
        if in_order:
            self.kernels.append(kernel)


_RECENT = 4
"""Number of runs, of several processes, that may be open at once."""


class KernelTracker:
    """Assigns the lines of kernels to the GraphCache that runs them.

    nvFuser prints ``running GraphCache``; the lines up to the next such line are
    about the kernels that this run compiles and launches (true if stdout and stderr
    keep their order). Several processes in one log interleave: so a launch is
    assigned to the oldest recent run that has this kernel and has not launched it
    yet.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._texts = facts.texts
        self.dumps = DumpsInOrder(facts, self._texts)
        self._recent: deque[_Run] = deque()
        self._by_name: dict[str, list[KernelUse]] = {}
        self._of_graph: dict[tuple[str, int], list[KernelUse]] = {}
        """By name and graph of the owner."""
        self._of_owner: dict[int, list[KernelUse]] = {}
        self._launch: Launch | None = None
        self.hint: KernelUse | None = None
        """The kernel whose arguments were printed: the launch line next to them
        belongs to it."""
        self._timed: KernelUse | None = None
        """The kernel whose last launch has a bandwidth line; perf_debug_verbose may
        print the same launch again."""
        self._nameless = 0
        self._bandwidth_seen = False
        self._report_source: bytes | None = None
        self.last: KernelUse | None = None
        self._disordered = False

    def runs(self, cache: CacheInstance) -> None:
        self.flush()
        self._nameless = 0
        self.hint = None
        self._recent.append(_Run(cache))
        if len(self._recent) > _RECENT:
            self._is_over(self._recent.popleft())
        self.dumps.runs(cache)

    def compiled(
        self, name: bytes, code: bytes, pos: int, digest: bytes | None = None
    ) -> None:
        """Record a codegen frame: ``code`` is the source of a kernel, b"" for a
        source that was compiled before, and ``digest`` its digest if known. The
        same kernel again is a recompile for a larger block."""
        self.flush()
        text = name.decode("ascii", "replace")
        owner = self._recent[-1].cache if self._recent else None
        digest = digest or digest_of(code)
        for kernel in self._of_graph.get((text, _key(owner)), ()):
            if kernel.digest in (None, digest):
                break
        else:
            kernel = self._new(text, owner)
        if kernel.digest is None:
            kernel.digest = digest
            kernel.kept_code = self._texts.keep(code, digest)
        kernel.compiles += 1
        kernel.fresh = True
        kernel.lines.append(pos)
        self.last = kernel
        self.dumps.named(kernel)

    def launched(self, figures: tuple[bytes, ...], pos: int) -> None:
        """Record a launch. ``figures``: the groups of LAUNCH."""
        self.flush()
        if figures[0] == b"-1" and figures[3] == b"-1":
            return  # constraints of a scheduler, not a launch
        self._launch = launch_of(figures)

    def flush(self) -> None:
        """Assign a launch that was not followed by a line with a name (launch_param
        without dump_eff_bandwidth), by order.

        It belongs to the kernel whose arguments are printed next to it, else to the
        kernel compiled just before, else to the next kernel of the group that runs.
        """
        launch, self._launch = self._launch, None
        if launch is None or self._bandwidth_seen:
            return
        kernel, self.hint = self.hint, None
        if kernel is not None:
            pass
        elif self.last is not None and self.last.launches < self.last.compiles:
            kernel = self.last
        elif self._recent:
            owned = self._of_owner.get(id(self._recent[-1].cache), [])
            kernel = owned[self._nameless] if self._nameless < len(owned) else None
        if kernel is not None:
            self._nameless += 1
            kernel.launches += 1
            if self._recent:
                self._recent[-1].launches(kernel, not self._disordered)
            kernel.fresh = False
            kernel.block, kernel.grid, kernel.smem = launch

    def ran(self, figures: Sequence[bytes], pos: int) -> None:
        """Record a line of dump_eff_bandwidth: the time and bandwidth of one
        launch. ``figures``: the groups of BANDWIDTH."""
        self._bandwidth_seen = True
        name, ms, gb_per_s = figures
        kernel = self.find(name.decode("ascii"))
        self.timed(kernel, ms, gb_per_s, pos)
        self._timed = kernel

    def performed(
        self, figures: Sequence[bytes], pos: int, launch: Launch | None = None
    ) -> KernelUse:
        """Record a line of perf_debug_verbose: bytes, time and bandwidth of one
        launch. ``figures``: the groups of PERF."""
        self._launch = launch or self._launch
        self._bandwidth_seen = True
        name, size, ms, gb_per_s = figures[0].decode("ascii"), *figures[1:]
        before, self._timed = self._timed, None
        if before is not None and before.name == name:
            kernel = before
            self._launch = None
        else:
            kernel = self.find(name)
            self.timed(kernel, ms, gb_per_s, pos)
        kernel.bytes = whole_number(size)
        return kernel

    def profiled(
        self, name: str, launch: Launch | None, ms: bytes, gb_per_s: bytes, pos: int
    ) -> KernelUse:
        """Record a line of the stand-alone nvFuser's profile, which is a launch."""
        self._bandwidth_seen = True
        self._launch = None
        kernel = self.find(name)
        self._launch = launch
        self.timed(kernel, ms, gb_per_s, pos)
        return kernel

    def timed(
        self, kernel: KernelUse, ms: bytes, gb_per_s: bytes, pos: int
    ) -> None:
        """Record a launch that was timed."""
        kernel.lines.append(pos)
        if self._launch is not None:
            kernel.block, kernel.grid, kernel.smem = self._launch
            self._launch = None
        kernel.ran(figure(ms), figure(gb_per_s))
        self.hint = None
        self.last = kernel

    def built(self, name: str, source: bytes, pos: int) -> KernelUse:
        """Record a line that is printed once per compile and names the kernel."""
        self.flush()
        kernel = self.find(name, launch=False)
        if self._report_source is None:
            self._report_source = source
        if self._report_source == source:
            kernel.reports += 1
        kernel.fresh = True
        kernel.lines.append(pos)
        self.last = kernel
        self.dumps.named(kernel)
        return kernel

    def runs_with(self, name: str) -> KernelUse:
        """Return the kernel whose arguments are printed: it is about to be
        launched."""
        known = name in self._by_name
        kernel = self.find(name, launch=False)
        if known:
            self.dumps.launched()
        self.hint = kernel
        return kernel

    def find(self, name: str, launch: bool = True) -> KernelUse:
        """Return the kernel with this name of the running group; a new kernel if
        there is none."""
        known = self._by_name.get(name)
        kernel = self._found(name, known or [], launch)
        if known is None:
            self.dumps.named(kernel)
        elif launch:
            self.dumps.launched()
        return kernel

    def _found(self, name: str, known: list[KernelUse], launch: bool) -> KernelUse:
        for run in self._recent:
            own = self._of_graph.get((name, _key(run.cache)))
            if own and name not in run.names:
                break
        else:
            if not self._recent:
                if known:
                    return known[-1]
                return self._new(name, None)
            run = self._recent[-1]
            own = [self._of_run(name, known, run)]
        if launch:
            run.launches(own[0], not self._disordered)
        return own[0]

    def _of_run(self, name: str, known: list[KernelUse], run: _Run) -> KernelUse:
        """Return the kernel with this name of the last run, if that run has
        launched it already or the group has no such kernel yet."""
        cache = run.cache
        if len(known) == 1 and known[0].owner is None:
            del self._of_graph[name, 0]
            self._belongs(known[0], cache)
            return known[0]
        own = self._of_graph.get((name, _key(cache)))
        if own:
            # The kernel was launched twice in one run, which no run does: the lines
            # are out of order.
            self._disordered = self._disordered or name in run.names
            return own[0]
        if not known:
            return self._new(name, cache)
        # A kernel of another group has this name: there is a second process, or the
        # lines are out of order. The owner cannot be known.
        known[-1].disputed = True
        self._facts.disordered = True
        return known[-1]

    def close(self) -> None:
        """Finish after all lines: now it is known whether their order can be
        trusted."""
        self.flush()
        while self._recent:
            run = self._recent.popleft()
            if self._recent or not self._is_cut_off(run):
                self._is_over(run)
        self.dumps.close()
        if self._disordered:
            self._facts.disordered = True
            for kernel in self._facts.kernels:
                kernel.disputed = True

    def _is_over(self, run: _Run) -> None:
        """Record that a run launches no more kernels."""
        if run.kernels:
            key = run.cache, tuple(run.kernels)
            together = self._facts.launched_together
            together[key] = together.get(key, 0) + 1

    def _is_cut_off(self, run: _Run) -> bool:
        """True if the log ends before all kernels are launched that an earlier run
        launched."""
        own = tuple(run.kernels)
        return any(
            cache is run.cache
            and len(kernels) > len(own)
            and kernels[: len(own)] == own
            for cache, kernels in self._facts.launched_together
        )

    def _new(self, name: str, owner: CacheInstance | None) -> KernelUse:
        kernel = KernelUse(name, owner)
        self._by_name.setdefault(name, []).append(kernel)
        self._belongs(kernel, owner)
        self._facts.kernels.append(kernel)
        return kernel

    def _belongs(self, kernel: KernelUse, owner: CacheInstance | None) -> None:
        kernel.owner = owner
        self._of_graph.setdefault((kernel.name, _key(owner)), []).append(kernel)
        if owner is not None:
            self._of_owner.setdefault(id(owner), []).append(kernel)


@lru_cache(maxsize=500)  # a kernel is launched many times with equal figures
def launch_of(figures: tuple[bytes, ...]) -> Launch:
    """Return the launch from the groups of LAUNCH."""
    numbers = [max(1, number) for number in whole_numbers(figures[:6])]
    smem = whole_number(figures[6]) or 0
    return (
        (numbers[0], numbers[1], numbers[2]),
        (numbers[3], numbers[4], numbers[5]),
        smem,
    )


def _key(cache: CacheInstance | None) -> int:
    """Return a key that is equal for two caches of one graph: the same program may
    be run twice, with one log after the other."""
    if cache is None:
        return 0
    if cache.graph is None:
        return id(cache)
    return id(cache.graph)
