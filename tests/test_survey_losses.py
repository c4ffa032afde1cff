"""What a survey calls gone: changes of a share, with their interval and cause, one
row a loss."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run

from fusiondoc.captures.commit import commit_of
from fusiondoc.model.survey_answers import Gone, Survey
from fusiondoc.reports import survey_documents as documents
from fusiondoc.workflows.loss_causes import losses_of, onset
from fusiondoc.workflows.share_changes import (
    best_slope,
    best_split,
    evidence,
    plausible_indices,
)
from fusiondoc.workflows.share_explanations import RunFactor, RunHistory, scopes_of
from fusiondoc.workflows.survey import survey

_SPEC = importlib.util.spec_from_file_location(
    "survey_losses", ROOT / "benchmarks" / "survey_losses.py"
)
assert _SPEC is not None and _SPEC.loader is not None
fleet = importlib.util.module_from_spec(_SPEC)
sys.modules["survey_losses"] = fleet
_SPEC.loader.exec_module(fleet)

LOSSES = (
    "torch, at once, two groups",
    "torch, machine by machine over six weeks",
    "torch and driver on one day",
    "torch, a backward group",
    "driver, three groups",
    "commit, three groups",
    "in 90 % of the runs",
    "in 50 % of the runs",
    "on one GPU alone",
    "one of four instances",
    "few runs, torch",
    "half of its operators",
    "added, later lost",
    "two losses of one model",
)
HARMLESS = tuple(name for name, _ in fleet.HARMLESS)


@pytest.mark.nightly
def test_every_loss_is_a_row_and_nothing_else_is(
    tmp_path: Path, fusiondoc: Run
) -> None:
    """A fleet with a model for each name; the row has the groups, the cause, and a
    day in its interval."""
    models = len(LOSSES) + len(HARMLESS)
    known = fleet.make(tmp_path, 100 * models, models, 5, LOSSES + HARMLESS)
    done = fusiondoc("survey", tmp_path, "--format", "json", "--workers", "2")
    made = fleet.score(json.loads(done.stdout), known, 5, models)
    assert len(known) == len(LOSSES) + 1
    assert not made.false_rows and not made.missed and not made.wrong_cause
    assert made.right == made.rows == len(known)
    off = sorted(map(abs, made.days_off))
    assert off[len(off) // 2] <= 4 and made.within >= 0.9 * len(known)


def history(runs: int, *factors: RunFactor) -> RunHistory:
    """A run a day."""
    days = tuple(
        f"2025-{1 + day // 28:02}-{1 + day % 28:02}" for day in range(runs)
    )
    return RunHistory(days, True, factors, scopes_of(runs, factors))


def factor(name: str, texts: list[str], ordered: bool = True) -> RunFactor:
    values = tuple(dict.fromkeys(texts))
    return RunFactor(name, values, tuple(map(values.index, texts)), ordered, True)


def found(
    has: str, *factors: RunFactor, tested: int = 1
) -> list[tuple[str, tuple[str, ...], int, int]]:
    """``1``: the run has it, ``0``: it lacks it, ``-``: it does not tell. Cause,
    what came with it, and how many runs are before and after."""
    told = [None if one == "-" else int(one) for one in has]
    losses = losses_of(history(len(has), *factors), told, tested)
    return [
        (one.by, one.together, len(one.before), len(one.after)) for one in losses
    ]


@pytest.mark.parametrize(
    ("has", "changes"),
    [
        ("1111" * 8 + "0000" * 8, [("date", (), 32, 32)]),
        ("1111" * 8 + "1110", []),  # one run
        ("1111" * 4 + "0" + "1111" * 4, []),
        ("1111" * 8 + "0000" * 4 + "1111" * 8, []),  # it is back
        ("1111" * 8 + "0000" * 4 + "1111" * 8 + "0000" * 8, [("date", (), 80, 32)]),
        ("1011" * 16, []),  # a share that never changed
        ("0000" * 8 + "1111" * 8 + "0000" * 8, [("date", (), 32, 32)]),
        ("0000" * 8 + "1111" * 8, []),
        ("1111" * 8 + "----" * 8, []),  # nothing tells
        ("1111" * 8 + "0--0" * 8, [("date", (), 32, 16)]),
    ],
)
def test_a_change_in_time(has: str, changes: list[Any]) -> None:
    assert found(has) == changes


def test_many_groups_need_more_evidence() -> None:
    assert found("111000") == [("date", (), 3, 3)]
    assert not found("111000", tested=1_000)


def test_the_cause_is_what_explains_the_runs_best() -> None:
    """Torch is upgraded machine by machine, a driver at about that time."""
    dice = random.Random(3)
    torch = [
        "2.1" if day > 40 and (day > 80 or dice.random() < 0.5) else "2.0"
        for day in range(120)
    ]
    driver = ["550" if day > 60 else "535" for day in range(120)]
    has = "".join("10"[one == "2.1"] for one in torch)
    ((by, together, _, after),) = found(
        has, factor("driver", driver), factor("torch", torch)
    )
    assert (by, together, after) == ("torch", (), torch.count("2.1"))


def test_what_changed_with_the_cause_is_named() -> None:
    torch = ["2.0"] * 30 + ["2.1"] * 30
    cuda = ["11.8"] * 30 + ["12.1"] * 30
    commit = [f"{day // 7}" for day in range(60)]
    assert found(
        "1" * 30 + "0" * 30,
        factor("torch", torch),
        factor("cuda", cuda),
        factor("commit", commit),
    ) == [("torch", ("cuda",), 30, 30)]


def test_a_loss_of_one_gpu_is_of_its_runs() -> None:
    gpus = ["A100", "H100", "L40S"] * 40
    commits = ["a"] * 60 + ["b"] * 60
    has = "".join(
        "10"[gpu == "H100" and commit == "b"] for gpu, commit in zip(gpus, commits)
    )
    factors = factor("gpu", gpus, False), factor("commit", commits)
    ((by, _, before, after),) = found(has, *factors)
    assert (by, before, after) == ("commit", 20, 20)
    told = [int(one) for one in has]
    (loss,) = losses_of(history(120, *factors), told, 1)
    assert loss.scope.values == (("gpu", "H100"),)


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_what_a_gpu_never_had_is_not_lost(share: float) -> None:
    """Also if more and more runs are on it; a GPU that is new takes its groups
    away."""
    dice = random.Random(11)
    there = [
        "L40S" if dice.random() < share + 0.6 * day / 200 else "A100"
        for day in range(200)
    ]
    there[1] = "L40S"
    assert not found(
        "".join("10"[gpu == "L40S"] for gpu in there), factor("gpu", there, False)
    )
    new = ["H200" if day > 100 and day % 2 else "A100" for day in range(200)]
    ((by, *_),) = found(
        "".join("10"[gpu == "H200"] for gpu in new), factor("gpu", new, False)
    )
    assert by == "gpu"


def test_the_interval_of_a_change() -> None:
    """By the profile of the likelihood: one day where the share falls from all to
    none, more where less."""
    days = [f"{day:03}" for day in range(200)]
    sharp = [1] * 100 + [0] * 100
    split = best_split(sharp, days)
    assert split is not None and split.at == 100 and split.choices == 199
    assert plausible_indices(sharp, days) == (100, 100)
    dice = random.Random(2)
    within, wide = 0, 0
    for _ in range(200):
        blurred = [1] * 100 + [int(dice.random() < 0.6) for _ in range(100)]
        places = plausible_indices(blurred, days)
        assert places is not None
        within += places[0] <= 100 <= places[1]
        wide += places[1] - places[0]
    assert within >= 180 and 1 < wide / 200 < 30
    assert (
        best_split(sharp, ["1"] * 200) is None
        and plausible_indices(sharp, ["1"] * 200) is None
    )


def test_a_gradual_change_begins_and_ends() -> None:
    dice = random.Random(4)
    has = [
        int(dice.random() > min(1, max(0, (day - 100) / 60))) for day in range(300)
    ]
    slope = best_slope(has, range(300))
    assert (
        slope is not None
        and abs(slope.begin - 100) < 20
        and abs(slope.end - 160) < 20
    )
    (loss,) = losses_of(history(300), has, 1)
    assert loss.slope is not None
    begin, first, last, until = onset(history(300), has, loss)
    assert first <= begin <= last < str(until)


def test_the_evidence_of_a_stretch_is_a_probability() -> None:
    """All sequences of a length have one together."""
    from itertools import product
    from math import exp

    total = sum(exp(evidence(sum(one), 10)) for one in product((0, 1), repeat=10))
    assert total == pytest.approx(1)


Make = Callable[..., Survey]


@pytest.fixture
def of_days(tmp_path: Path) -> Make:
    """A survey of a run a day: ``report(day)`` is what changes in the golden
    report."""

    def make(days: int, report: Callable[[int, dict[str, Any]], None]) -> Survey:
        text = (ROOT / "fixtures" / "golden" / "capture.json").read_text()
        for day in range(days):
            data = json.loads(text)
            stamp = f"2025{1 + day // 28:02}{1 + day % 28:02}-000000"
            data["target"] = {
                "name": "a/m.py",
                "options": {},
                "capture": f".fusiondoc/{stamp}-m",
            }
            report(day, data)
            (tmp_path / f"{day}.json").write_text(json.dumps(data))
        return survey([str(tmp_path)], workers=1)

    return make


def _groups(data: dict[str, Any], *groups: str) -> None:
    """``3 mul add``: a group of these operators at line 3 and the following
    ones."""
    first = data["groups"][0]
    made = []
    for number, text in enumerate(groups):
        line, *ops = text.split()
        nodes = [
            {
                "op": f"aten::{op}",
                "source": f"/a/m.py:{int(line) + at}:8",
                "user_source": None,
            }
            for at, op in enumerate(ops)
        ]
        made.append(
            {**first, "id": f"G{number}", "nodes": nodes, "phase": "forward"}
        )
    data["groups"] = made


def _outside(data: dict[str, Any], line: int, *ops: str) -> None:
    data["unfused"] = [
        {
            "op": f"aten::{op}",
            "source": f"/a/m.py:{line + at}:8",
            "phase": "forward",
            "count": 1,
            "reason": {"code": "FD230", "text": "in place"},
        }
        for at, op in enumerate(ops)
    ]


ONE, TWO = "10 mul add relu", "20 sub exp tanh"


@pytest.mark.parametrize(
    "later",
    [
        ("10 mul add relu", "20 sub exp tanh"),
        ("14 mul add relu", "24 sub exp tanh"),
        ("10 mul add relu sub exp tanh",),
        ("10 mul", "11 add relu", "20 sub exp tanh"),
        ("510 mul add relu", "10 sub exp tanh"),
        ("10 mul add gelu", "20 sub exp tanh"),
    ],
    ids=[
        "the same",
        "moved",
        "one larger group",
        "split",
        "far away",
        "an operator written otherwise",
    ],
)
def test_another_form_of_a_group_is_no_loss(
    of_days: Make, later: tuple[str, ...]
) -> None:
    made = of_days(
        20, lambda day, data: _groups(data, *((ONE, TWO) if day < 10 else later))
    )
    assert not made.gone


def test_a_group_that_shrinks_is_a_loss(of_days: Make) -> None:
    def report(day: int, data: dict[str, Any]) -> None:
        _groups(data, ONE if day < 10 else "10 mul", TWO)
        if day >= 10:
            _outside(data, 11, "add", "relu")

    (gone,) = of_days(20, report).gone
    assert gone.text.startswith("mul, add, relu") and gone.why == (
        "FD230 in 10 runs",
    )
    assert (gone.date_from, gone.date) == ("2025-01-10", "2025-01-11")


def test_a_loss_after_lines_moved_has_the_last_lines(of_days: Make) -> None:
    def report(day: int, data: dict[str, Any]) -> None:
        lines = 10 + day // 5
        _groups(
            data,
            *([f"{lines} mul add relu"] if day < 24 else []),
            f"{lines + 20} sub exp tanh",
        )

    made = of_days(40, report)
    (gone,) = made.gone
    assert (
        gone.text.endswith("at m.py:14, m.py:15")
        and gone.runs_before == 24
        and made.moved == 2
    )


def test_runs_that_ended_early_or_trained_nothing_tell_nothing(
    of_days: Make,
) -> None:
    def report(day: int, data: dict[str, Any]) -> None:
        if day % 3 == 2 and day > 15:
            data["groups"] = data["groups"][:1]
            data["findings"] = [{"code": "FD905", "severity": "error"}]
        elif day > 22:
            data["groups"] = [
                one for one in data["groups"] if one["phase"] != "backward"
            ]
            data["target"]["options"] = {"backward": False}

    assert not of_days(40, report).gone


def test_all_backward_groups_of_a_script_can_be_lost(of_days: Make) -> None:
    def report(day: int, data: dict[str, Any]) -> None:
        data["target"]["options"] = {"backward": False, "script": True}
        if day >= 15:
            data["groups"] = [
                one for one in data["groups"] if one["phase"] != "backward"
            ]

    (gone,) = of_days(40, report).gone
    assert "(backward)" in gone.text and gone.date == "2025-01-16"


def test_the_documents_say_when_where_and_with_what(of_days: Make) -> None:
    def report(day: int, data: dict[str, Any]) -> None:
        data["environment"] = {
            "torch": "2.0.1" if day < 20 else "2.1.2",
            "cuda": "11.8" if day < 20 else "12.1",
            "gpu": "NVIDIA H200",
        }
        _groups(data, *((ONE, TWO) if day < 20 else ()), "30 neg abs")

    made = of_days(40, report)
    (gone,) = made.gone
    assert len(gone.groups) == len(gone.texts) == 2 and gone.together == (
        "CUDA 11.8 to 12.1",
    )
    text = " ".join(documents.as_text(made).split())
    assert "mul, add, relu at m.py:10, m.py:11, and 1 more group (" in text
    assert (
        "2025-01-21 (between 2025-01-20 and 2025-01-21): in 100 % of 20 runs up to torch 2.0.1, in none of 20"
        " runs from torch 2.1.2 on; came together with CUDA 11.8 to 12.1" in text
    )
    page = documents.as_page(made)
    assert "torch 2.0.1 to 2.1.2; together with CUDA 11.8 to 12.1" in page
    (row,) = csv.DictReader(io.StringIO(documents.as_csv(made, "gone")))
    assert (
        row["date"] == "2025-01-21"
        and row["texts"].count("; ") == 1
        and row["share_since"] == "0.0"
    )
    assert max(map(len, documents.as_text(made).splitlines())) <= 80


def test_every_kind_of_row_can_be_read() -> None:
    base: dict[str, Any] = {
        "group": "1",
        "text": "mul",
        "model": "m.py",
        "share_before": 1.0,
        "runs_before": 9,
        "runs_since": 9,
        "groups": ("1",),
        "texts": ("mul",),
    }
    from fusiondoc.rendering.values import Text
    from fusiondoc.views.losses_in_words import cells, sentence, title

    at = {"date": "2025-02-02", "date_from": "2025-02-01", "date_to": "2025-02-02"}
    by_day = Gone(
        by="date",
        last="2025-02-01",
        since="2025-02-02",
        **base,
        **at,
        share_since=0.5,
    )
    assert sentence(by_day) == (
        "2025-02-02 (between 2025-02-01 and 2025-02-02): in 100 % of 9 runs before it, in 50 % of 9 runs"
        " since; nothing that the runs record changed at that time"
    )
    assert cells(by_day)[6] == Text("nothing that is recorded")
    instances = Gone(
        by="commit",
        last="a1",
        since="b2",
        **base,
        instances=4,
        scope="GPU NVIDIA H200",
    )
    assert title(instances) == "mul (fewer than 4 instances) (m.py)"
    assert sentence(instances) == (
        "in 100 % of 9 runs up to commit a1, in none of 9 runs from commit b2 on, of the runs with GPU NVIDIA"
        " H200 alone"
    )
    on = Gone(by="gpu", last="A", since="B", **base, until="2025-03-01", **at)
    assert "on GPU A, in none of 9 runs on GPU B" in sentence(
        on
    ) and "step by step until 2025-03-01" in sentence(on)


def test_the_commit_of_a_program(tmp_path: Path) -> None:
    """As git says it: on a branch, packed, of a further work tree, detached;
    without git running."""
    if commit_of(tmp_path) is not None:
        pytest.skip("the temporary folder is in a repository")
    top = tmp_path / "top"
    (top / "inner").mkdir(parents=True)

    def git(*arguments: str, folder: Path = top) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "-q")
    assert commit_of(top) is None
    git("commit", "-q", "--allow-empty", "-m", "one")
    assert commit_of(top / "inner") == git("rev-parse", "HEAD")[:12]
    git("pack-refs", "--all")
    assert commit_of(top) == git("rev-parse", "HEAD")[:12]
    git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "side")
    git("commit", "-q", "--allow-empty", "-m", "two", folder=tmp_path / "other")
    assert (
        commit_of(tmp_path / "other")
        == git("rev-parse", "side")[:12]
        != commit_of(top)
    )
    git("checkout", "-q", "--detach")
    assert commit_of(top) == git("rev-parse", "HEAD")[:12]
    (top / ".git" / "HEAD").write_text("ref: refs/../../../etc/passwd")
    assert commit_of(top) is None
