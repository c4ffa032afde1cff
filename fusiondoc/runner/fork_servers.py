"""Supervisors as forks of a process that has imported torch
(``probe/fork_server.py``), for a command that runs many models.

A program may start in this way if it is the probe, and its whole environment is
that of the server, as torch and libraries read variables when they are imported. A
variable that names the folder of one capture makes an environment of its own, so
such a run starts as a new process; and so does every run where the server does not
come up, which then shows the error itself. Linux alone: elsewhere libraries may not
be forked.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from fusiondoc.runner import child
from fusiondoc.runner.interpreter import PROBE
from fusiondoc.runner.supervisor_order import SupervisorOrder, SupervisorProcess

SERVE = "--serve"
"""The argument that makes ``probe/__main__.py`` a server."""
MOST_SERVERS = 4
"""Most environments for which a server is kept; each holds the memory of an
imported torch."""
_START = str(PROBE / "__main__.py")
_RUNNER = str(Path(__file__).resolve().parent)
_TO_END = 5.0
"""Seconds that a server may take to end after its last request."""


class ForkedSupervisor:
    """A supervisor that is no child of this process: its end is seen at a socket
    that it alone holds."""

    def __init__(self, pid: int, alive: socket.socket, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self._alive = alive

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return 0. Raises: subprocess.TimeoutExpired: it has not
        ended after ``timeout`` seconds.
        """
        if not select.select([self._alive], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(_START, timeout or 0)
        self._alive.close()
        return 0

    def kill(self) -> None:
        """End it at once, and with it the program."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)


class ForkServer:
    """A process with torch imported, in one interpreter and environment."""

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._requests, its = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        with its:
            self._process = subprocess.Popen(
                [python, _START, SERVE, str(its.fileno()), _RUNNER],
                env=dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[its.fileno()],
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, control: int, reports: int) -> ForkedSupervisor | None:
        """Return a supervisor with these descriptors; None if the server is
        gone."""
        read, write = os.pipe()
        alive, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with its:
                socket.send_fds(
                    self._requests, [b"x"], [control, reports, write, its.fileno()]
                )
            pid = alive.recv(32)
        except OSError:
            pid = b""
        os.close(write)
        if not pid:
            os.close(read)
            alive.close()
            return None
        return ForkedSupervisor(int(pid), alive, os.fdopen(read, "rb", buffering=0))

    def close(self) -> None:
        """End the server; programs that it started continue."""
        self._requests.close()
        try:
            self._process.wait(_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkServers:
    """The servers of this process, each started when the first run needs it."""

    def __init__(self) -> None:
        self._by_key: dict[
            tuple[str, frozenset[tuple[str, str]]], ForkServer | None
        ] = {}

    @property
    def running(self) -> tuple[int, ...]:
        """The processes of the servers that can start a program."""
        pids = []
        for server in self._by_key.values():
            if server is not None:
                pids.append(server.pid)
        return tuple(pids)

    def start(self, order: SupervisorOrder) -> tuple[SupervisorProcess, int] | None:
        """Return a supervisor for the order and its parent; None if its program
        must start as a new process."""
        if not _is_same_as_fork(order):
            return None
        python = order.command[0]
        key = python, frozenset(order.environment.items())
        if key not in self._by_key:
            self._make_room()
            self._by_key[key] = ForkServer(python, order.environment)
        server = self._by_key[key]
        if server is None:
            return None
        started = server.start(order.control, order.reports)
        if started is None:
            self._by_key[key] = None  # it will not come up for the next run either
            server.close()
            return None
        return started, server.pid

    def _make_room(self) -> None:
        running = []
        for key, started in self._by_key.items():
            if started is not None:
                running.append(key)
        if len(running) >= MOST_SERVERS:
            server = self._by_key.pop(running[0])
            assert server is not None
            server.close()

    def close(self) -> None:
        """End all of them."""
        for server in self._by_key.values():
            if server is not None:
                server.close()
        self._by_key.clear()


def _is_same_as_fork(order: SupervisorOrder) -> bool:
    """True for a probe that imports torch, in an environment that other runs may
    have too."""
    if order.records is None or list(order.command[1:2]) != [_START]:
        return False  # facts about an interpreter need no torch, and have no records of a run
    folder = str(order.records.parent)
    return not any(folder in value for value in order.environment.values())


def start_from_forks() -> ForkServers | None:
    """Start the runs of this process as forks from now on, where that makes no
    difference to them. Returns: the servers, which end with this process; None
    if nothing changes, as forks are impossible here or already in use.
    """
    if not sys.platform.startswith("linux") or child.other_start() is not None:
        return None
    servers = ForkServers()
    child.set_other_start(servers.start)
    return servers


@contextlib.contextmanager
def forks() -> Iterator[None]:
    """Context manager: the runs of this process start as forks where that makes no
    difference to them."""
    servers = start_from_forks()
    try:
        yield
    finally:
        if servers is not None:
            child.set_other_start(None)
            servers.close()
