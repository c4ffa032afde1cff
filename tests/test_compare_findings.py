"""A finding is known again by what it is about, not by its words."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from conftest import FIXTURES

from fusiondoc.comparison.compare_reports import compare
from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_from


@pytest.fixture(scope="module")
def before() -> Report:
    """Most of its findings have no line of the program's: backward groups, and
    operators of autodiff."""
    return report_from(
        [str(FIXTURES / "foreign" / "convnext.script.train.nvfuser.log.xz")]
    )


def test_other_words_are_no_other_finding(before: Report) -> None:
    reworded = replace(
        before,
        findings=[replace(f, message="In other words") for f in before.findings],
    )
    assert compare(before, reworded).findings == ()


@pytest.mark.parametrize("code", ["FD226", "FD403", "FD406"])
def test_the_finding_that_is_gone_is_the_one_of_its_group_or_operator(
    before: Report, code: str
) -> None:
    """Of several of one code, none has a line of the program. One of two about the
    same is no loss."""
    same_code = [f for f in before.findings if f.code == code and f.source is None]
    about = Counter(_about(f.message) for f in same_code)
    assert len(about) > 1
    for gone in same_code:
        left = [
            replace(f, message="In other words")
            for f in before.findings
            if f is not gone
        ]
        changes = compare(before, replace(before, findings=left)).findings
        alone = about[_about(gone.message)] == 1
        assert [(c.change, c.finding) for c in changes] == (
            [("gone", gone)] if alone else []
        )


def _about(message: str) -> str:
    """What a reader takes it to be about: the operators of its group; else all but
    figures, ids and lines."""
    group = re.match(r"Group G\d+ (\([^)]*\)) runs as", message)
    return group[1] if group else re.sub(r"[^\s()]+:\d+:\d+|G?\d+", "#", message)
