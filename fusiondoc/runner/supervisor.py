"""The process between fusiondoc and a program that it runs: ``main(CONTROL,
REPORTS)`` in a Python of its own, or in a fork of ``probe/fork_server.py``.

It starts the program in a session of its own, passes signals on, and ends the
processes that the program leaves running, also when fusiondoc itself is killed. On
Linux it is a subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)): a process that the
program started stays below it, whatever session it moves to and whoever its parent
was. On other systems it knows the program's process group alone. It never looks at
a process that is not below it.

CONTROL: descriptor from which it reads the command to run (``_read_order``), then
letters: ``i`` and ``t`` send SIGINT and SIGTERM to the program's group, ``k`` ends
everything now; the end of the file means that fusiondoc is gone. REPORTS:
descriptor to which it writes lines: ``started PID`` or ``failed ERRNO WHAT``;
``stopped SIGNAL`` whenever a signal stopped the program; ``ended STATUS`` (minus
the number of a signal) as soon as it has ended. It is closed when nothing is left.

It must start fast: it imports few modules, and none of fusiondoc.
"""

from __future__ import annotations

# ``_signal`` is the C module behind ``signal``, whose enums would double the time
# to start.
import _signal as signal  # type: ignore[import-not-found]
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BY_THEMSELVES = 1.0
"""Seconds after the program's end in which its remaining processes may end by
themselves; their output is kept."""
POLITE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
GIVE_UP = 3.0
"""Seconds after which a process that survives SIGKILL is left alone: it waits in
the kernel, or belongs to another user."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LOOK = 1.0
"""Seconds between checks that fusiondoc is alive: a copy of it (fork) may hold
CONTROL open."""
_NAME = 40
"""Longest name of a process that is reported."""
_INTERPRETERS = (
    "python",
    "pypy",
    "sh",
    "bash",
    "dash",
    "zsh",
    "perl",
    "ruby",
    "node",
)


class SupervisedCommand:
    """The command, the process on whose behalf it runs, and the file in which to
    record leftover processes (``""``: none)."""

    def __init__(self, data: bytes) -> None:
        fusiondoc, records, cwd, count, *texts = data.split(b"\0")
        self.fusiondoc = int(fusiondoc)
        self.records = os.fsdecode(records)
        self.cwd = cwd
        self.command = texts[: int(count)]
        variables = (text.partition(b"=") for text in texts[int(count) :])
        self.environment = {name: value for name, _, value in variables}


class Become(BaseException):
    """Raised in the program's process instead of executing it: this process becomes
    the program."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words = words
        """The program's command line."""


def become(
    file: bytes, command: list[bytes], environment: dict[bytes, bytes]
) -> None:
    """Replaces ``os.execvpe`` if the process has the environment already."""
    raise Become([os.fsdecode(word) for word in command])


class Supervisor:
    """One program, from its start until none of its processes is left."""

    def __init__(
        self,
        order: SupervisedCommand,
        control: int,
        reports: int,
        execute: Callable[[bytes, list[bytes], dict[bytes, bytes]], None],
    ) -> None:
        self._order = order
        self._execute = execute
        self._control = control
        self._reports = reports
        self._adopts = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._gone = False
        """Whether fusiondoc has ended."""
        self._now = False
        """Whether everything must end now."""
        self._status: int | None = None
        self._pid = 0

    def run(self) -> None:
        """Start the program, follow it to its end, and end the rest."""
        if not self._start():
            return
        while self._status is None and not self._gone and not self._now:
            self._wait(_LOOK)
        self._end_the_rest()

    def _start(self) -> bool:
        # Signals from a terminal or a shutdown are ignored here: fusiondoc decides.
        passed: dict[int, object] = {}
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGQUIT,
        ):
            passed[number] = signal.signal(number, signal.SIG_IGN)
        for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them for itself
            if hasattr(signal, name):
                passed[getattr(signal, name)] = signal.SIG_DFL
        trouble, failed = os.pipe()
        own = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._become_the_program(failed, passed, own)
        os.close(failed)
        # The end of the log is seen only when no other process can write to it.
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        trouble_text = os.read(trouble, 100)
        os.close(trouble)
        if trouble_text:
            os.waitpid(self._pid, 0)
            self._report(b"failed " + trouble_text)
            return False
        self._report(b"started %d" % self._pid)
        return True

    def _become_the_program(
        self, failed: int, passed: dict[int, object], own: int
    ) -> None:
        what = b"command"
        becomes = False
        try:
            os.setsid()
            for number, before in passed.items():
                signal.signal(
                    number,
                    signal.SIG_IGN if before is signal.SIG_IGN else signal.SIG_DFL,
                )
            # If this supervisor is killed, the program must end too.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == own:
                what = b"cwd"
                os.chdir(self._order.cwd)
                what = b"command"
                self._execute(
                    self._order.command[0],
                    self._order.command,
                    self._order.environment,
                )
        except Become:
            becomes = True
            raise
        except OSError as error:
            os.write(failed, b"%d %s" % (error.errno or 0, what))
        finally:
            if not becomes:
                os._exit(127)

    def _wait(self, seconds: float) -> None:
        """Wait until something happens: a process ends, or fusiondoc sends a
        command or has ended."""
        watched = [self._wake] if self._gone else [self._wake, self._control]
        ready = select.select(watched, [], [], max(0.0, seconds))[0]
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._control in ready:
            self._obey(os.read(self._control, 64))
        self._gone = self._gone or os.getppid() != self._order.fusiondoc
        self._reap()

    def _obey(self, letters: bytes) -> None:
        self._gone = self._gone or not letters
        self._now = self._now or b"k" in letters
        for letter, number in ((b"i", signal.SIGINT), (b"t", signal.SIGTERM)):
            if letter in letters and self._status is None:
                self._signal_group(number)
                self._signal_group(signal.SIGCONT)

    def _reap(self) -> bool:
        """Collect the statuses of ended processes; return whether processes are
        left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                if self._adopts:
                    return False
                return self._group_lives()
            if pid == 0:
                return True
            if os.WIFSTOPPED(status):
                if pid == self._pid:
                    self._report(b"stopped %d" % os.WSTOPSIG(status))
            elif pid == self._pid:
                signalled = os.WIFSIGNALED(status)
                if signalled:
                    self._status = -os.WTERMSIG(status)
                else:
                    self._status = os.WEXITSTATUS(status)
                self._report(b"ended %d" % self._status)

    def _end_the_rest(self) -> None:
        if not self._gone and not self._now:
            self._until_ended(BY_THEMSELVES)
        names: dict[int, str] = {}
        if self._reap():
            if not self._now:
                self._signal_all(signal.SIGTERM, names)
                self._until_ended(POLITE)
            until = time.monotonic() + GIVE_UP
            while self._reap() and time.monotonic() < until:
                self._signal_all(signal.SIGKILL, names)
                self._wait(0.02)
        left = len(self._descendants() or ()) if self._reap() else 0
        if names or self._gone:
            self._record(names, left)

    def _until_ended(self, seconds: float) -> None:
        """Wait until nothing is left, the time is over, or everything must end
        now."""
        until = time.monotonic() + seconds
        before = self._gone
        while self._reap() and not self._now and self._gone == before:
            rest = until - time.monotonic()
            if rest <= 0:
                return
            # Without a subreaper nothing reports the end of a process that is no
            # child of this one.
            self._wait(min(rest, _LOOK if self._adopts else 0.05))

    def _signal_all(self, number: int, names: dict[int, str]) -> None:
        """Signal every process that is left, and note its name unless it is the
        program itself."""
        found = self._descendants()
        if found is None:
            self._signal_group(number)
            names.setdefault(self._pid, "")
        for pid in found or ():
            if pid != self._pid and pid not in names:
                names[pid] = _name(pid, self._order.command)
            try:
                os.kill(pid, number)
                # A stopped process would not react.
                os.kill(pid, signal.SIGCONT)
            except OSError:
                continue

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self._pid, number)
        except OSError:
            return

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._pid, 0)
        except OSError:
            return False
        return True

    def _descendants(self) -> list[int] | None:
        """All processes below this one that have not ended; None if the system has
        no /proc."""
        everyone = _processes() if self._adopts else []
        if not everyone:
            return None
        parents: dict[int, list[int]] = {}
        for pid in everyone:
            state, parent = _state(pid)
            if state not in "ZX":
                parents.setdefault(parent, []).append(pid)
        found: list[int] = []
        waiting = [os.getpid()]
        while waiting:
            below = parents.get(waiting.pop(), [])
            found += below
            waiting += below
        return found

    def _record(self, names: dict[int, str], left: int) -> None:
        """Write a line for the records of the run. Names hold no character that
        JSON escapes."""
        if not self._order.records:
            return
        counts: dict[str, int] = {}
        for name in names.values():
            counts[name] = counts.get(name, 0) + 1
        parts = []
        for name, count in sorted(counts.items()):
            if name:
                parts.append(f'"{name}": {count}')
        text = ", ".join(parts)
        gone = "true" if self._gone else "false"
        line = f'{{"record": "left", "names": {{{text}}}, "still_running": {left}, "fusiondoc_gone": {gone}}}\n'
        try:
            records = os.open(
                self._order.records, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
            )
            os.write(records, line.encode("ascii"))
        except OSError:
            return

    def _report(self, line: bytes) -> None:
        try:
            os.write(self._reports, line + b"\n")
        except OSError:
            self._gone = True


def _prctl(option: int, value: int) -> bool:
    """True if the system accepted the option; only Linux has it."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        # The C module behind ``ctypes``, which takes longer to import than
        # everything else here.
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]
        return bool(_ctypes.call_function(prctl, (option, value, 0, 0, 0)) == 0)
    except AttributeError:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError):
        return False


def _processes() -> list[int]:
    try:
        processes = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                processes.append(int(name))
        return processes
    except OSError:
        return []


def _state(pid: int) -> tuple[str, int]:
    """Letter of a process's state (proc(5); Z: it has ended) and its parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1])
    except (OSError, IndexError, ValueError):
        return "X", 0


def _name(pid: int, program: list[bytes]) -> str:
    """A process's program, and the file that an interpreter runs; arguments may
    hold secrets and are left out."""
    name = _plain(_content(pid, "comm").strip())
    line = _content(pid, "cmdline").split(b"\0")[:-1]
    if line and len(program) > 1 and line[-len(program) + 1 :] == program[1:]:
        return "a fork of the program" + (
            f" ({name})" if not _is_interpreter(name) else ""
        )
    if not _is_interpreter(name):
        return name or "?"
    for index, argument in enumerate(line[1:], 1):
        if argument == b"-m" and index + 1 < len(line):
            return f"{name} -m {_plain(line[index + 1])}"
        if argument.startswith(b"-") and argument[-1:] in b"ce":
            return name + " -c"
        file = os.path.basename(argument)
        if not argument.startswith(b"-"):
            if b"." in file:
                return f"{name} {_plain(file)}"
            return name
    return name


def _is_interpreter(name: str) -> bool:
    return name.rstrip("0123456789.") in _INTERPRETERS


def _content(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def _plain(text: bytes) -> str:
    """A short form, with characters that need no escape anywhere."""
    parts = []
    for byte in text[: _NAME + 1]:
        parts.append(chr(byte) if byte in _PLAIN else "?")
    kept = "".join(parts)
    if len(kept) <= _NAME:
        return kept
    return kept[: _NAME - 3] + "..."


_PLAIN = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+:@,"
)


def _read_order(control: int) -> bytes | None:
    """Read the order, which is preceded by its length in decimal and a line end;
    None if it is incomplete."""
    data = b""
    while True:
        more = os.read(control, 65536)
        data += more
        length, newline, rest = data.partition(b"\n")
        if newline and len(rest) >= int(length):
            return rest[: int(length)]
        if not more:
            return None


def main(
    control: int,
    reports: int,
    execute: Callable[[bytes, list[bytes], dict[bytes, bytes]], None] = os.execvpe,
) -> None:
    """Read the order and carry it out; never returns.

    Raises:
        Become: in the process of the program, where ``execute`` is ``become``.
    """
    program: Become | None = None
    try:
        os.set_inheritable(control, False)
        os.set_inheritable(reports, False)
        data = _read_order(control)
        if data is not None:
            order = SupervisedCommand(data)
            os.chdir("/")
            Supervisor(order, control, reports, execute).run()
    except Become as error:
        program = error
    finally:
        if program is None:
            # No buffers have to be flushed, and a slow exit would add to the user's
            # time.
            os._exit(0)
    raise program
