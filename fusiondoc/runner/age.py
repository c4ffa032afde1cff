"""How long this process has been running: what Python and the imports needed before all measuring."""

from __future__ import annotations

import os
import time
from pathlib import Path


def process_age() -> float | None:
    """Seconds since the kernel started this process, to 10 ms; None where ``/proc`` does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        # Field 22 of proc(5), counted behind the name: clock ticks between boot and start.
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, AttributeError, ValueError, IndexError):
        return None
