"""A child on one pipe: byte for byte, and stopped when it has to be. Plain Python
children, no torch."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from fusiondoc.runner.child import Child, Ending


def run_python(
    folder: Path, source: str, timeout: float = 30, log: Path | None = None
) -> Ending:
    return Child(
        [sys.executable, "-c", source],
        os.environ,
        folder,
        log or folder / "log",
        timeout,
    ).run()


def wait_until_gone(pid: int) -> bool:
    """Whether the process ends within a few seconds (a zombie has ended)."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = (
                Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            )
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_the_log_is_what_was_written(tmp_path: Path) -> None:
    ending = run_python(
        tmp_path,
        "import os\n"
        "os.write(1, b'\\xff\\x00 not text\\r\\n'); os.write(2, b'second')\n"
        "os.write(1, b'\\nno newline at the end')",
    )
    assert (
        tmp_path / "log"
    ).read_bytes() == b"\xff\x00 not text\r\nsecond\nno newline at the end"
    assert (
        ending.exit_status,
        ending.signal,
        ending.timed_out,
        ending.interrupted,
    ) == (
        0,
        None,
        False,
        False,
    )
    assert ending.log_bytes == (tmp_path / "log").stat().st_size


def test_a_lot_of_output_is_all_kept(tmp_path: Path) -> None:
    ending = run_python(
        tmp_path,
        "import os\nfor n in range(3000): os.write(1 + n % 2, b'%08d' % n * 1000)",
    )
    data = (tmp_path / "log").read_bytes()
    assert len(data) == ending.log_bytes == 3000 * 8000
    assert data == b"".join(b"%08d" % n * 1000 for n in range(3000))


def test_exit_status_and_signal_are_told(tmp_path: Path) -> None:
    assert run_python(tmp_path, "import sys; sys.exit(7)").exit_status == 7
    ending = run_python(
        tmp_path,
        "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGSEGV)",
    )
    assert (ending.exit_status, ending.signal) == (None, "SIGSEGV")


def test_a_timeout_stops_the_child_and_what_it_started(tmp_path: Path) -> None:
    ending = run_python(
        tmp_path,
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(p.pid, flush=True); time.sleep(60)",
        timeout=1.5,
    )
    assert ending.timed_out and ending.signal == "SIGTERM"
    assert wait_until_gone(int((tmp_path / "log").read_text()))


def test_a_child_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    ending = run_python(
        tmp_path,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True: print('still here', flush=True); time.sleep(0.05)",
        timeout=1,
    )
    assert ending.timed_out and ending.signal == "SIGKILL"
    assert 1 < ending.seconds < 8


def test_a_child_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    ending = run_python(
        tmp_path,
        "import os, time, sys\nos.close(1); os.close(2); time.sleep(0.7); os._exit(5)",
    )
    assert ending.exit_status == 5 and ending.seconds >= 0.7


def test_a_full_disk_stops_the_child(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    ending = run_python(
        tmp_path,
        "import time\nprint('x' * 100, flush=True)\ntime.sleep(60)",
        log=Path("/dev/full"),
    )
    assert ending.log_error is not None and ending.log_error.errno == 28
    assert ending.seconds < 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_is_passed_on_and_the_rest_is_kept(
    tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "log"
    before = signal.getsignal(
        number
    )  # ignored, if the tests were started in the background of a shell

    def interrupt() -> None:
        while not log.exists() or b"ready" not in log.read_bytes():
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    ending = run_python(
        tmp_path,
        "import time\nprint('ready', flush=True)\n"
        "try: time.sleep(60)\nexcept KeyboardInterrupt: print('cleaned up', flush=True)",
    )
    thread.join()
    assert ending.interrupted and not ending.timed_out
    assert log.read_text() == "ready\ncleaned up\n"
    assert signal.getsignal(number) == before
