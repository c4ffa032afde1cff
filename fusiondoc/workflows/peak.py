"""The memory bandwidth that kernels are held against: given, measured, told by the driver, or from the
table."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Mapping

from fusiondoc.captures.capture import Capture
from fusiondoc.fuser_knobs.gpu_bandwidth import bandwidth_of
from fusiondoc.model.runs import Peak


def peak_of(
    environment: Mapping[str, Any], kept: Mapping[str, Any] | None, given: float | None
) -> Peak | None:
    """The best known peak: given, measured, from the driver, from the table; None for no GPU that is known.

    Args:
        environment: the probe's record of it.
        kept: what ``keep_peak`` put into the capture.
    """
    if given is not None:
        return Peak(given, "given")
    if kept is not None and kept.get("source") in ("given", "measured") and _number(kept.get("gb_per_s")):
        return Peak(float(kept["gb_per_s"]), str(kept["source"]))
    gpu = environment.get("gpu")
    measured = remembered(gpu)
    if measured is not None:
        return Peak(measured, "measured")
    if _number(environment.get("gpu_memory_gb_per_s")):
        return Peak(float(environment["gpu_memory_gb_per_s"]), "driver")
    known = bandwidth_of(gpu)
    return Peak(known, "table") if known is not None else None


def keep_peak(capture: Capture, given: float | None) -> None:
    """Write a given or measured peak into the capture, so that its report is the same on another machine."""
    measured = remembered(capture.environment.get("gpu")) if given is None else None
    if given is not None or measured is not None:
        source = "given" if given is not None else "measured"
        with contextlib.suppress(OSError):
            capture.add("peak.json", {"gb_per_s": given or measured, "source": source})


def remembered(gpu: Any) -> float | None:
    """What ``env --measure`` found for a GPU of this name."""
    from fusiondoc.runner.memory_bandwidth import remembered_bandwidth

    return remembered_bandwidth(str(gpu)) if gpu else None


def _number(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    )
