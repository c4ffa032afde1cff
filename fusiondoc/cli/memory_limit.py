"""Whether this process came close to its memory limit."""

from __future__ import annotations

import re
from pathlib import Path


def memory_was_full() -> bool:
    """True if the address space of this process reached nine tenths of its limit
    (``ulimit -v``).

    Python 3.11 loses a MemoryError where there is no memory for its traceback, and
    raises "SystemError: error return without exception set" instead. False where
    there is no limit, and on Windows and macOS.
    """
    from fusiondoc.numbers import whole_number

    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        status = Path("/proc/self/status").read_text("ascii")
    except (ImportError, OSError, ValueError):
        return False
    peak = re.search(r"^VmPeak:\s+(\d+) kB$", status, re.MULTILINE)
    kilobytes = whole_number(peak[1]) if peak is not None else None
    return (
        limit != resource.RLIM_INFINITY
        and kilobytes is not None
        and kilobytes * 1024 > 0.9 * limit
    )
