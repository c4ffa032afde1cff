"""A doctor for operator fusion in TorchScript. The command line is in :mod:`fusiondoc.cli`."""

import time

from fusiondoc.version import __version__

__all__ = ["__version__"]

LOADED = (time.process_time(), time.perf_counter())
"""CPU seconds that this process had used when the package was imported, and when that was."""
