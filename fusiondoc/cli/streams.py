"""Standard streams of the command line that are closed or full: a report that
cannot be printed is an error, a message that cannot be printed is not.

``fusiondoc parse LOG >&-`` must not end with 0 and nothing written, and ``2>
/dev/full`` must not make of a report without findings status 1, which CI reads as
findings.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys

from fusiondoc.errors import UsageError


class _Closed(io.RawIOBase):
    """Replaces stdout while it is closed; writing raises a UsageError."""

    def __init__(self) -> None:
        self._refused = False

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = len(memoryview(data).cast("B"))  # type: ignore[arg-type]
        if size and not self._refused:
            self._refused = True  # Python writes the rest again at its end
            raise UsageError(
                "the standard output is closed, so the result cannot be printed",
                "Name a file with --output, or leave the standard output open: >FILE instead of >&-",
            )
        return size


class _Lossy(io.FileIO):
    """Wraps stderr: a full disk or a closed reader only loses messages."""

    def write(self, data: object) -> int:
        size = len(memoryview(data).cast("B"))  # type: ignore[arg-type]
        with contextlib.suppress(OSError):
            written = super().write(data)  # type: ignore[arg-type]
            if written is None:
                return size
            return written
        return size


def open_streams() -> None:
    """Replace Python's streams where the caller closed them, and ignore errors of
    stderr. Streams that another program has installed (a test, a notebook) are
    unchanged.
    """
    if sys.stdout is None:
        closed = io.BufferedWriter(_Closed())
        sys.stdout = io.TextIOWrapper(
            closed, encoding="utf-8", errors="backslashreplace"
        )
    elif isinstance(sys.stdout, io.TextIOWrapper):
        # File names and messages of programs may contain text that the terminal
        # cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    stderr = sys.stderr
    if stderr is None:
        sys.stderr = io.StringIO()
    elif (
        stderr is sys.__stderr__
        and isinstance(stderr, io.TextIOWrapper)
        and not _is_console(stderr)
    ):
        lossy = io.BufferedWriter(_Lossy(stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            lossy,
            encoding=stderr.encoding,
            errors="backslashreplace",
            line_buffering=True,
        )


def _is_console(stream: io.TextIOWrapper) -> bool:
    """True for a console of Windows, which has a special kind of stream."""
    return os.name == "nt" and stream.isatty()
