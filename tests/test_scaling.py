"""Work grows with the size of a log: lines that are run are counted, not seconds, for each input of
``benchmarks/scaling_inputs.py`` at one size and at twice that size."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import ROOT

from fusiondoc.comparison.compare_reports import compare
from fusiondoc.parsers.rows import kernel_rows
from fusiondoc.reports.json_format import render
from fusiondoc.workflows.load import report_from

sys.path.insert(0, str(ROOT / "benchmarks"))
from scaling_inputs import CASES, Case, long_string

MOST_GROWTH = 2.3
"""Times as many steps for twice the size; 2.46 is an exponent of 1.3."""


def steps_of(case: Case, size: int, folder: Path) -> int:
    """Lines of fusiondoc that are run, loops counted each time round, for a report or a comparison as
    JSON."""
    log, other = folder / "one.log", folder / "other.log"
    text = "".join(case.make(size))
    log.write_text(text)
    other.write_text(re.sub(r"model\.py:(\d*[02468]):", r"model.py:1\1:", text))
    count = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return step

    def call(frame: FrameType, event: str, argument: object) -> Any:
        return step if "fusiondoc" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        report = report_from([str(log)])
        if case.compare:
            render(compare(report, report_from([str(other)])))
        else:
            render(report)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}{'-compared' * case.compare}")
def test_twice_the_size_is_twice_the_work(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_rows, "MOST_PAIRS", 100)  # of a small log
    steps_of(case, 2, tmp_path)  # what is imported and cached at first
    one, two = steps_of(case, case.small, tmp_path), steps_of(case, 2 * case.small, tmp_path)
    assert one < two or case.make in (long_string,)
    assert two < MOST_GROWTH * one
