"""Runs that start as forks of a process which has imported torch: they see what a
new process sees."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from running import log_of, run_target, write

from fusiondoc.runner import child
from fusiondoc.runner.fork_servers import ForkServers
from fusiondoc.runner.supervisor_order import SupervisorOrder

pytestmark = [
    pytest.mark.torch,
    pytest.mark.cold,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="forks are for Linux"
    ),
]

PROGRAM = """\
import json, os, random, signal, sys, threading, traceback
import torch

facts = {
    "modules": "torch" in sys.modules,
    "arguments": sys.argv,
    "path": sys.path[0],
    "frames": [frame.filename for frame in traceback.extract_stack()],
    "signals": [str(signal.getsignal(number)) for number in (2, 13, 15, 17)],
    "wakeup": signal.set_wakeup_fd(-1),
    "leader": os.getpid() == os.getsid(0),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "threads": threading.active_count(),
    "environment": dict(os.environ),
    "folder": os.getcwd(),
}
drawn = [random.random(), torch.rand(1).item()]
if "numpy" in sys.modules:
    drawn.append(sys.modules["numpy"].random.rand())
print(json.dumps({"facts": facts, "drawn": drawn}))


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x + 1) * x


inputs = (torch.ones(8),)
"""


IN_PLACE = """\
import torch


def model(x: torch.Tensor) -> torch.Tensor:
    x = x * 2.0
    h = x.add_(1.0)
    return torch.tanh(h)


inputs = (torch.ones(8),)
"""


@pytest.fixture
def servers() -> Iterator[ForkServers]:
    made = ForkServers()
    child.set_other_start(made.start)
    yield made
    child.set_other_start(None)
    made.close()


def printed(log: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        next(line for line in log.splitlines() if '{"facts"' in line)
    )
    return found


def test_a_fork_sees_what_a_new_process_sees(
    servers: ForkServers, tmp_path: Path
) -> None:
    """A server that is gone leaves the run to that process."""
    write(tmp_path, "m.py", PROGRAM)
    first, failed = run_target(tmp_path, "m.py", fuser="nnc")
    second, failed_too = run_target(tmp_path, "m.py", fuser="nnc")
    assert (failed, failed_too) == (None, None)
    (server,) = servers.running
    os.kill(server, signal.SIGKILL)
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    new, failed_without = run_target(tmp_path, "m.py", fuser="nnc")
    assert failed_without is None and servers.running == ()
    forked, again, fresh = (
        printed(log_of(capture)) for capture in (first, second, new)
    )
    assert forked["facts"] == fresh["facts"]
    draws = zip(forked["drawn"], again["drawn"], fresh["drawn"])
    assert [len(set(values)) for values in draws] == [3] * len(forked["drawn"])
    kinds = [
        [record.get("record") for record in map(json.loads, lines(capture))]
        for capture in (first, new)
    ]
    assert kinds[0] == kinds[1]


def lines(capture: object) -> list[str]:
    return (capture.path / "records.jsonl").read_text().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_another_environment_has_another_server_and_other_programs_have_none(
    servers: ForkServers, tmp_path: Path
) -> None:
    start = str(Path(child.__file__).parent.parent / "probe" / "__main__.py")
    control, reports = os.pipe()

    def started(command: list[str], environment: dict[str, str]) -> bool:
        records = tmp_path / "capture" / "records.jsonl"
        order = SupervisorOrder(command, environment, records, control, reports)
        found = servers.start(order)
        if found is not None:
            found[0].kill()
            found[0].wait(10)
            assert found[0].stdout is not None
            found[0].stdout.close()
        return found is not None

    base = {
        name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ
    }
    assert started([sys.executable, start, "s", "r"], base)
    assert started(
        [sys.executable, start, "s", "r"], {**base, "OMP_NUM_THREADS": "3"}
    )
    assert len(servers.running) == 2
    assert not started([sys.executable, "-m", "torch.distributed.run"], base)
    assert not started(
        [sys.executable, start, "s", "r"],
        {**base, "TORCH_TRACE": f"{tmp_path}/capture/t"},
    )
    no_torch = {**base, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "torch.py").write_text("raise ImportError('none here')\n")
    assert not started([sys.executable, start, "s", "r"], no_torch)
    assert len(servers.running) == 2
    os.close(control)
    os.close(reports)


def test_a_search_for_changes_starts_its_runs_as_forks(
    fusiondoc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "m.py", IN_PLACE)
    forks: list[bool] = []
    start = ForkServers.start

    def counted(servers: ForkServers, order: SupervisorOrder) -> object:
        started = start(servers, order)
        forks.append(started is not None)
        return started

    monkeypatch.setattr(ForkServers, "start", counted)
    result = fusiondoc("fix", "m.py", "--fuser", "nnc", "--no-time", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "h = x.add(1.0)" in result.stdout
    assert sum(forks) >= 2  # the unchanged program and at least one try
