"""True order in the log: every writer to the one pipe hands over whole lines at once."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
from typing import Any

_IOLBF = 1
"""``_IOLBF`` of ``stdio.h`` in glibc, musl and macOS."""


def _libc() -> Any:
    return ctypes.CDLL(None)


def line_buffer() -> None:
    """Make C stdout (nvFuser's dumps, ``printf``, ``std::cout``) and Python's streams line-buffered.

    C stdout to a pipe holds back 4 KiB and more, so without this its lines come out long after the JIT log on
    stderr that was written later. Must be called before anything is printed through C stdout.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = _libc()
        name = "__stdoutp" if sys.platform == "darwin" else "stdout"
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, name), None, _IOLBF, 0)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def stack_on_death() -> None:
    """Print the Python stack when a signal ends the process: of a crash, or of the SIGTERM of a timeout."""
    faulthandler.enable()
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, chain=True)


def flush() -> None:
    """Hand over what Python's and C's stdout still hold."""
    for stream in (sys.stdout, sys.stderr):
        # The program may have put anything there.
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        _libc().fflush(None)


def mark(text: str) -> None:
    """A line ``[fusiondoc] text`` in the log, after all that was printed before it."""
    flush()
    with contextlib.suppress(OSError):
        os.write(2, ("[fusiondoc] %s\n" % text).encode("utf-8", "backslashreplace"))
