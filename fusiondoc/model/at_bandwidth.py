"""Time of generated kernels compared with the memory bandwidth of the device."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class AtBandwidth:
    """The generated kernels of a step whose bytes are known: their time, and the
    least time that the memory bandwidth of the device allows."""

    least_ms: float
    """Milliseconds that their bytes need at ``Steps.gb_per_s``."""
    ms: float
    """Milliseconds that the kernels take."""
