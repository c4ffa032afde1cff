"""Traits of a kernel, read from its source."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class KernelTraits:
    """Read from generated CUDA code; null if the code does not show it."""

    vector_width: int | None
    """Elements that one access of global memory moves, at most; 1 if none moves
    several."""
    index_type: str | None
    """C++ type of indices, as the code declares them: ``int`` or ``int64_t``."""
    reductions: tuple[str, ...]
    """"block": across the threads of a block; "grid": across blocks. A sum within
    one thread does not count."""
    persistent: bool | None
    """True if a reduced value is broadcast and used in the same kernel, which keeps
    its input meanwhile; null without a reduction."""
