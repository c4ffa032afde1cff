"""Processes that warm up while other runs go on, and are timed when those are
done."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest
from running import write

from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.model.bench import ROUNDS
from fusiondoc.runner.fork_servers import forks
from fusiondoc.workflows import bench_turns
from fusiondoc.workflows.speeds_in_turns import TimedAhead, speeds_in_turns

SLEEPS = """
    import time, torch


    def model(x):
        return torch.relu(x) * {factor} + 1.0


    inputs = (torch.randn(256, 256),)
"""


def request_of(folder: Path, factor: int) -> RunRequest:
    name = f"by_{factor}.py"
    write(folder, name, SLEEPS.format(factor=factor))
    return RunRequest(parse_target(name, folder), Path(sys.executable), cwd=folder)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return (
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )


@pytest.mark.torch
def test_what_died_is_started_again_and_what_nobody_wants_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of one program: one that warmed up, one that was killed, one that is no
    longer wanted."""
    monkeypatch.setattr(bench_turns, "PROCESSES", 1)
    first, second, third = (request_of(tmp_path, factor) for factor in (2, 3, 4))
    with forks(), contextlib.closing(TimedAhead(3)) as ahead:
        for one in (first, second, third):
            ahead.begin(one, "none")
        runs = [run for _, run in ahead._begun]
        ahead.end_others([first, second])
        assert [one for one, _ in ahead._begun] == [first, second]
        assert runs[1].child.has_warmed_up(), runs[1].child.why()
        os.killpg(os.getpgid(runs[1].child._pid or 0), signal.SIGKILL)
        runs[1].child._thread.join(10)
        _, ratio = speeds_in_turns([(first, "none"), (second, "none")], ahead)
        kept = [run for _, run in ahead._begun]
        assert kept[0] is runs[0] and kept[1] is not runs[1] and len(kept) == 2
        assert all(len(run.ms[0]) == ROUNDS for run in kept)
        # The same work: whoever warmed up beside others, none is much faster.
        assert ratio is not None and ratio.low < 1.3 and ratio.high > 0.7
    for run in runs:  # also the one that was ended before it had come up
        run.child._thread.join(20)
        assert not run.child._thread.is_alive()
        assert run.child._pid is None or gone(run.child._pid)


@pytest.mark.torch
def test_a_compiler_that_times_kernels_does_not_begin_beside_others(
    tmp_path: Path,
) -> None:
    with contextlib.closing(TimedAhead(3)) as ahead:
        ahead.begin(request_of(tmp_path, 2), "inductor")
        ahead.begin(request_of(tmp_path, 3), None)
        assert not ahead._begun
