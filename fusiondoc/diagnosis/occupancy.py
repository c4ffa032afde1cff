"""Theoretical occupancy: the share of a multiprocessor's warps that can be resident at once.

The arithmetic and the limits by compute capability are those of ``cuda_occupancy.h`` (CUDA 12.9: blocks,
units of registers and shared memory) and of the table "Technical Specifications per Compute Capability" of
the CUDA Programming Guide (warps, shared memory). Shared memory that a kernel declares itself is not
printed at a launch, so the figure is an upper bound where there is any.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Limits(NamedTuple):
    """Of one multiprocessor. ``reserved`` are bytes of shared memory that the system takes for each block."""

    warps: int
    blocks: int
    smem_bytes: int
    smem_unit: int
    reserved: int


_KB = 1024
_REGISTERS = 65536
"""32-bit registers of a multiprocessor, from compute capability 5.0 on (but 5.3 and 6.2, which are left
out)."""
_REGISTER_UNIT = 256
"""Registers are given to a warp in units of so many."""
_PARTITIONS = 4
_MOST_REGISTERS = 255
_WARP = 32

LIMITS = {
    (7, 0): Limits(64, 32, 96 * _KB, 256, 0),
    (7, 5): Limits(32, 16, 64 * _KB, 256, 0),
    (8, 0): Limits(64, 32, 164 * _KB, 128, _KB),
    (8, 6): Limits(48, 16, 100 * _KB, 128, _KB),
    (8, 9): Limits(48, 24, 100 * _KB, 128, _KB),
    (9, 0): Limits(64, 32, 228 * _KB, 128, _KB),
    (10, 0): Limits(64, 32, 228 * _KB, 128, _KB),
    (12, 0): Limits(48, 24, 100 * _KB, 128, _KB),
}


def occupancy(
    capability: tuple[int, int], threads: int, registers: int | None, smem_bytes: int | None
) -> float | None:
    """Share of the warps, from 0 to 1; None for an unknown GPU or without the number of registers.

    Args:
        threads: of one block.
        registers: of one thread.
        smem_bytes: of one block, given at its launch; None counts as none.
    """
    limits = LIMITS.get(capability)
    if limits is None or registers is None or not 0 < registers <= _MOST_REGISTERS or not 0 < threads <= 1024:
        return None
    warps = math.ceil(threads / _WARP)
    per_warp = _up(registers * _WARP, _REGISTER_UNIT)
    by_registers = _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps
    blocks = min(limits.blocks, limits.warps // warps, by_registers)
    smem = _up((smem_bytes or 0) + limits.reserved, limits.smem_unit)
    if smem:
        blocks = min(blocks, limits.smem_bytes // smem)
    return blocks * warps / limits.warps if blocks else None


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
