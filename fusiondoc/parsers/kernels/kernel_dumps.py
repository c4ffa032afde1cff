"""Reads the lines of dumps, from the first to the last of each, and the facts in
them about kernels: figures if there are any, and always the text itself.

Formats: executor.cpp, executor_utils.cpp and kernel_cache.cpp of nvFuser (torch
1.11 to 2.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from re import Pattern

from fusiondoc.fusers import dump_kinds
from fusiondoc.fusers.dump_kind import (
    BUILT,
    COMPILE,
    GROUP,
    SCHEDULE,
    DumpKind,
    DumpSection,
)
from fusiondoc.model import dataclass
from fusiondoc.numbers import figure, whole_number, whole_numbers
from fusiondoc.parsers.facts import KernelUse
from fusiondoc.parsers.kernels.dump_kernel import scheduler_of_parameters
from fusiondoc.parsers.kernels.launches import (
    LAUNCH,
    PERF,
    KernelTracker,
    launch_of,
)

KINDS = dump_kinds()


def _starts() -> dict[int, tuple[Pattern[bytes], list[DumpKind]]]:
    """Return, by first byte, a pattern with a group for each kind of dump that can
    begin with that byte."""
    kinds: dict[int, list[DumpKind]] = {}
    for kind in KINDS:
        for byte in kind.first:
            kinds.setdefault(byte, []).append(kind)
    starts = {}
    for byte, those in kinds.items():
        forms = [b"(" + kind.start + b")" for kind in those]
        # ``re`` caches patterns.
        starts[byte] = (re.compile(b"|".join(forms)), those)
    return starts


_STARTS = _starts()

_LINES = 400_000
"""Number of lines after which a dump without an end is given up."""

Sink = Callable[[int, "list[bytes]", int], None]
"""Called with a dump: the number of its kind, its lines, the position of the first
line."""
_NUMBERS = {id(kind): number for number, kind in enumerate(KINDS)}


class DumpReader:
    """Decides which lines belong to a dump, and emits the dumps."""

    def __init__(self, sink: Sink) -> None:
        self.inside = False
        """True if the last line belonged to a dump: an empty line after it belongs
        to the dump too."""
        self._sink = sink
        self._kind: DumpKind | None = None
        self._section: DumpSection | None = None
        self._lines: list[bytes] = []
        self._pos = 0
        self._confirmed = True

    @property
    def open(self) -> bool:
        """True if a dump has begun and may continue."""
        return self._kind is not None

    def starts(self, line: bytes, pos: int) -> bool:
        """True if this line starts a dump."""
        can = _STARTS.get(line[0])
        found = can[0].match(line) if can is not None else None
        if can is None or found is None:
            self.inside = False
            return False
        self.end()
        assert found.lastindex is not None
        kind = can[1][found.lastindex - 1]
        self.inside = True
        if kind.single:
            self._sink(_NUMBERS[id(kind)], [line], pos)
            return True
        self._kind = kind
        self._section = kind.sections["main"]
        first = self._section.step.match(line)
        if first is not None and first.lastgroup is not None:
            self._section = kind.sections[first.lastgroup]
        self._lines = [line]
        self._pos = pos
        self._confirmed = kind.confirm is None or line.startswith(b"%")
        return True

    def refused(self, line: bytes) -> bool:
        """True if ``line`` shows that no dump had begun: the line before it is
        output of the program."""
        kind = self._kind
        if kind is None or self._confirmed:
            return False
        assert kind.confirm is not None
        if re.match(kind.confirm, line):
            self._confirmed = True
            return False
        self._kind = None
        self._confirmed = True
        self.inside = False
        return True

    def take(self, lines: list[bytes], i: int) -> int:
        """Read the lines of the open dump from ``i`` on; return the index of the
        first line that does not belong to it."""
        kind, section = self._kind, self._section
        assert kind is not None
        assert section is not None
        step = section.step.match
        start = i
        n = len(lines)
        while i < n:
            line = lines[i]
            found = step(line)
            if found is None:
                break
            i += 1
            if found.lastindex is not None:
                name = found.lastgroup
                assert name is not None
                if name == "end":
                    self._lines += lines[start:i]
                    self.end()
                    return i
                self._section = kind.sections[name]
                step = self._section.step.match
        self._lines += lines[start:i]
        if i < n or len(self._lines) > _LINES:
            self.end()
        return i

    def end(self) -> None:
        """End the dump with the lines so far: other text was printed, or the log
        ends."""
        kind, self._kind = self._kind, None
        self._confirmed = True
        if kind is not None:
            lines, self._lines = self._lines, []
            self._sink(_NUMBERS[id(kind)], lines, self._pos)

    def enter(self) -> None:
        """Record that another parser read a line of a dump: an empty line after it
        belongs to the dump."""
        self.end()
        self.inside = True

    def leave(self) -> None:
        """End the dump, since other text was printed: a dump never continues after
        it."""
        if self._kind is not None:
            self.end()
        self.inside = False


PTXAS_ENTRY = re.compile(rb"Compiling entry function '(\w+)'")
PTXAS_REGISTERS = re.compile(rb"Used (\d{1,18}) registers")
PTXAS_SPILLS = re.compile(
    rb"(\d{1,18}) bytes spill stores, (\d{1,18}) bytes spill loads"
)
PRINTING = re.compile(rb"PRINTING: __tmp_(\w+)\.(\w+)$")
ARGUMENTS = re.compile(
    rb"Arguments for (?:(?:kernel|fusion) ?(\d{1,9}):|fusion (\d{1,9}) group (\d{1,9}):)"
)
OCCUPANCY = re.compile(rb"num_sms=.* occupancy=(\d{1,3}(?:\.\d{0,12})?)%")
_MANGLED = re.compile(
    rb"_ZN\d+[A-Za-z_]\w{0,200}?(\d{1,18})((?:kernel|nvfuser_)\w*)"
)


def demangle(symbol: bytes) -> bytes | None:
    """Return ``kernel1`` for ``_ZN11CudaCodeGen7kernel1E...`` (Itanium C++ ABI: the
    length of a name precedes it); None for another symbol."""
    found = _MANGLED.match(symbol)
    if found is None:
        return None
    return found.group(2)[: whole_number(found.group(1))]


class KernelDumps:
    """Reads the dumps of one stream, in order."""

    def __init__(self, kernels: KernelTracker) -> None:
        self._kernels = kernels
        self._columns: tuple[str, ...] = COLUMNS

    def take(self, pos: int, number: int, lines: list[bytes]) -> None:
        """Read a text dump of the kind with this number (in KINDS)."""
        kind = KINDS[number]
        if kind.stage in (COMPILE, GROUP, SCHEDULE):
            self._kernels.dumps.dumped(kind, lines, pos)
        elif kind.option == "perf_debug_verbose":
            self._performance(lines, pos)
        elif kind.option == "ptxas_verbose":
            self._report(lines, pos)
        elif kind.option == "cuda_to_file":
            self._file(lines[0], pos)
        elif kind.option in ("kernel_args", "fusion_args"):
            self._arguments(kind.option, lines, pos)
        elif kind.option == "profile":
            self._profiled(lines, pos)
        elif kind.stage == BUILT and self._kernels.last is not None:
            occupancy = OCCUPANCY.search(lines[0])
            percent = figure(occupancy.group(1)) if occupancy else None
            if percent is not None:
                self._kernels.last.occupancy = percent / 100
            self._kernels.dumps.of_kernel(
                self._kernels.last, kind.option, lines, pos
            )

    def _performance(self, lines: list[bytes], pos: int) -> None:
        """Read a block of perf_debug_verbose. Its compiler log is that of the last
        compile, printed each time."""
        if lines[0].startswith(b"="):
            return
        ended = PERF.match(lines[-1])
        if ended is None:
            return
        launches = (LAUNCH.search(line) for line in reversed(lines))
        found = next((match for match in launches if match), None)
        launch = launch_of(found.groups()) if found is not None else None
        kernel = self._kernels.performed(
            ended.groups(), pos + len(lines) - 1, launch
        )
        read_ptxas(lines, {kernel.name.encode("ascii"): kernel})
        for line in lines:
            if b" Parameters ===" in line:
                kernel.scheduler = scheduler_of_parameters(b"\n".join(lines))
                break
        self._kernels.dumps.of_kernel(kernel, "perf_debug_verbose", lines, pos)

    def _profiled(self, lines: list[bytes], pos: int) -> None:
        """Read lines of the stand-alone nvFuser's profile: each is a launch."""
        for offset, line in enumerate(lines):
            header = header_of(line)
            if header is not None:
                self._columns = header
                continue
            row = profile_of(line, self._columns)
            if row is None:
                continue
            launch = None
            if row.block is not None and row.grid is not None:
                launch = row.block, row.grid, row.smem or 0
            kernel = self._kernels.profiled(
                row.kernel,
                launch,
                row.ms.encode(),
                row.gb_per_s.encode(),
                pos + offset,
            )
            kernel.registers = row.registers

    def _report(self, lines: list[bytes], pos: int) -> None:
        """Read the report of ptxas on a compile."""
        entries = []
        for offset, name in enumerate(map(_entry, lines)):
            if name is not None:
                entries.append((offset, name))
        # A report begins with the facts about the whole module, on the line before
        # the first entry.
        ends = [end - (b" bytes gmem" in lines[end - 1]) for end, _ in entries[1:]]
        start = 0
        for (offset, name), end in zip(entries, [*ends, len(lines)]):
            kernel = self._kernels.built(
                name.decode("ascii"), b"ptxas", pos + offset
            )
            own = lines[start:end]
            self._kernels.dumps.of_kernel(kernel, "ptxas_verbose", own, pos + start)
            read_ptxas(own, {name: kernel})
            start = end

    def _file(self, line: bytes, pos: int) -> None:
        """``PRINTING: __tmp_kernel1.cu``: cuda_to_file, debug_info, ptx, cubin,
        sass_to_file wrote a file."""
        found = PRINTING.match(line)
        if found:
            ending = found.group(2)
            kernel = self._kernels.built(
                found.group(1).decode("ascii"), ending, pos
            )
            option = {b"cu": "cuda_to_file", b"sass": "sass_to_file"}.get(
                ending, ending.decode("ascii")
            )
            self._kernels.dumps.of_kernel(kernel, option, [line], pos)

    def _arguments(self, option: str, lines: list[bytes], pos: int) -> None:
        found = ARGUMENTS.match(lines[0])
        if found is None:
            return
        if found.group(1):
            kernel = self._kernels.runs_with(
                f"kernel{whole_number(found.group(1))}"
            )
        else:
            tail = (
                b"_f%d_" % (whole_number(found.group(2)) or 0),
                b"_g%d" % (whole_number(found.group(3)) or 0),
            )
            name = b""
            if self._kernels.last is not None:
                name = self._kernels.last.name.encode("ascii", "replace")
            if (
                self._kernels.last is None
                or tail[0] not in name
                or not name.endswith(tail[1])
            ):
                return
            kernel = self._kernels.last
        if option == "kernel_args" and not any(
            b"(strides" in line or b"dtype" in line for line in lines
        ):
            option = "print_args"
        self._kernels.dumps.of_kernel(kernel, option, lines, pos)


def _entry(line: bytes) -> bytes | None:
    """Return the kernel that ptxas begins to compile on this line; None for other
    lines."""
    entry = PTXAS_ENTRY.search(line)
    if entry:
        return demangle(entry.group(1))
    return None


def read_ptxas(lines: list[bytes], kernels: Mapping[bytes, KernelUse]) -> None:
    """Set registers and spills of the kernels whose entry functions the lines
    name."""
    kernel: KernelUse | None = None
    for line in lines:
        if not line.startswith((b"ptxas ", b"    ")):
            continue
        entry = PTXAS_ENTRY.search(line)
        if entry:
            name = demangle(entry.group(1))
            kernel = kernels.get(name) if name is not None else None
        elif kernel is not None:
            registers = PTXAS_REGISTERS.search(line)
            if registers:
                kernel.registers = whole_number(registers.group(1))
            spills = PTXAS_SPILLS.search(line)
            if spills:
                kernel.spill = sum(whole_numbers(spills.groups()))


COLUMNS = (
    "Fus#",
    "NSegs",
    "CuEvtTm(ms)",
    "HstTm(ms)",
    "CmpTm(ms)",
    "KerTm(ms)",
    "EffBw(GB/s)",
    "%PkBw",
    "S-Seg#",
    "S-KerTm(ms)",
    "S-EffBw(GB/s)",
    "S-%PkBw",
    "S-In(MB)",
    "S-Out(MB)",
    "S-Smem[Dyn,Stat]",
    "S-Regs",
    "S-Grid",
    "S-Block",
    "S-KerName",
)
"""The columns of ``print``; ``print.verbose`` has more, which its header names."""

_CELL = re.compile(r"\[[^\[\]]*\]|\S+")
_DEVICE = "S-DeviceName"


@dataclass(frozen=True)
class LaunchProfile:
    """One launch of a kernel."""

    kernel: str
    ms: str
    gb_per_s: str
    smem: int | None
    registers: int | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None


def header_of(line: bytes) -> tuple[str, ...] | None:
    """Return the columns, if this line is the header; else None."""
    cells = tuple(line.decode("utf-8", "replace").split())
    if cells[:2] == COLUMNS[:2]:
        return cells
    return None


def profile_of(line: bytes, columns: tuple[str, ...]) -> LaunchProfile | None:
    """Return a row of the table; None if its cells do not fit the columns."""
    cells = _CELL.findall(line.decode("utf-8", "replace"))
    if _DEVICE in columns and len(cells) > len(columns):
        # The name of a device contains spaces.
        at = columns.index(_DEVICE)
        end = len(cells) - (len(columns) - at - 1)
        cells[at:end] = [" ".join(cells[at:end])]
    if len(cells) != len(columns):
        return None
    row = dict(zip(columns, cells))
    if "S-KerName" not in row:
        return None
    smem = _numbers(row.get("S-Smem[Dyn,Stat]", ""))
    registers = _numbers(row.get("S-Regs", ""))
    return LaunchProfile(
        row["S-KerName"],
        row.get("S-KerTm(ms)", ""),
        row.get("S-EffBw(GB/s)", ""),
        smem[0] if smem else None,
        registers[0] if registers else None,
        _three(row.get("S-Grid", "")),
        _three(row.get("S-Block", "")),
    )


def _three(text: str) -> tuple[int, int, int] | None:
    numbers = _numbers(text)
    if len(numbers) == 3:
        return numbers[0], numbers[1], numbers[2]
    return None


def _numbers(text: str) -> list[int]:
    return whole_numbers(re.findall(r"[0-9]+", text))
