"""What a program starts is ended with it and told: daemons, forks, sessions of
their own; whatever ends the program, and if fusiondoc itself is killed. Plain
Python children, no torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from test_run_child import wait_until_gone

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import LeftRunning, read_records
from fusiondoc.runner import child
from fusiondoc.runner.child import Child, Ending
from fusiondoc.workflows.load import report_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="subreapers are Linux's"
)

ROOT = Path(__file__).resolve().parent.parent

STARTS = """
import os, signal, subprocess, sys, time

def note(name, pid):
    with open("pids", "a") as file:
        file.write(f"{name} {pid}\\n")

def sleeper(*more, **options):
    started = subprocess.Popen([sys.executable, "-S", "worker.py", "--token=s3cr3t", *more], **options)
    note("sleeper", started.pid)

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note("daemon", os.getpid())
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            time.sleep(60)
        os._exit(0)
    os.wait()
    until = time.monotonic() + 10
    while not (os.path.exists("pids") and "daemon" in open("pids").read()) and time.monotonic() < until:
        time.sleep(0.01)
"""
"""Ways to leave something running."""

WORKER = """
import signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
open("ready", "w").close()
time.sleep(60)
"""

READY = "\nwhile not os.path.exists('ready'): time.sleep(0.01)\n"


def run(
    folder: Path, source: str, timeout: float = 30
) -> tuple[Ending, LeftRunning | None, dict[str, int]]:
    """The end of a program, what the records say of its processes, and their
    numbers."""
    (folder / "worker.py").write_text(WORKER)
    (folder / "user.py").write_text(STARTS + source)
    records = folder / "records.jsonl"
    command = [sys.executable, "-S", "user.py"]
    ending = Child(
        command, os.environ, folder, folder / "log", timeout, records
    ).run()
    data = records.read_bytes() if records.exists() else b""
    return ending, read_records(data).left, pids(folder)


def pids(folder: Path) -> dict[str, int]:
    file = folder / "pids"
    rows = (
        [line.split() for line in file.read_text().splitlines()]
        if file.exists()
        else []
    )
    return {name: int(number) for name, number in rows}


def test_a_daemon_in_a_session_of_its_own_is_ended_and_told(tmp_path: Path) -> None:
    ending, left, started = run(tmp_path, "daemon()\nprint('done')")
    assert (ending.exit_status, (tmp_path / "log").read_text()) == (0, "done\n")
    assert left is not None and dict(left.names) == {"a fork of the program": 1}
    assert (
        left.in_words
        == "1 process that the program had started: a fork of the program"
    )
    assert wait_until_gone(started["daemon"])


@pytest.mark.parametrize(
    ("last", "status", "signal_name"),
    [
        ("", 0, None),
        ("os._exit(7)", 7, None),
        ("os.abort()", None, "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGKILL)", None, "SIGKILL"),
    ],
)
def test_workers_are_ended_after_any_end(
    tmp_path: Path, last: str, status: int | None, signal_name: str | None
) -> None:
    ending, left, started = run(
        tmp_path, "sleeper(start_new_session=True)" + READY + last
    )
    assert (ending.exit_status, ending.signal) == (status, signal_name)
    assert left is not None and list(left.names.values()) == [1]
    (name,) = left.names
    # The file that runs, and no argument: there may be a password among them.
    assert name.startswith("python") and name.endswith(" worker.py")
    assert wait_until_gone(started["sleeper"])


def test_one_that_ignores_the_polite_signal_or_is_stopped_is_ended_too(
    tmp_path: Path,
) -> None:
    source = (
        "sleeper('deaf')"
        + READY
        + "os.kill(int(open('pids').read().split()[1]), signal.SIGSTOP)"
    )
    _, left, started = run(tmp_path, source)
    assert left is not None and left.count == 1 and left.still_running == 0
    assert wait_until_gone(started["sleeper"])


def test_workers_that_end_by_themselves_are_neither_ended_nor_told(
    tmp_path: Path,
) -> None:
    ending, left, _ = run(
        tmp_path,
        "parent = os.getpid()\n"
        "if os.fork() == 0:\n    while os.getppid() == parent: time.sleep(0.01)\n"
        "    print('last words', flush=True)\n    os._exit(0)\n"
        "print('done', flush=True)",
    )
    assert left is None and not (tmp_path / "records.jsonl").exists()
    assert ending.exit_status == 0
    assert (tmp_path / "log").read_text() == "done\nlast words\n"


def test_orphans_that_have_ended_leave_no_zombie(tmp_path: Path) -> None:
    """The program asks for the state of its orphan: the supervisor has taken its
    status long since."""
    _, left, _ = run(
        tmp_path,
        "if os.fork() == 0:\n    if os.fork() == 0:\n        note('orphan', os.getpid())\n    os._exit(0)\n"
        "os.wait()\ntime.sleep(0.2)\n"
        "print(os.path.exists('/proc/' + open('pids').read().split()[1]))",
    )
    assert (tmp_path / "log").read_text() == "False\n"
    assert left is None


def test_processes_of_the_user_are_not_touched(tmp_path: Path) -> None:
    """``fusiondoc.diagnose`` runs in the user's process, which may have children of
    its own."""
    mine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        run(tmp_path, "daemon()")
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


def test_a_timeout_ends_the_daemons_too(tmp_path: Path) -> None:
    ending, left, started = run(tmp_path, "daemon()\ntime.sleep(60)", timeout=1.5)
    assert ending.timed_out and ending.signal == "SIGTERM"
    assert left is not None and wait_until_gone(started["daemon"])


def test_a_program_that_stops_itself_is_ended_at_its_timeout(
    tmp_path: Path,
) -> None:
    ending, _, _ = run(tmp_path, "os.kill(os.getpid(), signal.SIGSTOP)", timeout=1)
    assert ending.timed_out and (ending.signal, ending.stopped) == (
        "SIGTERM",
        "SIGSTOP",
    )


def test_without_a_subreaper_the_process_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: who is in the group is not known, so no name and no number is
    told."""
    monkeypatch.setattr(
        child, "_START", "import sys; sys.platform = 'other'; " + child._START
    )
    ending, left, started = run(tmp_path, "sleeper('deaf')" + READY)
    assert ending.exit_status == 0
    assert (
        left is not None
        and left.in_words == "processes that the program had started"
    )
    assert wait_until_gone(started["sleeper"])


def test_what_a_second_interruption_does(tmp_path: Path) -> None:
    """The first one lets a program end in its own way; the second one ends it and
    all else at once."""

    def interrupt() -> None:
        for ready in ("ready", "asked"):
            while not (tmp_path / ready).exists():
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    ending, _, started = run(
        tmp_path,
        "signal.signal(signal.SIGINT, lambda *_: open('asked', 'w').close())\n"
        "sleeper('deaf', start_new_session=True)\nwhile True: time.sleep(1)",
    )
    thread.join()
    assert ending.interrupted and ending.signal == "SIGKILL"
    assert wait_until_gone(started["sleeper"])


DRIVER = """
import os, sys
from pathlib import Path
from fusiondoc.runner.child import Child
folder = Path.cwd()
Child([sys.executable, "user.py"], os.environ, folder, folder / "log", 60, folder / "records.jsonl").run()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_everything_ends_when_fusiondoc_is_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    last = "note('program', os.getpid()); daemon(); sleeper('deaf', start_new_session=True); time.sleep(60)"
    (tmp_path / "user.py").write_text(STARTS + last)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    fusiondoc = subprocess.Popen(
        [sys.executable, "-c", DRIVER], env=environment, cwd=tmp_path
    )
    until = time.monotonic() + 20
    while not (tmp_path / "ready").exists() and time.monotonic() < until:
        time.sleep(0.02)
    fusiondoc.send_signal(number)
    fusiondoc.wait()
    started = pids(tmp_path)
    assert set(started) == {"program", "daemon", "sleeper"}
    assert all(map(wait_until_gone, started.values()))
    while (
        not (tmp_path / "records.jsonl").exists() and time.monotonic() < until + 10
    ):
        time.sleep(0.02)
    told = read_records((tmp_path / "records.jsonl").read_bytes()).left
    assert told is not None and told.fusiondoc_gone and told.count == 2


def test_what_is_told_of_a_process_holds_no_argument(tmp_path: Path) -> None:
    """Only the program, and a file or module that an interpreter runs."""
    commands = [
        ["bash", "-c", "sleep 60; echo password"],
        ["sleep", "60"],
        [sys.executable, "-S", "-c", "import time; time.sleep(60)", "password"],
        [
            sys.executable,
            "-S",
            "-m",
            "timeit",
            "-n1",
            "-s",
            "password=1",
            "__import__('time').sleep(60)",
        ],
    ]
    source = (
        "".join(f"subprocess.Popen({command!r})\n" for command in commands)
        + "time.sleep(0.3)"
    )
    _, left, _ = run(tmp_path, source)
    assert left is not None
    told = json.dumps(dict(left.names))
    assert (
        "password" not in told
        and " -m timeit" in told
        and "bash -c" in told
        and "sleep" in left.names
    )


def test_what_further_runs_left_is_told_in_the_report(tmp_path: Path) -> None:
    told = {"record": "left", "names": {"python worker.py": 2}, "still_running": 1}
    for folder in ("", "rerun", "tries/1-x", "kernels"):
        path = tmp_path / "capture" / folder
        path.mkdir(parents=True)
        (path / "request.json").write_text('{"schema": "fusiondoc.capture/1"}')
        (path / "log").write_text("x\n")
        if folder in ("rerun", "tries/1-x"):
            (path / "records.jsonl").write_text(json.dumps(told) + "\n")
    (tmp_path / "capture" / "timing").mkdir()  # no capture: it is left out
    (found,) = [
        one.message
        for one in report_of(Capture(tmp_path / "capture")).findings
        if one.code == "FD908"
    ]
    assert found.endswith(
        "ended 4 processes that the program had started: python worker.py (4); 2 could not be ended"
    )
