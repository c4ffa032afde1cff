"""Generated kernels against what the memory of the device can do."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class AtBandwidth:
    """The generated kernels of a step against the memory of the device, as far as
    their bytes are known."""

    least_ms: float
    """That their bytes need at ``Steps.gb_per_s``."""
    ms: float
    """That they take."""
