"""The standard streams of the command line where they are closed or full: a report
that nobody gets is an error, a message that nobody gets is none.

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
    """Where results go while stdout is closed."""

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
    """stderr, of which a full disk or a reader that went away takes nothing but the
    messages."""

    def write(self, data: object) -> int:
        size = len(memoryview(data).cast("B"))  # type: ignore[arg-type]
        with contextlib.suppress(OSError):
            written = super().write(data)  # type: ignore[arg-type]
            return size if written is None else written
        return size


def open_streams() -> None:
    """Give Python's streams a meaning where the caller closed them, and take the
    errors from stderr.

    Streams that something else has put there (a test, a notebook) stay as they are.
    """
    if sys.stdout is None:
        closed = io.BufferedWriter(_Closed())
        sys.stdout = io.TextIOWrapper(
            closed, encoding="utf-8", errors="backslashreplace"
        )
    elif isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files and messages of programs need not be text that the terminal
        # can show.
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
    """Of Windows, which has a stream of a kind of its own."""
    return os.name == "nt" and stream.isatty()
