"""A process that has imported torch, and forks for every program that it is asked
to run.

python warm_server.py SOCKET FOLDER: the socket listens and is inherited; FOLDER has
its name. Processes of the tests connect, the one that started this first: when the
last of them is gone, the tests are over. A request is JSON (start of the runner's
supervisor, its arguments, the process that asks) with four descriptors: CONTROL and
TOLD of ``runner/supervisor.py``, where the program prints, and a socket that is
told the number of the supervisor's process, then its end as os.wait() gives it. The
supervisor is a fork of this process. Where it would execute ``python FILE.py ...``,
its own fork becomes that program: a process and session of its own, in which the
file is ``__main__``. It ends as an interpreter does, but does not take the objects
of torch apart, which takes a second.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STARTED_WITH = dict(os.environ)  # torch adds to it

import torch  # noqa: E402

with contextlib.suppress(ImportError):
    import sympy  # noqa: F401 - and half a second, which torch imports at the first trace
    import torch._functorch.aot_autograd  # and one to two more: at a step of an optimizer, or by AOTAutograd
    import torch._inductor.pattern_matcher  # and one: where AOTAutograd joins equal operators

    if (
        "TORCHINDUCTOR_COMPILE_THREADS" in os.environ
    ):  # the server for runs of torch.compile
        import torch._inductor.codegen.cpp
        import torch._inductor.compile_fx
        import torch.export._trace

MOST_BYTES = 1 << 16
LAUNCHER = Path(__file__).with_name("launcher.py")
AT_START = (
    "PYTHON",
    "LD_",
    "OMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "TORCH",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVIDIA_",
    "COVERAGE_P",
    "COV_",
)
"""Prefixes of variables that Python, libraries, torch or coverage read when they
are loaded. Others of CUDA are read where a GPU is first used."""
TRACE = "TORCH_TRACE"
"""Read by a function of torch that a fork can call again; another folder in each
run."""
COMPILER = "CXX"
"""Read into a setting of Inductor, which a fork can write as torch does."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Read whenever it is needed. torch._dynamo writes it where it is imported, in
processes of the tests too."""


class Become(BaseException):
    """Where a program would be executed: unwinds to the top of this file."""


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of those; the folders of PYTHONPATH are put where a new process
    has them."""
    later = ("PYTHONPATH", TRACE, COMPILER, CACHE)
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(AT_START) and name not in later
    }


def has_own_torch(environment: Mapping[str, str]) -> bool:
    """Whether a folder of PYTHONPATH has a torch, or what runs before it, that is
    not the one here."""
    folders = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    names = ("torch", "torch.py", "sitecustomize.py", "usercustomize.py")
    return any(
        (Path(folder) / name).exists() for folder in folders for name in names
    )


def serve(listener: socket.socket, folder: str) -> tuple[dict[str, Any], list[int]]:
    """Returns in a child, with a request and its first three descriptors; never in
    this process."""
    watched: dict[int, tuple[int, socket.socket]] = {}
    asking: dict[int, socket.socket] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                one = listener.accept()[0]
                asking[one.fileno()] = one
                poll.register(one, select.POLLIN)
                continue
            if descriptor in watched:
                pid, told = watched.pop(descriptor)
                poll.unregister(descriptor)
                os.close(descriptor)
                told.send(str(os.waitpid(pid, 0)[1]).encode())
                told.close()
                continue
            control = asking[descriptor]
            data, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 4)
            if not data:
                poll.unregister(descriptor)
                asking.pop(descriptor).close()
                if asking or select.select([listener], [], [], 0)[0]:
                    continue
                shutil.rmtree(folder, ignore_errors=True)
                os._exit(0)  # the tests are over
            pid = os.fork()
            if pid == 0:
                os.close(descriptors.pop())
                for end, (_, told) in watched.items():
                    os.close(end)
                    os.close(told.detach())
                for one in (*asking.values(), listener):
                    os.close(one.detach())
                return json.loads(data), descriptors
            told = socket.socket(fileno=descriptors.pop())
            told.send(str(pid).encode())
            for number in descriptors:
                os.close(number)
            end = os.pidfd_open(pid)
            watched[end] = pid, told
            poll.register(end, select.POLLIN)


def supervise(request: dict[str, Any], control: int, told: int, out: int) -> None:
    """Be the supervisor; raises ``Become`` in the program's process."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for one, standard in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(one, standard)
    os.close(nothing)
    os.close(out)
    getppid, execute, leave = os.getppid, os.execvpe, os._exit
    server = getppid()

    def become(
        file: bytes, command: Sequence[bytes], environment: Mapping[bytes, bytes]
    ) -> None:
        os.getppid, os.execvpe = getppid, execute
        variables = {
            os.fsdecode(name): os.fsdecode(value)
            for name, value in environment.items()
        }
        words = [os.fsdecode(one) for one in command]
        program = words[2:] if words[1:2] == ["-u"] else words[1:]
        if program[:2] == ["-m", "torch.distributed.run"]:
            program[:2] = [str(LAUNCHER)]
        is_file = (
            bool(program)
            and program[0].endswith(".py")
            and Path(program[0]).exists()
        )
        same = words[0] == sys.executable and at_start(variables) == at_start(
            STARTED_WITH
        )
        if is_file and same and not has_own_torch(variables):
            os._exit = lambda status: None  # type: ignore[assignment]  # "finally" of the supervisor
            raise Become(leave, variables, program, words[1] == "-u")
        execute(file, command, environment)

    # The supervisor ends its program when its parent is no longer who asked.
    os.getppid = lambda: request["asks"] if getppid() == server else getppid()
    os.execvpe = become  # type: ignore[assignment]
    sys.argv = ["-c", *request["arguments"], str(control), str(told)]
    try:
        exec(request["start"], {"__name__": "__main__"})
    except SystemExit as stop:
        leave(
            stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        )
    leave(0)


def prepare(
    leave: Any, variables: Mapping[str, str], argv: list[str], unbuffered: bool
) -> None:
    """Make this process what a new interpreter would be."""
    os._exit = leave
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(variables)
    if TRACE in variables:
        torch._logging._internal.LOG_TRACE_HANDLER = None
        torch._logging._internal._init_logs()
    if (
        variables.get(COMPILER) != STARTED_WITH.get(COMPILER)
        and "torch._inductor.config" in sys.modules
    ):
        torch._inductor.config.cpp.cxx = (None, variables.get(COMPILER, "g++"))
    sys.stdout.reconfigure(line_buffering=unbuffered)  # type: ignore[union-attr]
    sys.argv = argv
    folders = variables.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [str(Path(argv[0]).parent), *filter(None, folders)]


def end_of_fork(status: int) -> None:
    """What an interpreter does at its end: threads, ``atexit``, what is buffered;
    then nothing.

    The program runs in the names of this file: ``end``, which the probe has too,
    was once that of the probe.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for one in (
        gc.get_objects()
    ):  # those of this program: what was there before it is frozen
        if issubclass(type(one), io.IOBase) and one not in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                one.flush()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        status = 120
    ctypes.CDLL(None).fflush(None)
    os._exit(status)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the memory of all of torch
    for one in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        one.atexit = False  # each library of operators would be taken apart at the end of a program
    folders, modules = list(sys.path), set(sys.modules)
    try:
        asked, given = serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
        supervise(asked, *given)
    except Become as one:
        sys.path[:] = folders
        for name in set(sys.modules) - modules:  # of the supervisor
            del sys.modules[name]
        prepare(*one.args)
    __file__ = sys.argv[0]
    try:
        exec(compile(Path(__file__).read_bytes(), __file__, "exec"))
    except SystemExit as stop:
        if not isinstance(stop.code, (int, type(None))):
            raise
        end_of_fork((stop.code or 0) & 0xFF)
    end_of_fork(0)
