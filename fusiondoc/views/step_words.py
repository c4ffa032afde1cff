"""The time of a step in sentences: its parts, and the time that fusing could
save."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.model.bench import Part
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Steps, Time
from fusiondoc.rendering.units import LEAST_SHARE, milliseconds, share


def sentence(steps: Steps) -> str:
    """Return ``33.1 ms a step: matmul 79 %, groups 8 %, device idle 4 %``."""
    return f"{milliseconds(steps.ms)} a step: {shares(steps.parts)}"


def shares(parts: Sequence[Part]) -> str:
    """Return ``matmul 79 %, groups 8 %, device idle 4 %``."""
    return ", ".join(
        f"{one.what} {share(one.share)}"
        for one in parts
        if one.share >= LEAST_SHARE
    )


def could_save(steps: Steps) -> str | None:
    """Return the most that fusing the rest would save."""
    if steps.could_save_ms is None:
        return None
    part = steps.could_save_ms / steps.ms if steps.ms else 0.0
    return (
        f"fusing every operator that could fuse would save at most {milliseconds(steps.could_save_ms)}"
        f" a step ({share(part)})"
    )


def _at_bandwidth(steps: Steps) -> str | None:
    """Return ``the bytes of generated kernels need 0.1 ms at 3,350 GB/s; the
    kernels take 0.15 ms (67 %)``."""
    known = steps.at_bandwidth
    if known is None or not known.ms or steps.gb_per_s is None:
        return None
    needed = f"{milliseconds(known.least_ms)} at {steps.gb_per_s:,.0f} GB/s"
    reached = share(known.least_ms / known.ms)
    taken = f"{milliseconds(known.ms)} ({reached})"
    return f"the bytes of generated kernels need {needed}; the kernels take {taken}"


def remarks(report: Report) -> list[str]:
    """Further sentences on the steps of a report."""
    steps = report.steps
    sentences = []
    if steps is not None:
        texts = (could_save(steps), _at_bandwidth(steps), steps.hint)
        sentences += [text for text in texts if text is not None]
        if steps.unmatched_ms and steps.unmatched_ms >= LEAST_SHARE * steps.ms:
            sentences.append(
                f"of these {milliseconds(steps.unmatched_ms)} could be tied to no row of this report"
            )
    if report.steps_note is not None:
        sentences.append(report.steps_note)
    return sentences


def takes(time: Time | None) -> str | None:
    """Return the time of a row, ``1.2 ms (4 %)``."""
    if time is None:
        return None
    return f"{milliseconds(time.ms)} ({share(time.share)})"
