"""Whole reports of a choice of real logs, kept as JSON, so that a change of any row
is seen as a diff.

``pytest tests/test_golden_reports.py --update-golden`` writes them again; the diff
is to be read, and what it shows to be meant. The texts of kernels are left out but
for their size, evidence is ``file:line``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT

from fusiondoc.reports.json_format import as_dict
from fusiondoc.workflows.load import report_from

FIXTURES = ROOT / "fixtures"
GOLDEN = FIXTURES / "golden"
CHOICE = {
    "layer-norm": "logs/nvfuser-2.1.2-ordered-layer-norm.log.xz",
    "rejects": "logs/nvfuser-2.1.2-rejects-full.log.xz",
    "fallback": "logs/nvfuser-2.1.2-fallback-compile.log.xz",
    "two-ranks": "logs/nvfuser-2.1.2-two-ranks.log.xz",
    "old-crash": "logs/nvfuser-1.12.1-crash.log.xz",
    "nnc-rejects": "logs/nnc-2.11-rejects.log.xz",
    "nnc-cuda": "kernels/nnc-2.1-cuda.log.xz",
    "onednn": "kernels/onednn-2.13-verbose.log.xz",
    "capture": "captures/nvfuser-2.1.2-composite",
}


def simplified(value: Any) -> Any:
    """Without what depends on the machine, and short where a diff needs no more."""
    if isinstance(value, list):
        return [simplified(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"file", "line"}:
        return f"{Path(value['file']).name}:{value['line']}"
    short = {key: simplified(item) for key, item in value.items()}
    for key in ("code", "text"):
        if "\n" in str(short.get(key)):
            short[key] = f"{len(str(short[key]).splitlines())} lines"
    return short


@pytest.fixture(autouse=True)
def in_the_folder_of_fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports hold the names of their logs as they were given."""
    monkeypatch.chdir(FIXTURES)


def golden(name: str) -> str:
    report = as_dict(report_from([CHOICE[name]]))
    report["parse"]["seconds"] = None
    report["timing"] = None
    return json.dumps(simplified(report), indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", CHOICE)
def test_the_report_is_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"{name}.json"
    found = golden(name)
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), (
        "if this is meant: pytest tests/test_golden_reports.py --update-golden"
    )


def test_nothing_else_is_kept() -> None:
    assert {path.stem for path in GOLDEN.glob("*")} == set(CHOICE)


def test_a_change_of_one_row_is_seen() -> None:
    kept = (GOLDEN / "rejects.json").read_text(encoding="utf-8")
    report = as_dict(report_from([CHOICE["rejects"]]))
    report["unfused"][0]["count"] += 1
    assert f'"count": {report["unfused"][0]["count"]}' in json.dumps(
        simplified(report)
    )
    assert json.loads(kept)["unfused"][0] != simplified(report)["unfused"][0]
