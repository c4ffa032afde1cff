"""Children that start with torch imported: forks of a process that did that once,
not two seconds for each. That process is one for all workers of xdist.

Runs of torch.compile, for which torch reads other variables at its import, are
forks of another one. Children differ from what a user starts in nothing but that: a
supervisor, a process and session of their own, their own pipe, environment, folder
and end. Where a variable differs that torch or a library reads when it is imported,
and in tests with the mark ``cold`` (how a process starts, is stopped or dies), a
child is a new process. A ``fusiondoc`` that is a process itself has warm children
where ``command()`` starts it.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fusiondoc.fusers.inductor.variables import ARTIFACTS, LOGS, OWN
from fusiondoc.runner import child
from fusiondoc.runner.supervisor_order import SupervisorOrder

SERVER = Path(__file__).parent / "live" / "warm_server.py"
START = Path(__file__).parent / "live" / "warm_fusiondoc.py"
COMPILES = {**OWN, LOGS: ",".join(ARTIFACTS)}
"""What torch reads at its import in a run of torch.compile."""

allowed = True
"""Whether the test that runs now may have warm children."""


class WarmSupervisor:
    """What ``Supervised`` needs of ``subprocess.Popen``."""

    def __init__(self, pid: int, told: socket.socket, pipe: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = os.fdopen(pipe, "rb", buffering=0)
        self._told = told

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            return self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is not None:
            return self.returncode
        if not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(SERVER), timeout or 0)
        return self._end()

    def kill(self) -> None:
        os.kill(self.pid, 9)

    def _end(self) -> int:
        self.returncode = os.waitstatus_to_exitcode(int(self._told.recv(64)))
        self._told.close()
        return self.returncode


class Warm:
    """The process that has torch, started when it is first needed; at ``path``,
    that of another process."""

    def __init__(
        self,
        path: str | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._control: socket.socket | None = None
        self._path = path
        self._variables = variables

    def path(self) -> str:
        """Where the server listens."""
        if self._control is None:
            self._control = self._server()
        assert self._path is not None
        return self._path

    def start(
        self, command: Sequence[str], control: int, told: int
    ) -> WarmSupervisor:
        self.path()
        assert self._control is not None
        pipe, out = os.pipe()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Behind -c: the supervisor's start and its arguments, of which the last two
        # are the descriptors.
        _, start, *arguments = command[command.index("-c") :]
        assert arguments[-2:] == [str(control), str(told)]
        request = {"start": start, "arguments": arguments[:-2], "asks": os.getpid()}
        descriptors = [control, told, out, theirs.fileno()]
        with theirs:
            socket.send_fds(
                self._control, [json.dumps(request).encode()], descriptors
            )
        os.close(out)
        pid = ours.recv(64)
        assert pid, "the process that has torch is gone"
        return WarmSupervisor(int(pid), ours, pipe)

    def _server(self) -> socket.socket:
        if self._path is not None:
            own = _connected(self._path)
        else:
            run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
            kind = "-compiles" if self._variables else ""
            folder = Path(tempfile.gettempdir(), f"warm-torch-{run}{kind}")
            folder.mkdir(mode=0o700, exist_ok=True)  # the server deletes it
            self._path = str(folder / "socket")
            with (folder / "lock").open("w") as alone:
                fcntl.flock(alone, fcntl.LOCK_EX)
                try:
                    own = _connected(self._path)
                except OSError:
                    own = self._started(folder)
        atexit.register(own.close)
        return own

    def _started(self, folder: Path) -> socket.socket:
        assert self._path is not None
        (folder / "socket").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self._path)
            listener.listen()
            own = _connected(self._path)
            self._process = (
                subprocess.Popen(  # kept: forgotten, it is a ResourceWarning
                    [
                        sys.executable,
                        str(SERVER),
                        str(listener.fileno()),
                        str(folder),
                    ],
                    pass_fds=[listener.fileno()],
                    env={
                        **{
                            name: value
                            for name, value in os.environ.items()
                            if name != "PYTHONPATH"
                        },
                        **self._variables,
                    },
                    start_new_session=True,
                    stdout=subprocess.DEVNULL,  # buffered as a pipe is
                )
            )
        return own


def _connected(path: str) -> socket.socket:
    own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        own.connect(path)
    except OSError:
        own.close()
        raise
    return own


def _no_other(order: SupervisorOrder) -> None:
    """Another start of supervisors that starts none."""


_used: Warm | None = None


def use(path: str | None = None) -> None:
    """From now on the runner starts warm children where that is the same; ``path``:
    by the server there."""
    global _used
    if not (hasattr(socket, "send_fds") and hasattr(os, "pidfd_open")):
        return
    warm = _used = Warm(path)
    # For runs of torch.compile: with Inductor imported, and with what it reads at
    # that time.
    compiles = Warm(variables=COMPILES)
    order_of_thread = threading.local()
    start = child._start_supervisor

    def start_supervisor(order: SupervisorOrder) -> Any:
        order_of_thread.compiles = OWN.keys() <= order.environment.keys()
        return start(order)

    def popen(command: Sequence[str], **options: Any) -> Any:
        if allowed and "-c" in command:
            control, told = options["pass_fds"]
            return (compiles if order_of_thread.compiles else warm).start(
                command, control, told
            )
        return subprocess.Popen(command, **options)

    stand_in = types.SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    child.subprocess = stand_in  # type: ignore[assignment]
    child._start_supervisor = start_supervisor
    own = child.other_start
    # A command's own server would import torch once more.
    child.other_start = lambda: _no_other if allowed else own()


def server() -> str | None:
    """For ``use()`` in another process: where the server of this one listens, if
    there is one."""
    return _used.path() if _used is not None and allowed else None


def command() -> list[str]:
    """What starts ``fusiondoc`` as a process of its own, with warm children where
    this one has them."""
    path = server()
    return (
        [sys.executable, str(START), path]
        if path
        else [sys.executable, "-m", "fusiondoc"]
    )
