"""The version of fusiondoc, and when this process loaded it; imported before
anything else, and imports nothing of it.

Alone in a file, so that ``fusiondoc --version`` imports nothing else.
"""

import time

__version__ = "0.1.0"

LOADED = (time.process_time(), time.perf_counter())
"""CPU seconds that this process had used when the package was imported, and the
time of that."""


def seconds_since_start() -> float:
    """Seconds since Python was started in this process.

    The kernel's start time of the process would be too early: ``sh -c 'make &&
    fusiondoc ...'`` runs its last command in the shell's own process, which is as
    old as all that ran before. So the time until the package was imported is taken
    from the CPU time of the process, which Python's start is made of.
    """
    cpu, loaded = LOADED
    return cpu + time.perf_counter() - loaded
