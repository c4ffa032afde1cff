"""A process that has imported torch once, and from which programs start as forks,
which saves seconds for each.

``serve(DESCRIPTOR, RUNNER)`` imports torch and waits at a socket (AF_UNIX,
SOCK_SEQPACKET). A request brings four descriptors: CONTROL and REPORTS of
``runner/supervisor.py``, the log, and a socket that gets the number of the
supervisor's process and is closed when that has ended. The supervisor is a fork of
this process; where it would execute the program, a further fork leaves ``serve``,
as a probe that was just started.

A fork differs from a new process in nothing that a program sees but that torch is
imported: it has a session, standard streams, signal handlers and random numbers of
its own, and this process was started with the environment of the run.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import importlib
import io
import os
import signal
import socket
import sys
import threading
import weakref
from typing import Any, List, Optional, Sequence

DESCRIPTORS = 4
_INT_BYTES = array.array("i").itemsize
_MOST_DESCRIPTORS = 256
"""The highest descriptor that a program may have inherited from this process."""


def serve(descriptor: int, runner: str) -> List[str]:
    """Fork for every request; returns only in a fork, with the arguments for the
    probe that the fork will run.

    Args:
        descriptor: the socket's.
        runner: the folder of ``supervisor.py``.
    """
    importlib.import_module("torch")
    importlib.import_module(__package__ + ".actions")
    sys.path.insert(0, runner)
    supervisor = importlib.import_module("supervisor")
    del sys.path[0]
    _freeze()
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # supervisors are taken away when they have ended
    requests = socket.socket(fileno=descriptor)
    while True:
        received = _descriptors(requests)
        if received is None:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            arguments = _supervise(supervisor, received)
            del sys.modules["supervisor"]
            return arguments
        for number in received:
            os.close(number)


def _freeze() -> None:
    """Exclude torch's objects from garbage collection and from the clean-up at
    exit: a collection in a fork would copy their memory, and freeing them takes a
    second."""
    gc.collect()
    gc.freeze()
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.atexit = False


def _descriptors(requests: socket.socket) -> Optional[List[int]]:
    """The descriptors of the next request; None when nobody can send another."""
    data, ancillary, _, _ = requests.recvmsg(
        1, socket.CMSG_SPACE(DESCRIPTORS * _INT_BYTES)
    )
    if not data:
        return None
    numbers = array.array("i")
    for _, _, content in ancillary:
        numbers.frombytes(content[: len(content) - len(content) % _INT_BYTES])
    return list(numbers)


def _supervise(supervisor: Any, descriptors: Sequence[int]) -> List[str]:
    """Become the supervisor of a program; returns in the program's process."""
    control, reports, log, alive = descriptors
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)
    os.write(alive, b"%d" % os.getpid())
    try:
        supervisor.main(control, reports, supervisor.become)
    except supervisor.Become as program:
        _be_a_new_process()
        words: List[str] = program.words
        return words[2:]
    os._exit(1)  # not reached: main ends the process


def _be_a_new_process() -> None:
    """Undo the signal handlers and descriptors of the server and the supervisor,
    and seed the generators anew."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.closerange(3, _MOST_DESCRIPTORS)
    # As in a new process. Python's own generator is seeded anew by the fork itself.
    sys.modules["torch"].default_generator.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def end(status: int) -> None:
    """End the program as an interpreter does, but without freeing torch's
    objects."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for (
        stream
    ) in gc.get_objects():  # those of the program alone: older ones are frozen
        if issubclass(type(stream), io.IOBase) and stream not in (
            sys.stdout,
            sys.stderr,
        ):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        status = status or 120
    ctypes.CDLL(None).fflush(None)
    os._exit(status & 0xFF)
