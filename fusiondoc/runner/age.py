"""How long this process has been running: what Python and the imports needed before all measuring."""

from __future__ import annotations

import time

from fusiondoc import LOADED


def process_age() -> float:
    """Seconds since Python was started in this process.

    The kernel's start time of the process would be too early: ``sh -c 'make && fusiondoc ...'`` runs its last
    command in the shell's own process, which is as old as all that ran before. So the time until the package
    was imported is taken from the CPU time of the process, which Python's start is made of.
    """
    cpu, loaded = LOADED
    return cpu + time.perf_counter() - loaded
