"""The table that the stand-alone nvFuser prints with NVFUSER_PROF=print.

A header before the first fusion, then a line for each segment of each fusion that ran; the columns of the
fusion are ``-`` but for its first segment (NVIDIA/Fuser, csrc/fusion_profiler.cpp, FusionProfile).
A real table stands in the comments of that project's tests (``# Fus#  NSegs CuEvtTm(ms) ...``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
"""Those of ``print``; ``print.verbose`` has more, which its header names."""

_CELL = re.compile(r"\[[^\[\]]*\]|\S+")
_DEVICE = "S-DeviceName"


@dataclass(frozen=True)
class Profile:
    """One launch of a kernel."""

    kernel: str
    ms: str
    gb_per_s: str
    smem: int | None
    registers: int | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None


def header_of(line: bytes) -> tuple[str, ...] | None:
    """The columns, if this is the header."""
    cells = tuple(line.decode("utf-8", "replace").split())
    return cells if cells[:2] == COLUMNS[:2] else None


def profile_of(line: bytes, columns: tuple[str, ...]) -> Profile | None:
    """A line of the table; None if its cells are not those of the columns."""
    cells = _CELL.findall(line.decode("utf-8", "replace"))
    if _DEVICE in columns and len(cells) > len(columns):
        # A device's name has spaces.
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
    return Profile(
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
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d{1,18}", text)]
