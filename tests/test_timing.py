"""``diagnose --time``: real passes on the CPU under oneDNN Graph, which compiles;
and where no speed is reported."""

from __future__ import annotations

import json
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run, runs_in_this_process
from running import python_apart, write
from valid_json import validate

from fusiondoc.runner.launch import quiet_environment
from fusiondoc.workflows import follow_ups

pytestmark = pytest.mark.torch
one_run = pytest.mark.xdist_group("timing")
"""Tests that share the run ``timed``: in one worker, so that it is made once."""

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())

NET = """
    import os
    import time

    import torch

    torch.set_num_threads(1)  # Threads of several tests on few cores wait for one another.

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Conv2d(4, 8, 3)

        def forward(self, x):
            if not torch.jit.is_scripting():
                with open("eager", "a") as file:
                    file.write("%s %s\\n" % (os.environ.get("PYTORCH_JIT_LOG_LEVEL"), os.environ.get("MARK")))
                time.sleep(0.005)
            return torch.relu(self.a(x)) + 1.0

    model = Net().eval()
    inputs = (torch.randn(2, 4, 16, 16),)
    scripted = torch.jit.script(Net().eval())
"""
"""Sleeps in eager code alone, so that it must come out slower, by what is known."""


def diagnose(
    fusiondoc: Run, folder: Path, *arguments: object, **kwargs: Any
) -> tuple[dict[str, Any], str]:
    done = fusiondoc(
        "diagnose", *arguments, "--time", "--format", "json", cwd=folder, **kwargs
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    validate(report, SCHEMA)
    return report, done.stderr


@dataclass(frozen=True)
class Timed:
    """A run of ``--time``: its folder, report and stderr."""

    folder: Path
    report: dict[str, Any]
    said: str

    @property
    def capture(self) -> Path:
        (path,) = (self.folder / ".fusiondoc").glob("*-net")
        return path


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Timed:
    """Two shapes under oneDNN Graph, where the user has set what would slow it
    down."""
    folder = tmp_path_factory.mktemp("timed")
    write(
        folder,
        "net.py",
        NET + "    inputs = [inputs, (torch.randn(3, 4, 16, 16),)]\n",
    )
    own = {
        "PYTORCH_JIT_LOG_LEVEL": "graph_executor",
        "CUDA_LAUNCH_BLOCKING": "1",
        "MARK": "kept",
    }
    run = runs_in_this_process(folder, cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow_ups, "_SECOND_WITHIN", float("inf"))
        return Timed(
            folder, *diagnose(run, folder, "net.py", "--fuser", "onednn", env=own)
        )


@one_run
def test_eager_against_fused(timed: Timed) -> None:
    rows = timed.report["speed"]
    assert [(row["inputs"], row["way"], row["phase"]) for row in rows] == [
        (0, "eager", "forward"),
        (0, "fused", "forward"),
        (1, "eager", "forward"),
        (1, "fused", "forward"),
    ]
    for row in rows:
        assert row["ms"]["min"] <= row["ms"]["median"] <= row["ms"]["max"]
        assert row["passes"] >= 45 and len(row["warmup_ms"]) >= 5
        assert row["first_ms"] == row["warmup_ms"][0]
        assert row["memory_bytes"] is None  # no GPU
    # Eager sleeps 5 ms a pass, on any machine; how long the rest takes is the
    # machine's.
    assert all(row["ms"]["min"] >= 5 for row in rows if row["way"] == "eager")
    assert all((row["ratio"] is None) == (row["way"] == "eager") for row in rows)
    for eager, fused in zip(rows[::2], rows[1::2]):
        found = fused["ratio"]
        assert 0 < found["low"] <= found["value"] <= found["high"]
        ways = [row["ms"] for row in (eager, fused)]
        least, most = (
            ways[0]["min"] / ways[1]["max"],
            ways[0]["max"] / ways[1]["min"],
        )
        assert least <= found["value"] <= most, (
            "the speed is of eager's time to that of the fused way"
        )
    # Every eager pass wrote a line: those of the warm-up, those that were counted,
    # and one before each round.
    processes = [
        _eager_rows(timed.capture / name) for name in ("timing", "timing-again")
    ]
    assert [len(row["rounds"]) for row in processes[0]] == [8, 8], (
        "two processes share the rounds"
    )
    assert [len(row["rounds"]) for row in processes[1]] == [7, 7]
    own = [row for one in processes for row in one]
    counted = sum(
        row["passes"] + len(row["warmup_ms"]) + len(row["rounds"]) for row in own
    )
    assert len((timed.folder / "eager").read_text().splitlines()) == counted
    assert [row["passes"] for row in rows[::2]] == [
        one["passes"] + two["passes"] for one, two in zip(*processes)
    ]
    every = [sorted(one["rounds"] + two["rounds"]) for one, two in zip(*processes)]
    assert [row["ms"] for row in rows[::2]] == [
        {"min": one[0], "median": one[7], "max": one[-1]} for one in every
    ]
    note = timed.report["speed_note"]
    assert (
        timed.report["groups"]
        and "two processes" in note
        and "eager is Python" in note
    )


def _eager_rows(capture: Path) -> list[dict[str, Any]]:
    """What a timed process wrote of eager, a row for each shape."""
    records = map(json.loads, (capture / "records.jsonl").read_text().splitlines())
    return [
        one for one in records if one["record"] == "speed" and one["way"] == "eager"
    ]


@one_run
def test_where_the_time_goes(timed: Timed) -> None:
    """A live profile of the same run: the one group under oneDNN Graph."""
    steps = timed.report["steps"]
    assert sum(part["ms"] for part in steps["parts"]) == pytest.approx(
        steps["ms"], rel=1e-3
    )
    groups = next(part for part in steps["parts"] if part["what"] == "groups")
    (time,) = [
        row["time"] for row in timed.report["groups"] if row["specialisation"] == 1
    ]
    assert (
        time["ms"] == pytest.approx(groups["ms"], rel=1e-3)
        and steps["unmatched_ms"] == 0
    )
    assert (
        steps["device_ms"] is None
        and steps["unprofiled_ms"] > 0
        and steps["gb_per_s"] > 0
    )
    assert b"[DUMP" not in (timed.capture / "profile" / "log").read_bytes()


@one_run
def test_the_timed_process_logs_nothing(timed: Timed) -> None:
    assert b"[DUMP" in (timed.capture / "log").read_bytes()
    assert b"[DUMP" not in (timed.capture / "timing" / "log").read_bytes()
    assert set((timed.folder / "eager").read_text().splitlines()) == {"None kept"}
    request = json.loads((timed.capture / "timing" / "request.json").read_text())
    assert request["environment_set"] == {}
    assert request["dropped"] == ["PYTORCH_JIT_LOG_LEVEL", "CUDA_LAUNCH_BLOCKING"]
    assert "PYTORCH_JIT_LOG_LEVEL, CUDA_LAUNCH_BLOCKING" in timed.said
    assert "CUDA_LAUNCH_BLOCKING" in timed.report["speed_note"]


@one_run
def test_the_report_can_be_made_again(
    fusiondoc: Run, tmp_path: Path, timed: Timed
) -> None:
    capture = tmp_path / "capture"
    shutil.copytree(timed.capture, capture)
    again = json.loads(fusiondoc("parse", capture, "--format", "json").stdout)
    assert (
        again["speed"] == timed.report["speed"]
        and again["speed_note"] == timed.report["speed_note"]
    )
    shown = fusiondoc("parse", capture).stdout
    assert "× as fast" in shown and "warm-up, forward" in shown
    # Without its second process the first is there, and says so.
    shutil.rmtree(capture / "timing-again")
    alone = json.loads(fusiondoc("parse", capture, "--format", "json").stdout)
    assert [row["passes"] for row in alone["speed"][::2]] == [
        row["passes"] for row in _eager_rows(capture / "timing")
    ]
    assert "timed in a process without logs" in alone["speed_note"]
    damaged = (
        (capture / "timing" / "records.jsonl").read_text().replace('"ms"', '"mm"')
    )
    (capture / "timing" / "records.jsonl").write_text(damaged)
    assert (
        json.loads(fusiondoc("parse", capture, "--format", "json").stdout)["speed"]
        == []
    )


@pytest.mark.nightly
def test_torchscript_without_its_python_code_is_timed_unoptimised(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "net.py", NET)
    report, _ = diagnose(
        fusiondoc, tmp_path, "net.py:scripted", "--fuser", "onednn"
    )
    assert {row["way"] for row in report["speed"]} == {"eager", "fused"}
    assert "eager is TorchScript without optimisation" in report["speed_note"]
    assert not (tmp_path / "eager").exists()


@pytest.mark.nightly
def test_forward_and_a_whole_step_of_what_has_no_group(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Without a fuser nothing is interpreted, so that times mean something on any
    CPU."""
    write(
        tmp_path,
        "square.py",
        """
        import torch

        def model(x):
            return (x * x).sum()

        inputs = (torch.randn(64, 64, requires_grad=True),)
        """,
    )
    report, _ = diagnose(
        fusiondoc, tmp_path, "square.py", "--fuser", "none", "--backward"
    )
    assert [(row["way"], row["phase"]) for row in report["speed"]] == [
        ("eager", "forward"),
        ("scripted", "forward"),
        ("eager", "forward+backward"),
        ("scripted", "forward+backward"),
    ], "without a group nothing is called fused"
    assert all(row["ms"]["min"] > 0 for row in report["speed"])


def test_interpreted_nnc_has_no_speed(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "net.py",
        NET + "\n    def twice(x):\n        return (x + x).relu() * x\n",
    )
    report, said = diagnose(
        fusiondoc,
        tmp_path,
        "net.py:twice",
        "--fuser",
        "nnc",
        "--input",
        "float32[8,8]",
    )
    if report["environment"]["llvm"] != "False":
        pytest.skip("this torch compiles on the CPU")
    assert (
        report["speed"] == []
        and "no LLVM" in report["speed_note"]
        and "no LLVM" in said
    )
    (capture,) = (tmp_path / ".fusiondoc").glob("*-net*")
    assert not (capture / "timing").exists()
    # Where the time goes is told all the same, with what that is worth.
    assert (
        report["groups"][0]["time"]["share"] > 0.5
        and "no LLVM" in report["steps_note"]
    )


def test_a_script_has_no_speed(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "script.py", "print('hello')")
    report, _ = diagnose(fusiondoc, tmp_path, "script.py")
    assert (
        report["speed"] == []
        and "never reached TorchScript" in report["speed_note"]
    )
    assert report["steps"] is None and "shows no operator" in report["steps_note"]


@pytest.mark.nightly  # which steps the window keeps depends on the machine's speed
def test_where_the_time_of_a_script_goes(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        """
        import time

        import torch

        weight = torch.randn(8, 8, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for number in range(8):
            time.sleep(0.02)
            torch.tanh(weight @ weight).sum().backward()
            optimizer.step()
        """,
    )
    report, _ = diagnose(fusiondoc, tmp_path, "train.py", "--fuser", "none")
    steps = report["steps"]
    # Steps end with the optimizer's: of eight the last five bound four, and each
    # sleeps.
    assert steps["steps"] == 4 and steps["unprofiled_ms"] is None
    parts = {part["what"]: part["ms"] for part in steps["parts"]}
    assert parts["outside operators"] >= 20 and {
        "matmul",
        "optimizer",
        "gradients added up",
    } <= set(parts)


def test_without_time_the_report_says_that_it_exists(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "net.py", NET)
    done = fusiondoc(
        "diagnose", "net.py", "--fuser", "onednn", "--format", "json", cwd=tmp_path
    )
    report = json.loads(done.stdout)
    assert report["speed"] == [] and "--time" in report["speed_note"]
    assert not (tmp_path / "eager").exists()


def test_a_model_that_fails_when_timed(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "net.py",
        """
        import os
        import torch

        if not os.environ.get("PYTORCH_JIT_LOG_LEVEL"):
            raise RuntimeError("only with a log")

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Conv2d(4, 8, 3)

            def forward(self, x):
                return torch.relu(self.a(x)) + 1.0

        model = Net().eval()
        inputs = (torch.randn(2, 4, 16, 16),)
        """,
    )
    report, _ = diagnose(fusiondoc, tmp_path, "net.py", "--fuser", "onednn")
    assert (
        report["speed"] == []
        and "only with a log" in report["speed_note"]
        and report["groups"]
    )


def test_what_prints_or_waits_is_dropped() -> None:
    user = {
        "PYTORCH_NVFUSER_DUMP": "cuda_kernel",
        "ONEDNN_VERBOSE": "1",
        "PYTORCH_NVFUSER_DISABLE": "fma",
    }
    environment = quiet_environment(user)
    assert environment.child(user) == {"PYTORCH_NVFUSER_DISABLE": "fma"}
    assert environment.dropped == ("PYTORCH_NVFUSER_DUMP", "ONEDNN_VERBOSE")


@pytest.mark.cold
def test_the_profiler_does_not_import_torchs_compiler() -> None:
    code = f"""
        import sys, torch
        sys.path.insert(0, {str(ROOT)!r})
        from fusiondoc.probe.step_profile import profiling
        with profiling(torch, cuda=False) as run:
            torch.ones(2) + 1
        print([one.name for one in run.events()], "torch._inductor" in sys.modules)
        print("_inductor" in getattr(torch, "_lazy_modules", ["_inductor"]))
    """
    done = python_apart(code=textwrap.dedent(code))
    assert (
        done.stdout.endswith("] False\nTrue\n") and "'aten::add'" in done.stdout
    ), done.stdout + done.stderr
