"""``fusiondoc diagnose`` as a process: what it adds to a run by hand, its progress bar, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import write

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.store import CaptureStore

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "bias_gelu.py"

BY_HAND = """
import sys
sys.path.insert(0, {folder!r})
import torch
torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
from bias_gelu import model, inputs
scripted = torch.jit.script(model)
with torch.no_grad():
    for _ in range(5):
        scripted(*inputs)
"""


def environment(folder: Path) -> dict[str, str]:
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "FUSIONDOC_"))
    }
    return {**own, "PYTHONPATH": str(ROOT), "FUSIONDOC_CACHE": str(folder / "cache")}


def diagnose(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fusiondoc", "diagnose", *arguments]


def test_it_adds_less_than_half_a_second(tmp_path: Path) -> None:
    """Against the same model, the same variables and a log in a file; the better of three, alternating."""
    variables = {"PYTORCH_JIT_LOG_LEVEL": "profiling_graph_executor_impl:>>tensorexpr_fuser"}
    hand = [sys.executable, "-c", BY_HAND.format(folder=str(EXAMPLE.parent))]
    told = diagnose(str(EXAMPLE), "--format", "json")
    seconds: dict[str, list[float]] = {"hand": [], "told": []}
    for _ in range(4):
        for name, command, extra in (("hand", hand, variables), ("told", told, {})):
            with (tmp_path / name).open("wb") as log:
                began = time.perf_counter()
                subprocess.run(
                    command, env={**environment(tmp_path), **extra}, cwd=tmp_path, stdout=log, check=True,
                    stderr=log if name == "hand" else subprocess.DEVNULL,
                )  # fmt: skip
                seconds[name].append(time.perf_counter() - began)
    # The first look at the interpreter is in the first run only.
    added = min(seconds["told"][1:]) - min(seconds["hand"][1:])
    assert added < 0.5
    timing = json.loads((tmp_path / "told").read_text())["timing"]
    assert 0 < timing["overhead"] < 0.5
    # What it says of itself is not less than what was measured, but for printing the report and noise.
    assert added - (timing["overhead"] + timing["parse"]) < 0.3


def test_what_the_shell_did_before_is_not_counted(tmp_path: Path) -> None:
    """A shell runs its last command in its own process, whose start is that of all that it ran."""
    line = "sleep 2; exec " + shlex.join(diagnose(str(EXAMPLE), "--format", "json"))
    done = subprocess.run(["sh", "-c", line], env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE)
    assert 0 < json.loads(done.stdout)["timing"]["overhead"] < 1.5


def start(folder: Path, stderr: int, target: str = "user.py") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        diagnose(target), env={**environment(folder), "TERM": "xterm", "COLUMNS": "100"}, cwd=folder,
        stdout=subprocess.PIPE, stderr=stderr,
    )  # fmt: skip


def read_all(descriptor: int) -> bytes:
    data = b""
    while True:
        try:
            more = os.read(descriptor, 65536)
        except OSError:  # Linux's way to say that the other side of a terminal is closed
            return data
        if not more:
            return data
        data += more


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    source = (
        "import time, torch\n\ndef inputs():\n    time.sleep(0.4)\n    return (torch.ones(4),)\n\n"
        "def model(x):\n    return (x + 1).relu()\n"
    )
    write(tmp_path, "user.py", source)
    ours, theirs = pty.openpty()
    process = start(tmp_path, theirs)
    os.close(theirs)
    shown = read_all(ours).decode()
    report, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "starting torch" in shown and "user.py under nnc: forward" in shown and "3/5" in shown
    assert b"starting torch" not in report

    process = start(tmp_path, subprocess.PIPE)
    report, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"starting torch" not in said + report and b"3/5" not in said


def test_ctrl_c_stops_the_child_keeps_the_capture_and_exits_with_130(tmp_path: Path) -> None:
    source = (
        "import time, torch\n\ncount = 0\n\ndef inputs():\n    global count\n    count += 1\n"
        "    time.sleep(600 if count == 4 else 0)\n    return (torch.ones(4),)\n\n"
        "def model(x):\n    return (x + 1).relu()\n"
    )
    write(tmp_path, "user.py", source)
    process = start(tmp_path, subprocess.PIPE)
    deadline = time.monotonic() + 60
    capture: Capture | None = None
    while time.monotonic() < deadline and capture is None:
        time.sleep(0.1)
        for one in CaptureStore(tmp_path).list():
            if sum(record["record"] == "iteration" for record in one.records()) >= 3:
                capture = one
    assert capture is not None
    process.send_signal(signal.SIGINT)
    report, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in said and b"interrupted" in said
    assert b"TensorExprGroup" in report
    assert capture.result["interrupted"] is True
