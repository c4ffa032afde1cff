"""When this process loaded the package, for how long its start took; imported before anything else of it."""

import time

LOADED = (time.process_time(), time.perf_counter())
"""CPU seconds that this process had used when the package was imported, and when that was."""
