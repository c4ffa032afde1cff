"""The memory bandwidth of a GPU, measured by the probe and remembered by the GPU's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fusiondoc.errors import CannotRun
from fusiondoc.runner.interpreter import call_probe, inspect
from fusiondoc.runner.remembered import remember_bandwidth


@dataclass(frozen=True)
class Measured:
    """GB/s (10^9 bytes): read plus written by a copy within the GPU's memory, the median copy's."""

    gpu: str
    gb_per_s: float
    copied_bytes: int


def measure_bandwidth(python: str | Path) -> Measured:
    """Let the probe copy within the GPU's memory (a second or two), and remember the result.

    Raises:
        CannotRun: there is no torch, no GPU, or the probe died.
    """
    interpreter = inspect(python)
    interpreter.require_torch()
    records = call_probe(interpreter.path, {"action": "bandwidth"}, timeout=300)
    record = next((one for one in records if one["record"] == "bandwidth"), None)
    if record is None:
        died = next((one["signal"] for one in records if one["record"] == "died"), "no answer")
        raise CannotRun(
            f"the copy that measures the bandwidth did not end ({died})",
            "See whether another program fills the GPU; or give the figure: --peak GB_PER_S.",
        )
    found = Measured(record["gpu"], record["gb_per_s"], record["copied_bytes"])
    value = {"gb_per_s": found.gb_per_s, "copied_bytes": found.copied_bytes, "python": str(interpreter.path)}
    remember_bandwidth(found.gpu, value)
    return found
