"""The memory bandwidth that kernels are held against: given, measured, told by the driver, or from the
table."""

from __future__ import annotations

import contextlib

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import Environment
from fusiondoc.fuser_knobs.gpu_tables import bandwidth_of
from fusiondoc.model.runs import Peak
from fusiondoc.runner.remembered import remembered_bandwidth


def peak_of(environment: Environment, kept: Peak | None, given: float | None) -> Peak | None:
    """The best known peak: given, measured, from the driver, from the table; None for no GPU that is known.

    Args:
        environment: the probe's record of it.
        kept: what ``keep_peak`` put into the capture.
    """
    if given is not None:
        return Peak(given, "given")
    if kept is not None:
        return kept
    measured = _remembered(environment.gpu)
    if measured is not None:
        return Peak(measured, "measured")
    told = environment.gpu_memory_gb_per_s
    if told is not None and told > 0:
        return Peak(told, "driver")
    known = bandwidth_of(environment.gpu)
    return Peak(known, "table") if known is not None else None


def keep_peak(capture: Capture, given: float | None) -> None:
    """Write a given or measured peak into the capture, so that its report is the same on another machine."""
    peak = Peak(given, "given") if given is not None else None
    if peak is None:
        measured = _remembered(capture.records.environment.gpu)
        peak = Peak(measured, "measured") if measured is not None else None
    if peak is not None:
        with contextlib.suppress(OSError):
            capture.keep_peak(peak)


def _remembered(gpu: str | None) -> float | None:
    """What ``env --measure`` found for a GPU of this name."""
    return remembered_bandwidth(gpu) if gpu else None
