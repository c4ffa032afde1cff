"""``survey --since`` and ``--fail-on``: which losses, slow kernels and fallbacks
count."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run

from fusiondoc.errors import UsageError
from fusiondoc.model.survey_answers import Survey
from fusiondoc.workflows.survey import survey
from fusiondoc.workflows.survey_since import day_of

pytestmark = pytest.mark.xdist_group("survey since")

_SPEC = importlib.util.spec_from_file_location(
    "survey_fleet", ROOT / "benchmarks" / "survey_fleet.py"
)
assert _SPEC is not None and _SPEC.loader is not None
fleet = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fleet)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 40 models over 300 days from 2025-01-01; groups are gone from 2025-07-20
    (torch 2.1.2) on."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet.make(folder, 400)
    for day in range(1, 29):
        _timed_report(
            folder, f"2025-06-{day:02}", (5 if day % 5 == 0 else 1) + day / 1000
        )
    return folder


def _timed_report(folder: Path, day: str, factor: float) -> None:
    """A real report in which each kernel takes ``factor`` times as long."""
    data: dict[str, Any] = json.loads(
        (ROOT / "fixtures" / "golden" / "layer-norm.json").read_text()
    )
    timed = [kernel for kernel in data["kernels"] if kernel["ms"] is not None]
    assert timed
    for kernel in timed:
        kernel["ms"]["median"] *= factor
    data["target"] = {"name": "timed.py", "model": "timed"}
    (folder / f"{day}-timed.json").write_text(json.dumps(data))


@pytest.fixture(scope="module")
def whole(reports: Path) -> Survey:
    return survey([str(reports)], workers=2)


def test_answers_since_a_day_are_those_of_the_whole_survey_from_it_on(
    reports: Path, whole: Survey
) -> None:
    """The oracle is the survey without --since, and the days of its own rows."""
    dates = {row.run: row.date for row in whole.runs}
    days = sorted({str(dates[outlier.run]) for outlier in whole.outliers})
    assert whole.gone and len(days) > 3 and not whole.outliers_left_out
    day = days[len(days) // 2]
    later = survey([str(reports)], workers=2, since=day.replace("-", ""))
    assert later.since == day
    assert later.runs == whole.runs and later.groups == whole.groups
    assert later.gone == tuple(loss for loss in whole.gone if str(loss.date) >= day)
    assert later.outliers == tuple(
        one for one in whole.outliers if str(dates[one.run]) >= day
    )
    assert 0 < len(later.outliers) < len(whole.outliers)


def test_the_exit_status_says_whether_what_is_named_was_found(
    reports: Path, whole: Survey, fusiondoc: Callable[..., Run]
) -> None:
    done = fusiondoc("survey", reports, "--fail-on", "gone", "--fail-on", "slower")
    assert done.returncode == 1
    losses = f"--fail-on gone: {len(whole.gone)} losses\n"
    assert (
        losses in done.stderr
        and f"--fail-on slower: {len(whole.outliers)} slow kernels\n" in done.stderr
    )
    after = fusiondoc(
        "survey", reports, "--fail-on", "gone", "--since", "2025-10-25"
    )
    assert after.returncode == 0 and "--fail-on" not in after.stderr
    assert "Since     2025-10-25 (" in after.stdout


def _report(folder: Path, day: str, fallbacks: int) -> None:
    data: dict[str, Any] = json.loads(
        (ROOT / "fixtures" / "golden" / "nnc-cuda.json").read_text()
    )
    data["fallbacks"] = [{"stage": "run", "count": fallbacks}] if fallbacks else []
    (folder / f"{day}-run.json").write_text(json.dumps(data))


def test_a_fallback_counts_from_its_day_on(
    tmp_path: Path, fusiondoc: Callable[..., Run]
) -> None:
    for day, fallbacks in (("2026-11-01", 0), ("2026-11-02", 3), ("2026-11-03", 0)):
        _report(tmp_path, day, fallbacks)
    for since, status in (("2026-11-02", 1), ("2026-11-03", 0)):
        done = fusiondoc(
            "survey", tmp_path, "--fail-on", "fallback", "--since", since
        )
        assert done.returncode == status, done.stderr
    assert fusiondoc("survey", tmp_path, "--fail-on", "gone").returncode == 0


def test_a_commit_stands_for_its_day(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        environment = {
            "GIT_COMMITTER_DATE": "2026-10-09T23:30:00-0300",
            "HOME": str(tmp_path),
        }
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(
            ["git", *names, *arguments], cwd=tmp_path, env=environment, check=True
        )

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one\n\ncommitter x <a@b> 1 +0000")
    git("tag", "v1.2")
    assert day_of("v1.2", tmp_path) == day_of("HEAD", tmp_path) == "2026-10-10"
    for wrong in ("v1.3", "2026-13-01", "--batch", ""):
        with pytest.raises(UsageError):
            day_of(wrong, tmp_path)
