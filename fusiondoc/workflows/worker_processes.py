"""A process that does the work of this one on the side, and can be ended at any
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
    """A process that does one piece of work after the other.

    Args:
        folder: for its temporary files.
        others: pipes of other workers, which it is not to hold open.
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
        """Let it do this piece of work; if it is dead, the result is None."""
        self.given = piece
        with contextlib.suppress(OSError):
            self.pipe.send(piece)

    def result(self) -> Any:
        """The result of its piece of work, waited for; None where it died.

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
    """Work until the pipe is closed, which the end of the first process does
    too."""
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
    """Take off the handlers of the process that was forked: an exception of theirs
    would be taken for an error of the work, and the process would go on. Ctrl-C,
    which reaches all processes, is for the first one."""
    for number in _SIGNALS:
        signal.signal(
            number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL
        )
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Inside the block no signal is handled: a process that starts there first gets
    handlers of its own."""
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
