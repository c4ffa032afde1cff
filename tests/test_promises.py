"""The harness that holds plans to their promises: each verdict can be reached, and
torch counts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from running import subprocess_of_forks

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

HARNESS = Path(__file__).parents[1] / "benchmarks" / "promises.py"
SQUARE = """\
import torch


def model(x):
    y = torch.relu(x * 2.0)
    h = (y + 1.0).square() * y
    return torch.sigmoid(h) + y


inputs = (torch.randn(4, 8),)
"""


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("promises", HARNESS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["promises"] = module  # its dataclasses are looked up there
    spec.loader.exec_module(module)
    return module


def change(path: Path, line: int, after: str, **others: Any) -> dict[str, Any]:
    before = path.read_text().split("\n")[line - 1]
    edit = {"file": str(path), "line": line, "before": before, "after": after}
    row = {
        "change": after,
        "kind": "recipe",
        "ops": ["aten::square"],
        "operators": 1,
        "groups": -1,
    }
    return {
        **row,
        "unlocks": "joins 2 groups of this run",
        "together_with": [],
        "edits": [edit],
        **others,
    }


GOOD = "    t = y + 1.0\n    h = t * t * y"


@pytest.fixture
def forks(harness: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "subprocess", subprocess_of_forks())


def test_each_verdict_can_be_reached(
    harness: ModuleType, tmp_path: Path, forks: None
) -> None:
    path = tmp_path / "square.py"
    path.write_text(SQUARE)
    stale = change(path, 6, GOOD)
    stale["edits"][0]["before"] = "    h = y.square()"
    plan = [
        change(path, 6, GOOD),
        change(path, 6, GOOD, operators=9),
        change(path, 6, GOOD, operators=0, groups=None),
        change(path, 6, "    h = torch.square(y + 1.0) * y"),
        change(path, 6, "    t = y + 2.0\n    h = t * t * y"),
        change(path, 6, "    h = y.no_such_method()"),
        change(path, 7, "    return y + torch.sigmoid(h)"),
        stale,
        change(path, 6, "", edits=[]),
    ]
    outcome = harness.judge_plan(path, plan, "nnc", False)
    verdicts = [one.verdict for one in outcome.verdicts if one.kind != "all"]
    expected = [
        "as promised",
        "less",
        "no number",
        "nothing",
        "broken",
        "broken",
        "wrong line",
        "wrong line",
    ]
    assert verdicts == expected, outcome.verdicts
    assert len(outcome.without_edits) == 1


@pytest.mark.nightly
def test_a_promise_counts_on_the_changes_it_names(
    harness: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "square.py"
    path.write_text(SQUARE)
    line = "    return torch.sigmoid(h) + 1.0 * y"
    useless = change(path, 7, line, ops=["aten::sigmoid"], together_with=[2])
    outcome = harness.judge_plan(
        path, [useless, change(path, 6, GOOD)], "nnc", False
    )
    assert outcome.verdicts[0].verdict == "as promised", outcome.verdicts


def test_a_program_that_has_no_gradients_is_not_judged_backward(
    harness: ModuleType, tmp_path: Path, forks: None
) -> None:
    path = tmp_path / "square.py"
    path.write_text(SQUARE)
    outcome = harness.try_program(path, "nnc", True)
    assert outcome.verdicts == [] and outcome.error is None


@pytest.mark.nightly
def test_advice_of_the_command_line_is_made_and_judged(
    harness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "square.py").write_text(SQUARE)
    (tmp_path / "torn.py").write_text("import torch\nmodel = 1 / 0\n")
    status = harness.main([str(tmp_path), "--json", str(tmp_path / "out.json")])
    printed = capsys.readouterr().out
    assert "FAILED      torn.py" in printed and "2 runs failed" in printed
    assert "as promised square forward" in printed
    assert printed.splitlines()[-1].endswith(
        "as promised, 0 broken, 0 on a wrong line"
    )
    assert status == 1  # a program that does not run proves nothing


def test_a_program_that_did_not_come_to_its_turn_is_measured_alone(
    harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = tmp_path / "judge.py"
    judge.write_text(
        "import json, sys, time\n"
        "for path in sys.argv[3:]:\n"
        "    print('JUDGE ' + json.dumps({'path': path, 'alone': len(sys.argv) == 4}), flush=True)\n"
        "    time.sleep(30 if len(sys.argv) > 4 else 0)\n"
    )
    monkeypatch.setattr(harness, "JUDGE", judge)
    monkeypatch.setattr(harness, "SECONDS", 2)
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    found = harness.measured(paths, "nnc", False)
    assert {Path(name).name: row["alone"] for name, row in found.items()} == {
        "a.py": False,
        "b.py": True,
    }


def test_tensors_in_lists_go_to_the_device_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(HARNESS.parent)
    import torch
    from promises_judge import moved, tensors

    one = torch.zeros(2)
    state = moved((one, [one, {"step": (one, 3)}]), "meta")
    assert [tensor.device.type for tensor in tensors(state)] == [
        "meta"
    ] * 3 and state[1][1]["step"][1] == 3
