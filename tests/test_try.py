"""``diagnose --try``: what the suggested changes do, on real torch."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Run
from rich.console import Group as Lines
from running import write
from timed_child import TimedChild

from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.diagnosis.suggested_settings import FREEZE, IN_PLACE_OFF, suggested
from fusiondoc.diagnosis.tries import effect
from fusiondoc.fuser_knobs.checks import check_knob
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import ChangeKind, PlannedChange, Try
from fusiondoc.model.codes import CODES
from fusiondoc.model.finding_code import MORE_RUNS, OTHER_FUSER, TRACE
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Setting
from fusiondoc.model.report import Unfused
from fusiondoc.model.source import Options
from fusiondoc.rendering.drawing import drawn
from fusiondoc.rendering.terminal_documents import sections
from fusiondoc.views.formatting import verdict_on_tries
from fusiondoc.views.report_checks import tried
from fusiondoc.workflows import bench_turns, follow_ups
from fusiondoc.workflows import speeds_in_turns as timed_in_turns
from fusiondoc.workflows.speeds_in_turns import TimedAhead, speeds_in_turns

NET = """
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            y = (x * 2.0 + 1.0).tanh()
            if x.size(0) > 3:
                y = y * 3.0 - 1.0
            return torch.softmax(y, -1) * 2.0 + y

    model = Net()
    inputs = (torch.randn(8, 16),)

    def numbers(x, scale: float):
        y = x * scale + 1.0
        if x.size(0) > 3:
            y = (y - 1.0).relu()
        return y
"""


def diagnose(
    fusiondoc: Run, folder: Path, *arguments: object
) -> tuple[dict[str, Any], str]:
    done = fusiondoc("diagnose", *arguments, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.torch
def test_each_change_is_run_and_measured(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "net.py", NET)
    report, said = diagnose(
        fusiondoc, tmp_path, "net.py", "--try", "--knob", "profiled_runs=1"
    )
    tries = {one["change"]: one for one in report["tries"]}
    assert next(iter(tries)) == "unchanged"
    assert set(tries) == {
        "unchanged",
        "nnc_reductions=on",
        "--trace",
        "--fuser onednn",
    }
    assert f"trying {len(tries) - 1} of {len(tries) - 1}" in said

    asked = tries["unchanged"]
    assert asked["groups"] == len(report["groups"]) == 3
    assert asked["ops_fused"] == report["coverage"]["ops_fused"]
    # What NNC and tracing can do here, by the words of torch: softmax is a
    # reduction, the branch depends on a size.
    assert tries["nnc_reductions=on"]["ops_fused"] == asked["ops_fused"] + 1
    assert (
        tries["--trace"]["groups"] == 2
        and tries["--trace"]["unfused"] < asked["unfused"]
    )
    assert all(
        one["exit"] == 0 and one["problem"] is None for one in tries.values()
    )
    # NNC has no LLVM in the wheels for the CPU; oneDNN Graph runs real kernels.
    assert (
        asked["steady_seconds"] is None
        and tries["--trace"]["steady_seconds"] is None
    )
    assert tries["--fuser onednn"]["steady_seconds"] > 0

    advice = [f["advice"] for f in report["findings"] if f["code"] == "FD211"]
    assert advice and all(
        "Tried nnc_reductions=on: 1 operator more fused" in text for text in advice
    )

    # The captures of the tries are inside that of the run, which stays the newest.
    (capture,) = [
        path for path in (tmp_path / ".fusiondoc").iterdir() if path.is_dir()
    ]
    assert len(list((capture / "tries").iterdir())) == len(tries) - 1
    again = json.loads(fusiondoc("parse", "--format", "json", cwd=tmp_path).stdout)
    assert (
        again["tries"] == report["tries"]
        and again["findings"] == report["findings"]
    )
    one = fusiondoc(
        "parse",
        capture / tries["--trace"]["capture"],
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert len(json.loads(one.stdout)["groups"]) == 2
    text = fusiondoc("parse", cwd=tmp_path).stdout
    assert (
        "Tried" in text
        and "nnc_reductions=on" in text
        and "no speed where NNC" in text
    )


@pytest.mark.torch
def test_more_runs_and_a_change_that_fails(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "net.py", NET)
    report, _ = diagnose(
        fusiondoc,
        tmp_path,
        "net.py:numbers",
        "--input",
        "float32[4,8]",
        "--input",
        "2.5",
        "--runs",
        1,
        "--try",
    )
    tries = {one["change"]: one for one in report["tries"]}
    assert tries["unchanged"]["groups"] == 0 < tries["--runs 2"]["groups"]
    (found,) = [f for f in report["findings"] if f["code"] == "FD101"]
    assert "0 groups become 2" in found["advice"]
    if "--trace" in tries:  # tracing takes tensors only
        assert (
            tries["--trace"]["exit"] == 3 and "float" in tries["--trace"]["problem"]
        )


@pytest.mark.torch
def test_nothing_to_try(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "small.py",
        "import torch\n\ndef f(x):\n    return (x * 2.0 + 1.0).relu()\n",
    )
    options = ("small.py:f", "--input", "float32[4]", "--runs", 3, "--try")
    report, said = diagnose(fusiondoc, tmp_path, *options)
    assert report["tries"] == [] and "no finding suggests a change" in said


def test_every_change_has_a_finding_and_a_knob_that_exists() -> None:
    named = {OTHER_FUSER, MORE_RUNS, TRACE}
    assert sum(bool(code.tries) for code in CODES.values()) > 20
    for code in CODES.values():
        for name in code.tries:
            if name not in named:
                knob, _, value = name.partition("=")
                check_knob(knob, value)


def row(**values: Any) -> Try:
    base: dict[str, Any] = {
        "change": "x",
        "codes": (),
        "groups": 3,
        "ops_fused": 10,
        "unfused": 4,
        "fallbacks": 1,
        "gb_per_s": None,
        "steady_seconds": 0.002,
        "exit": 0,
    }
    return Try(**{**base, **values})


def test_effects_in_words() -> None:
    assert effect(row(), row()) == "the same groups"
    assert effect(row(), row(groups=1)) == "3 groups become 1"
    assert (
        effect(row(groups=1), row(groups=2, ops_fused=9))
        == "1 group becomes 2, 1 operator fewer fused"
    )
    assert effect(row(), row(unfused=0)) == "0 instead of 4 not fused"
    assert effect(row(), row(fallbacks=0)) == "0 fallbacks instead of 1"
    assert effect(row(), row(steady_seconds=0.001)) == "the same groups", (
        "logged passes say nothing of speed"
    )
    twice, unsure = Ratio(2.0, 1.9, 2.1), Ratio(2.0, 0.9, 2.5)
    assert (
        effect(row(), row(groups=1, speed=twice))
        == "3 groups become 1, 2.00 times as fast"
    )
    assert (
        effect(row(), row(speed=unsure))
        == "the same groups, no difference in speed"
    )
    assert effect(row(), row(problem="no")) == "fails (no)"
    assert "agree" in effect(row(wrong=3), row(wrong=0)) and "still" in effect(
        row(wrong=3), row(wrong=3)
    )


@pytest.mark.torch
def test_what_was_tried_is_timed_in_turns_against_the_run_as_asked(
    tmp_path: Path,
) -> None:
    """The same program twice, and one that cannot be timed."""
    (tmp_path / "net.py").write_text(
        "import torch\ninputs = (torch.ones(4, 4),)\ndef model(x):\n    return torch.relu(x) + 1.0\n"
    )
    request = RunRequest(
        parse_target(str(tmp_path / "net.py")), Path(sys.executable), cwd=tmp_path
    )
    asked, same, other = speeds_in_turns(
        [(request, "none"), (request, "none"), (request, None)]
    )
    assert asked is None and other is None
    assert same is not None and same.low <= same.value <= same.high


@pytest.mark.torch
def test_processes_that_warmed_up_ahead_are_those_that_are_timed(
    tmp_path: Path,
) -> None:
    """And one that nobody times ends with the others."""
    (tmp_path / "net.py").write_text(
        "import torch\ninputs = (torch.ones(4, 4),)\ndef model(x):\n    return torch.relu(x) + 1.0\n"
    )
    target = parse_target(str(tmp_path / "net.py"))
    one, other, left = (
        RunRequest(target, Path(sys.executable), seed=seed, cwd=tmp_path)
        for seed in range(3)
    )
    with contextlib.closing(TimedAhead(3)) as ahead:
        for request in (one, one, other, left):
            ahead.begin(request, "none")
        begun = [run for _, run in ahead._begun]
        assert len(begun) == 3
        _, speed = speeds_in_turns([(one, "none"), (other, "none")], ahead)
        assert speed is not None and speed.low <= speed.value <= speed.high
        assert [bool(run.ms.get(0)) for run in begun] == [True, True, False]
        assert ahead.take(one) is None and ahead.take(other) is None
    assert not begun[2].child._thread.is_alive()


def test_what_warms_up_for_long_is_timed_again_in_the_same_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A short warm-up has two processes each time, which end; a long one a single
    process that goes on."""
    monkeypatch.setattr(timed_in_turns, "_TWICE_WITHIN", 1e-6)
    (tmp_path / "net.py").write_text(
        "import torch\ninputs = (torch.ones(4, 4),)\ndef model(x):\n    return torch.relu(x) + 1.0\n"
    )
    target = parse_target(str(tmp_path / "net.py"))
    one, other = (
        RunRequest(target, Path(sys.executable), seed=seed, cwd=tmp_path)
        for seed in range(2)
    )
    with contextlib.closing(TimedAhead(1)) as ahead:
        pids = []
        for _ in range(2):
            _, speed = speeds_in_turns([(one, "none"), (other, "none")], ahead)
            assert speed is not None and speed.low <= speed.value <= speed.high
            pids.append([run.child._pid for _, run in ahead._begun])
        kept = [run for _, run in ahead._begun]
        assert pids[0] == pids[1] and len(set(pids[0])) == 2
        assert all(len(run.processes(0)) == 1 for run in kept)
    assert not any(run.child.is_alive for run in kept)


def test_a_try_is_timed_in_two_processes_whose_difference_is_in_its_interval(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seconds of a step as of a program that waits for the host: as fast as the
    other in one process, 1.5 times in the next. One process alone said that the
    change helps, or that it does not."""
    steps = {"asked": [1.0, 1.0], "tried": [1.0, 1 / 1.5], "dies": [0.5, None]}
    started: list[str] = []

    def start(
        wanted: Any, _fuser: str, interpreter: Any, _phase: str, _folder: Path
    ) -> Any:
        name = next(iter(wanted.knobs))
        step = steps[name][started.count(name)]
        started.append(name)
        return bench_turns.VariantRun(
            name, interpreter, TimedChild(step or 1.0, step is None)
        )  # type: ignore

    monkeypatch.setattr(timed_in_turns, "find_python", lambda path: path)
    monkeypatch.setattr(timed_in_turns, "inspect", lambda path: None)
    monkeypatch.setattr(timed_in_turns, "start_variant", start)
    (tmp_path / "net.py").touch()
    target, python = parse_target(str(tmp_path / "net.py")), Path(sys.executable)
    requests = [
        (RunRequest(target, python, knobs={name: "1"}, cwd=tmp_path), "none")
        for name in steps
    ]
    asked, tried, dies = speeds_in_turns(requests)
    assert started == [*steps, *steps] and asked is None
    assert (
        tried is not None
        and tried.low < 1
        and tried.high > 1.49
        and not tried.differs
    )
    assert dies is not None and dies.low > 1.9, (
        "what its first process measured counts"
    )


# -- what is tried, with what it is compared, and the verdict -----------------------------------------------


def unfused(
    op: str, code: str, source: str = "m.py:1:2", text: str = "why"
) -> Unfused:
    return Unfused(
        op, source, None, "forward", 1, Reason(code, text, True), (), ran=True
    )


def changes(
    rows: list[Unfused],
    training: bool | None,
    fuser: str = "nnc",
    plan: Sequence[PlannedChange] = (),
    **options: Any,
) -> dict[str, tuple[str, ...]]:
    report: Any = SimpleNamespace(
        unfused=rows,
        rows_that_may_have_run=[row for row in rows if row.may_have_run],
        plan=plan,
        findings=(),
        groups=(),
        environment={"torch": "2.13.0"},
        fuser=SimpleNamespace(effective=fuser),
    )
    return {
        one.title: one.codes
        for one in suggested(report, Options(**options), "file", training)
    }


def test_only_what_can_matter_is_tried() -> None:
    """No reductions for a pooling, no freezing in training, no inplace=False with
    nothing in place."""
    softmax, pool = (
        unfused("aten::softmax", "FD211"),
        unfused("aten::max_pool2d", "FD211"),
    )
    assert "nnc_reductions=on" in changes([softmax], None)
    assert "nnc_reductions=on" not in changes([pool], None)
    relu = unfused("aten::relu_", "FD230", "torch/nn/functional.py:1:2")
    norm = unfused("aten::batch_norm", "FD211", "torch/nn/functional.py:9:2")
    assert changes([relu, norm], False)[IN_PLACE_OFF] == ("FD230",)
    assert changes([relu, norm], False)[FREEZE] == ("FD211",)
    assert not {FREEZE, IN_PLACE_OFF} & set(changes([pool], False))
    assert FREEZE not in changes([norm], True)  # in training mode
    assert FREEZE not in changes([norm], False, backward=True)
    assert FREEZE not in changes([norm], False, freeze=True)
    assert not {FREEZE, IN_PLACE_OFF} & set(
        changes([relu, norm], None)
    )  # no module
    mine = unfused("aten::add_", "FD230", "m.py:3:4")
    assert IN_PLACE_OFF not in changes(
        [mine], False
    )  # no module of torch.nn made it


def test_the_settings_of_the_plan_are_tried() -> None:
    """Knobs that belong together in one run, each setting once, and none that the
    run has."""
    knobs = {"fuse_on_cpu": "on", "nnc_must_use_llvm": "off"}
    off = PlannedChange(
        "Let NNC fuse on the CPU", ChangeKind.KNOB, None, None, None, None, None, None, "",
        ops=("aten::mul",), codes=("FD213",), setting=Setting(knobs=knobs),
    )  # fmt: skip
    mul, softmax = unfused("aten::mul", "FD213"), unfused("aten::softmax", "FD211")
    tried = changes([mul], None, plan=[off])
    assert tried["fuse_on_cpu=on, nnc_must_use_llvm=off"] == ("FD213",)
    assert changes([mul], None, plan=[off], knobs=knobs) == changes([mul], None)
    assert changes([mul], None, plan=[replace(off, ops=())]) == changes([mul], None)
    reductions = replace(off, setting=Setting(knobs={"nnc_reductions": "on"}))
    assert changes([softmax], None, plan=[reductions]) == changes([softmax], None)
    traced = replace(
        off, kind=ChangeKind.TRACE, setting=Setting(flags=("--trace",))
    )
    assert "--trace" in changes([mul], None, plan=[traced])
    assert "--trace" not in changes([mul], None, plan=[traced], trace=True)


def test_knobs_of_a_device_are_tried_where_it_is_at_work() -> None:
    large = unfused("aten::sum", "FD273")
    tiled = unfused("aten::add", "FD268")
    tried = changes([large, tiled], None, fuser="inductor")
    assert set(tried) == {
        "max_fusion_size=256",
        "cpp.max_horizontal_fusion_size=64",
    }  # on the CPU
    assert "max_fusion_size=256" not in changes([large], None, fuser="nnc")
    tried = changes(
        [large], None, fuser="inductor", knobs={"max_fusion_size": "256"}
    )
    assert set(tried) == {"cpp.max_horizontal_fusion_size=64"}
    template = unfused("aten::mm", "FD269")
    assert not changes([template], None, fuser="inductor"), "on by default"
    off = changes(
        [template], None, fuser="inductor", knobs={"epilogue_fusion": "off"}
    )
    assert set(off) == {"epilogue_fusion=on"}


def test_fewer_groups_of_as_many_operators_help() -> None:
    assert row(groups=2).helps(row(groups=3))
    assert not row(groups=2, ops_fused=9).helps(row(groups=3))


def test_a_frozen_run_is_compared_with_a_frozen_one() -> None:
    asked, frozen = row(), row(frozen=True, groups=2)
    assert follow_ups._like(frozen, [asked]) == 0  # none was tried before it
    assert follow_ups._like(row(frozen=True), [asked, frozen]) == 1
    assert follow_ups._like(row(), [asked, frozen]) == 0
    assert (
        follow_ups._like(row(frozen=True), [asked, row(frozen=True, problem="no")])
        == 0
    )


def test_the_verdict_names_the_best_or_says_that_nothing_helped() -> None:
    same, wrong = row(change="same"), row(change="wrong", ops_fused=12, wrong=2)
    assert (
        verdict_on_tries((row(), same, wrong))
        == "No change helped: none of 2 fuses more or is faster"
    )
    slower = row(change="slower", ops_fused=15, speed=Ratio(0.5, 0.4, 0.6))
    assert verdict_on_tries((row(), slower)).startswith("No change helped")
    good, better = (
        row(change="good", ops_fused=11),
        row(change="better", groups=1, ops_fused=13, unfused=1),
    )
    assert verdict_on_tries((row(), good, better)) == (
        "Best: better: 3 → 1 groups, 10 → 13 operators fused, 4 → 1 not fused; good helped too"
    )
    frozen = row(change="--freeze", frozen=True, ops_fused=12)
    other = row(change="--fuser onednn", frozen=True, ops_fused=12, against=1)
    assert verdict_on_tries((row(), frozen, other)).startswith("Best: --freeze")
    assert "helped too" not in verdict_on_tries((row(), frozen, other))


def test_a_long_change_leaves_room_for_the_numbers() -> None:
    """A change of ``fix`` is a line of the program: it is broken, the numbers are
    not."""
    long = row(change="fix: " + "x = torch.transpose(y, 0, 1); " * 4, ops_fused=13)
    section = tried(SimpleNamespace(tries=(row(change="unchanged"), long)))  # type: ignore[arg-type]
    text = drawn(Lines(*sections((section,), 80)), 80, colour=False)
    assert "groups" in text and "not fused" in text and "…" not in text
    assert text.count("transpose") == 8  # in the table and in the verdict, whole


def test_a_setting_is_made_part_of_a_request() -> None:
    request = RunRequest(
        parse_target("zoo.net:model"),
        Path("python"),
        knobs={"guard": "off"},
        backward=True,
    )
    setting = Setting(
        "nnc",
        runs=7,
        knobs={"single_node": "on"},
        flags=("--in-place-off", "--freeze"),
    )
    changed = request.with_setting(setting)
    assert (changed.fuser, changed.runs, changed.backward) == ("nnc", 7, True)
    assert (changed.in_place_off, changed.freeze, changed.trace) == (
        True,
        True,
        False,
    )
    assert changed.knobs == {"guard": "off", "single_node": "on"}
    assert request.with_setting(Setting()) == request
