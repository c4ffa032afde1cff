"""``fusiondoc diagnose`` as a process: what it adds to a run by hand, its progress
bar, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import warm_torch
from running import records_of, uses_forks, write

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.store import CaptureStore

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "bias_gelu.py"


def environment(cache: Path) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTORCH_", "FUSIONDOC_"))
    }
    return {**own, "PYTHONPATH": str(ROOT), "FUSIONDOC_CACHE": str(cache)}


def diagnose(*arguments: str) -> list[str]:
    return [*warm_torch.command(), "diagnose", *arguments]


OWN_SECONDS = """
import resource, sys
from fusiondoc.cli import main
try:
    main(sys.argv[1:])
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print("used", used.ru_utime + used.ru_stime, file=sys.stderr)
"""
"""The command line, and then the CPU seconds that this process took without its
children."""


def finished(
    command: list[str], folder: Path, cache: Path
) -> tuple[float, dict[str, Any], str]:
    """Seconds that a run of ``diagnose`` took, what its capture says of them, and
    its stderr."""
    began = time.perf_counter()
    done = subprocess.run(
        command, env=environment(cache), cwd=folder, capture_output=True, check=True
    )
    took = time.perf_counter() - began
    result = json.loads(
        (CaptureStore(folder).list()[0].path / "result.json").read_text()
    )
    assert (
        json.loads(done.stdout)["timing"]["overhead"]
        == result["seconds"]["overhead"]
        > 0
    )
    return took, result["seconds"], done.stderr.decode()


def test_it_adds_little_work_and_says_no_more_than_there_was(
    tmp_path: Path, cache: Path
) -> None:
    """In CPU time, which other programs on this machine do not add to."""
    command = [
        sys.executable,
        "-c",
        uses_forks() + OWN_SECONDS,
        "diagnose",
        str(EXAMPLE),
        "--format",
        "json",
    ]
    took, said, stderr = finished(command, tmp_path, cache)
    used = re.search(r"^used (.*)$", stderr, re.MULTILINE)
    assert used is not None and float(used.group(1)) < 1.5
    assert said["startup"] + said["first_look"] + said["child"] <= took


def test_what_the_shell_did_before_is_not_counted(
    tmp_path: Path, cache: Path
) -> None:
    """A shell runs its last command in its own process, whose start is that of all
    that it ran."""
    line = "sleep 2; exec " + shlex.join(diagnose(str(EXAMPLE), "--format", "json"))
    took, said, _ = finished(["sh", "-c", line], tmp_path, cache)
    assert said["startup"] + said["first_look"] + said["child"] <= took - 2


def start(
    folder: Path, cache: Path, stderr: int, target: str = "user.py"
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        diagnose(target), env={**environment(cache), "TERM": "xterm", "COLUMNS": "100"}, cwd=folder,
        stdout=subprocess.PIPE, stderr=stderr,
    )  # fmt: skip


def read_all(descriptor: int) -> bytes:
    data = b""
    while True:
        try:
            more = os.read(descriptor, 65536)
        except (
            OSError
        ):  # Linux's way to say that the other side of a terminal is closed
            return data
        if not more:
            return data
        data += more


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, cache: Path) -> None:
    source = (
        "import time, torch\n\ndef inputs():\n    time.sleep(0.4)\n    return (torch.ones(4),)\n\n"
        "def model(x):\n    return (x + 1).relu()\n"
    )
    write(tmp_path, "user.py", source)
    ours, theirs = pty.openpty()
    process = start(tmp_path, cache, theirs)
    os.close(theirs)
    shown = read_all(ours).decode()
    report, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (
        "starting torch" in shown
        and "user.py under nnc: forward" in shown
        and "3/5" in shown
    )
    assert b"starting torch" not in report

    process = start(tmp_path, cache, subprocess.PIPE)
    report, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"starting torch" not in said + report and b"3/5" not in said


def test_ctrl_c_stops_the_child_keeps_the_capture_and_exits_with_130(
    tmp_path: Path, cache: Path
) -> None:
    source = (
        "import time, torch\n\ncount = 0\n\ndef inputs():\n    global count\n    count += 1\n"
        "    time.sleep(600 if count == 4 else 0)\n    return (torch.ones(4),)\n\n"
        "def model(x):\n    return (x + 1).relu()\n"
    )
    write(tmp_path, "user.py", source)
    process = start(tmp_path, cache, subprocess.PIPE)
    deadline = time.monotonic() + 60
    capture: Capture | None = None
    while time.monotonic() < deadline and capture is None:
        time.sleep(0.1)
        for one in CaptureStore(tmp_path).list():
            if len(records_of(one, "iteration")) >= 3:
                capture = one
    assert capture is not None
    process.send_signal(signal.SIGINT)
    report, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in said and b"interrupted" in said
    assert b"TensorExprGroup" in report
    assert capture.result.interrupted is True
