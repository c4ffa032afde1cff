"""Children that start with torch imported: forks of a process that did that once, not two seconds for each.

They differ from what a user starts in nothing but that: a supervisor, a process and session of their own,
their own pipe, environment, folder and end. Where a variable differs that torch or a library reads when it is
imported, and in tests with the mark ``cold`` (how a process starts, is stopped or dies), a child is a new
process; so are all children of a ``fusiondoc`` that is a process itself (``fusiondoc_process``).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Sequence

from fusiondoc.runner import supervised

SERVER = Path(__file__).parent / "live" / "warm_server.py"

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
    """The process that has torch, started when it is first needed."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None

    def start(self, command: Sequence[str], control: int, told: int) -> WarmSupervisor:
        if self._control is None:
            self._control = self._server()
        pipe, out = os.pipe()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Behind -c: the supervisor's start and its arguments, of which the last two are the descriptors.
        _, start, *arguments = command[command.index("-c") :]
        assert arguments[-2:] == [str(control), str(told)]
        request = {"start": start, "arguments": arguments[:-2], "asks": os.getpid()}
        descriptors = [control, told, out, theirs.fileno()]
        with theirs:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        os.close(out)
        pid = ours.recv(64)
        assert pid, "the process that has torch is gone"
        return WarmSupervisor(int(pid), ours, pipe)

    def _server(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # kept: forgotten, it is a ResourceWarning
                [sys.executable, str(SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                start_new_session=True,
                stdout=subprocess.DEVNULL,  # buffered as a pipe is
            )
        atexit.register(ours.close)
        return ours


def use() -> None:
    """From here on the runner starts warm children where that is the same."""
    if not (hasattr(socket, "send_fds") and hasattr(os, "pidfd_open")):
        return
    warm = Warm()

    def popen(command: Sequence[str], **options: Any) -> Any:
        if allowed and "-c" in command:
            control, told = options["pass_fds"]
            return warm.start(command, control, told)
        return subprocess.Popen(command, **options)

    stand_in = types.SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    supervised.subprocess = stand_in  # type: ignore[assignment]
