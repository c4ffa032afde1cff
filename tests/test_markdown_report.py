"""The Markdown report: it fits into a comment, and nothing of a log is markup in
it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import FIXTURES, Run
from made_log import hostile_log, large_log
from thorough import every

from fusiondoc.reports.markdown import LIMIT, render
from fusiondoc.workflows.load import report_from

LOGS = sorted((FIXTURES / "logs").glob("*.xz"))


def without_code(text: str) -> str:
    """The text without its code spans, in which nothing is markup."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_every_log(log: Path) -> None:
    report = report_from([str(log)])
    text = render(report)
    assert text == render(report_from([str(log)]))
    assert len(text) < LIMIT
    assert text.count("<details") == text.count("</details>")
    for group in report.groups:
        assert re.search(rf"^\| {group.id} ", text, re.MULTILINE)
    for kernel in report.kernels:
        assert f"| {kernel.id} `{kernel.name}` |" in text


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_tables_have_equal_rows(log: Path) -> None:
    columns = None
    for line in render(report_from([str(log)])).split("\n"):
        if not line.startswith("|"):
            columns = None
            continue
        bars = len(re.findall(r"(?<!\\)\|", line))
        assert columns in (None, bars), line
        columns = bars


def test_a_large_report_is_cut_with_a_note(tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    log.write_text(
        large_log(
            groups=400,
            loose=2000,
            source="a/rather/long/name/of/a/folder/" * 3 + "model.py",
        )
    )
    text = render(report_from([str(log)]))
    assert LIMIT * 0.8 < len(text) < LIMIT
    outside = text.partition("<b>Not fused</b>")[2].partition("</details>")[0]
    assert re.search(
        r"^[\d,]+ more rows: `--format json` has all$", outside, re.MULTILINE
    )
    assert text.count("<details") == text.count("</details>")
    for title in ("Groups", "Not fused", "Kernels"):
        assert f"<b>{title}</b>" in text


def test_nothing_of_the_log_is_markup(tmp_path: Path) -> None:
    log = tmp_path / "hostile|`name`.log"
    log.write_text(hostile_log(), encoding="utf-8")
    bare = without_code(render(report_from([str(log)])))
    assert set(re.findall(r"<(/?\w+)", bare)) == {
        "details",
        "/details",
        "summary",
        "/summary",
        "b",
        "/b",
    }


def test_the_ending_gives_the_format(fusiondoc: Run, tmp_path: Path) -> None:
    done = fusiondoc("parse", LOGS[0], "-o", "report.md")
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        (tmp_path / "report.md")
        .read_text(encoding="utf-8")
        .startswith("### fusiondoc")
    )
    assert fusiondoc("parse", LOGS[0], "--format", "markdown").stdout.startswith(
        "### fusiondoc"
    )
