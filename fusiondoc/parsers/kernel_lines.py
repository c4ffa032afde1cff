"""Generated kernels and their launches: what PYTORCH_NVFUSER_DUMP prints to stdout.

Codegen frames, ``Launch Parameters:``, bandwidth lines, perf_debug_verbose figures and ptxas reports (source:
torch/csrc/jit/codegen/cuda/executor.cpp of torch 1.11 to 1.13, third_party/nvfuser/csrc/executor.cpp of 2.0).
A launch line names no kernel: it belongs to the next line that does.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from hashlib import blake2b
from typing import Tuple

from fusiondoc.parsers.facts import CacheInstance, Facts, KernelUse

FRAME_START = re.compile(rb"={4,7} [Cc]odegen output for kernel: (\S+) ={4,7}$")
FRAME_END = b"=" * 38

_DIM = rb"(-?\d{1,18})"
LAUNCH = re.compile(
    rb"Launch Parameters: BlockDim\.x = %s, BlockDim\.y = %s, BlockDim\.z = %s, "
    rb"GridDim\.x = %s, GridDim\.y = %s, GridDim\.z = %s, Smem Size = (\d{1,18})" % ((_DIM,) * 6)
)
BANDWIDTH = re.compile(rb"(kernel\d+|nvfuser_\w+) run in (\S+) ms, achieved: (\S+) GB/s")
PERF = re.compile(rb"(kernel\d+|nvfuser_\w+) (\d+) bytes/ (\S+) ms (\S+) GB/s")
PTXAS_ENTRY = re.compile(rb"Compiling entry function '(\w+)'")
PTXAS_REGISTERS = re.compile(rb"Used (\d{1,18}) registers")
PTXAS_SPILLS = re.compile(rb"(\d{1,18}) bytes spill stores, (\d{1,18}) bytes spill loads")
_MANGLED = re.compile(rb"_ZN\d+[A-Za-z_]\w*?(\d{1,18})((?:kernel|nvfuser_)\w*)")

Launch = Tuple[Tuple[int, int, int], Tuple[int, int, int], int]
"""(block, grid, shared memory in bytes)."""

_CODE_BUDGET = 48 << 20
"""Bytes of compressed kernel source that are kept; what lies beyond is counted but not shown."""


def demangle(symbol: bytes) -> bytes | None:
    """``_ZN11CudaCodeGen7kernel1E...`` -> ``kernel1`` (Itanium C++ ABI: a name has its length before it)."""
    found = _MANGLED.match(symbol)
    if found is None:
        return None
    return found.group(2)[: int(found.group(1))]


class KernelTracker:
    """Ties the lines of kernels to the GraphCache that runs them.

    nvFuser prints ``running GraphCache`` and then, until the next such line, what that run compiles and
    launches
    (true when stdout and stderr keep their order). Several processes in one log interleave: so a launch
    goes to
    the oldest recent run that has this kernel and has not launched it yet.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._recent: deque[tuple[CacheInstance, set[str]]] = deque(maxlen=4)
        self._by_name: dict[str, list[KernelUse]] = {}
        self._launch: Launch | None = None
        self._nameless = 0
        self._bandwidth_seen = False
        self._ptxas: KernelUse | None = None
        self._last: KernelUse | None = None
        self._room = _CODE_BUDGET
        self._disordered = False

    def runs(self, cache: CacheInstance) -> None:
        self.flush()
        self._nameless = 0
        self._recent.append((cache, set()))

    def compiled(self, name: bytes, code: bytes, pos: int) -> None:
        """A codegen frame: the source of a kernel. The same kernel again is a recompile for a larger
        block."""
        self.flush()
        text = name.decode("ascii", "replace")
        owner = self._recent[-1][0] if self._recent else None
        digest = blake2b(code, digest_size=16).digest()
        for kernel in self._by_name.get(text, ()):
            if _same(kernel.owner, owner) and kernel.digest in (None, digest):
                break
        else:
            kernel = self._new(text, owner)
        if kernel.digest is None:
            kernel.digest = digest
            packed = zlib.compress(code, 1)
            if self._room > len(packed):
                kernel.packed_code = packed
                self._room -= len(packed)
        kernel.compiles += 1
        kernel.lines.append(pos)
        self._last = kernel

    def launched(self, found: re.Match[bytes], pos: int) -> None:
        self.flush()
        if found.group(1) == b"-1" and found.group(4) == b"-1":
            return  # constraints of a scheduler, not a launch
        numbers = [max(1, int(n)) for n in found.groups()[:6]]
        block = (numbers[0], numbers[1], numbers[2])
        grid = (numbers[3], numbers[4], numbers[5])
        self._launch = (block, grid, int(found.group(7)))

    def flush(self) -> None:
        """A launch that no named line followed (launch_param without dump_eff_bandwidth): by order.

        It is of the kernel compiled just before, else of the next kernel of the group that runs.
        """
        launch, self._launch = self._launch, None
        if launch is None or self._bandwidth_seen:
            return
        kernel = None
        if self._last is not None and self._last.launches < self._last.compiles:
            kernel = self._last
        elif self._recent:
            owned = [k for k in self._facts.kernels if k.owner is self._recent[-1][0]]
            kernel = owned[self._nameless] if self._nameless < len(owned) else None
        if kernel is not None:
            self._nameless += 1
            kernel.launches += 1
            kernel.block, kernel.grid, kernel.smem = launch

    def ran(self, found: re.Match[bytes], pos: int, gb_group: int = 3, ms_group: int = 2) -> None:
        """A line with the time and bandwidth of one launch."""
        self._bandwidth_seen = True
        kernel = self._find(found.group(1).decode("ascii"))
        kernel.launches += 1
        kernel.lines.append(pos)
        if self._launch is not None:
            kernel.block, kernel.grid, kernel.smem = self._launch
            self._launch = None
        ms, gb_per_s = _number(found.group(ms_group)), _number(found.group(gb_group))
        if ms is not None:
            kernel.ms.append(ms)
        if gb_per_s is not None:
            kernel.gb_per_s.append(gb_per_s)
        self._last = kernel

    def ptxas(self, line: bytes, pos: int) -> None:
        entry = PTXAS_ENTRY.search(line)
        if entry:
            name = demangle(entry.group(1))
            self._ptxas = None
            if name is not None:
                self._ptxas = self._find(name.decode("ascii"), launch=False)
            return
        kernel = self._ptxas
        if kernel is None:
            return
        registers = PTXAS_REGISTERS.search(line)
        if registers:
            kernel.registers = int(registers.group(1))
            kernel.lines.append(pos)
        spills = PTXAS_SPILLS.search(line)
        if spills:
            kernel.spill = int(spills.group(1)) + int(spills.group(2))

    def _find(self, name: str, launch: bool = True) -> KernelUse:
        known = self._by_name.get(name, [])
        for cache, served in self._recent:
            for kernel in known:
                if _same(kernel.owner, cache) and name not in served:
                    if launch:
                        served.add(name)
                    return kernel
        if not self._recent:
            return known[-1] if known else self._new(name, None)
        cache, served = self._recent[-1]
        again = name in served
        if launch:
            served.add(name)
        if len(known) == 1 and known[0].owner is None:
            known[0].owner = cache
            return known[0]
        for kernel in known:
            if _same(kernel.owner, cache):
                # Launched twice in one run, which no run does: the lines are out of order.
                self._disordered = self._disordered or again
                return kernel
        if not known:
            return self._new(name, cache)
        # A name that a kernel of another group has: a second process, or lines out of order. Whose it is
        # cannot be told.
        known[-1].disputed = True
        self._facts.disordered = True
        return known[-1]

    def close(self) -> None:
        """All lines are known: whether their order can be trusted is, too."""
        self.flush()
        if self._disordered:
            self._facts.disordered = True
            for kernel in self._facts.kernels:
                kernel.disputed = True

    def _new(self, name: str, owner: CacheInstance | None) -> KernelUse:
        kernel = KernelUse(name, owner)
        self._by_name.setdefault(name, []).append(kernel)
        self._facts.kernels.append(kernel)
        return kernel


def _same(one: CacheInstance | None, other: CacheInstance | None) -> bool:
    """Whether two caches are of one graph: the same program run twice, one log after the other."""
    if one is None or other is None:
        return one is other
    return one is other or (one.graph is not None and one.graph is other.graph)


def _number(text: bytes) -> float | None:
    """A figure as C++ streams print it; None for inf and nan (a launch too short for the timer)."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0 else None
