"""``import fusiondoc``: parse, compare and render, without click and torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.errors import UsageError
from fusiondoc.model.source import Target
from fusiondoc.reports.fragments import comparison_fragment, report_fragment

LOGS = FIXTURES / "logs"
A_LOG = LOGS / "nvfuser-2.1.2-rejects-full.log.xz"


def test_a_report_of_a_log_in_every_spelling() -> None:
    report = fusiondoc.parse(str(A_LOG))
    assert report.groups
    assert (
        fusiondoc.parse(A_LOG).groups
        == fusiondoc.parse([A_LOG]).groups
        == report.groups
    )


def test_what_cannot_be_parsed() -> None:
    with pytest.raises(UsageError) as told:
        fusiondoc.parse(A_LOG.with_name("no_such.log"))
    assert told.value.hint
    with pytest.raises(UsageError, match="empty"):
        fusiondoc.parse([])


def test_render_is_what_the_command_prints() -> None:
    report = fusiondoc.parse(A_LOG)
    assert (
        json.loads(fusiondoc.render(report, "json"))["schema"]
        == "fusiondoc.report/1"
    )
    for format_ in ("text", "html", "markdown", "sarif", "junit"):
        assert fusiondoc.render(report, format_)
    assert fusiondoc.render(report) == str(report)
    with pytest.raises(UsageError) as told:
        fusiondoc.render(report, "htm")
    assert "'html'" in str(told.value.hint)
    with pytest.raises(UsageError, match="not str"):
        fusiondoc.render("train.log")  # type: ignore[arg-type]


def test_compare_takes_paths_and_reports() -> None:
    report = fusiondoc.parse(A_LOG)
    comparison = fusiondoc.compare(report, str(A_LOG))
    assert comparison.same
    assert not fusiondoc.compare(report, replace(report, groups=())).same
    for format_ in ("text", "json", "html", "markdown"):
        assert fusiondoc.render(comparison, format_)
    with pytest.raises(UsageError, match="of a comparison"):
        fusiondoc.render(comparison, "sarif")
    with pytest.raises(UsageError, match="share"):
        fusiondoc.compare(report, report, slower_than=-1)


class Printer:
    """What IPython gives to ``_repr_pretty_``."""

    def __init__(self) -> None:
        self.shown = ""

    def text(self, text: str) -> None:
        self.shown += text


def test_what_a_notebook_shows_names_no_folder_of_the_machine() -> None:
    home = "/home/me/project"
    report: Any = fusiondoc.parse(A_LOG)
    rows = tuple(
        replace(row, user_source=f"{home}/model.py:3:8") for row in report.unfused
    )
    target = Target(name=f"{home}/model.py", folder=home)
    report = replace(report, unfused=rows, target=target)
    html = report_fragment(report)
    assert "model.py:3" in html and home not in html
    assert home not in comparison_fragment(fusiondoc.compare(report, report))


def test_reports_and_comparisons_show_themselves() -> None:
    report: Any = fusiondoc.parse(A_LOG)
    comparison: Any = fusiondoc.compare(report, report)
    with_a_plan: Any = fusiondoc.parse(
        FIXTURES / "logs" / "nvfuser-2.1.2-fallback-compile.log.xz"
    )
    for one in (report, comparison):
        printer = Printer()
        one._repr_pretty_(printer, False)
        assert printer.shown == str(one) == fusiondoc.render(one)
        assert len(repr(one)) < 300
        html = one._repr_html_()
        assert html.startswith("<div>")
        assert "<script" not in html
    assert "Groups (" in report._repr_html_()
    to_do, tables = with_a_plan._repr_html_().split("<table>", 1)
    change = with_a_plan.plan[0]
    command = change.command.replace(f"{Path.cwd()}/", "")
    assert (
        escape(change.change) in to_do
        and escape(command) in to_do
        and "Findings (" in tables
    )
    assert ": 1 group, " in repr(
        fusiondoc.parse(FIXTURES / "compare" / "one-group.log")
    )


BAD = "<script>alert(1)</script>\x1b[31m&\"'"


def test_what_a_notebook_shows_is_escaped() -> None:
    report = fusiondoc.parse(A_LOG)
    group = report.groups[0]
    node = replace(group.nodes[0], op=BAD, source=BAD, user_source=BAD)
    row = replace(
        report.unfused[0],
        op=BAD,
        user_source=BAD,
        reason=replace(report.unfused[0].reason, text=BAD),
    )
    finding = replace(report.findings[0], message=BAD, advice=BAD)
    bad = replace(
        report,
        groups=(replace(group, id=BAD, phase=BAD, nodes=(node,)),),
        unfused=(row,),
        findings=(finding,),
        environment={"torch": BAD, "gpu": BAD},
        target=Target(BAD),
        fuser=replace(report.fuser, effective=BAD),
    )
    for html in (
        report_fragment(bad, [BAD]),
        comparison_fragment(fusiondoc.compare(bad, bad)),
    ):
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        assert "\x1b" not in html


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, fusiondoc\n"
        "assert 'fusiondoc.api' not in sys.modules and 'parse' in dir(fusiondoc)\n"
        "assert fusiondoc.parse.__module__ == 'fusiondoc.api'\n"
        "assert set(fusiondoc.__all__) <= set(dir(fusiondoc))\n"
        "assert all(getattr(fusiondoc, name) is not None for name in fusiondoc.__all__)\n"
        "sys.exit(sorted({'torch', 'click'} & set(sys.modules)) or 0 or 0)\n"
    )
    root = str(Path(fusiondoc.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        check=False,
        text=True,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'prase'"):
        _ = fusiondoc.prase  # type: ignore[attr-defined]
