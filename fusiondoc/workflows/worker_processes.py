"""A process that works for this one in the background, and can be ended at any
moment.

Each has a pipe of its own: workers share no lock and no queue, so that one that is
killed, also halfway through its answer, takes nothing with it but its work. (The
pool of concurrent.futures then waits for the rest of that answer for ever.)
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_TO_END = 5.0
"""Seconds that a worker may take to end."""


class WorkerProcess:
    """A process that does one piece of work after another.

    Args:
        folder: for its temporary files.
        others: pipes of other workers, which it must not hold open.
    """

    def __init__(
        self, work: Callable[[Any], Any], folder: str, others: Sequence[Connection]
    ) -> None:
        from multiprocessing import Pipe, Process

        self.pipe: Connection
        self.pipe, its = Pipe()
        self.given: Any = None
        inherited = (self.pipe, *others) if _forks() else ()
        self._process: BaseProcess = Process(
            target=_serve,
            args=(work, its, folder, inherited),
            daemon=True,
            name="fusiondoc-worker",
        )
        with _signals_held():
            self._process.start()
        its.close()

    def give(self, piece: Any) -> None:
        """Send it a piece of work; if it is dead, the result will be None."""
        self.given = piece
        with contextlib.suppress(OSError):
            self.pipe.send(piece)

    def result(self) -> Any:
        """Wait for the result of its piece of work; None if it died.

        Raises:
            Exception: the exception that the work raised.
        """
        try:
            made, error = self.pipe.recv()
        except (
            EOFError,
            OSError,
            pickle.UnpicklingError,
        ):  # nothing, or half an answer
            return None
        if error is not None:
            raise error
        return made

    def end(self) -> None:
        """End the process at once."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(_TO_END)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_TO_END)


def _serve(
    work: Callable[[Any], Any],
    pipe: Connection,
    folder: str,
    inherited: Sequence[Connection],
) -> None:
    """Work until the pipe is closed, also by the end of the first process."""
    for other in inherited:
        other.close()
    _as_a_new_process()
    tempfile.tempdir = folder
    with (
        contextlib.suppress(Exception),
        pipe,
    ):  # no memory for an answer: it ends as if it was killed
        while True:
            piece = pipe.recv()
            error = made = None
            try:
                made = work(piece)
            except Exception as raised:
                error = raised
            pipe.send((made, error))


_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGINT")
    if hasattr(signal, name)
)


def _as_a_new_process() -> None:
    """Remove the signal handlers inherited from the forking process: their
    exceptions would be taken for errors of the work, and the process would go on.
    Ctrl-C, which reaches all processes, is left to the first one."""
    for number in _SIGNALS:
        signal.signal(
            number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL
        )
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Context manager: no signal is handled in the block, so that a process started
    there first sets its own handlers."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forks() -> bool:
    from multiprocessing import get_start_method

    return get_start_method() == "fork"
