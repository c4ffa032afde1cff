"""The version of fusiondoc, and when this process loaded it; imported before anything else, and imports
nothing of it.

Alone in a file, so that ``fusiondoc --version`` imports nothing else.
"""

import time

__version__ = "0.1.0"

LOADED = (time.process_time(), time.perf_counter())
"""CPU seconds that this process had used when the package was imported, and when that was."""
