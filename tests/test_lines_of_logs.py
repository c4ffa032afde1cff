"""A plan of a log shows a line of the program only as it stands in the file; else
it shows none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_from

LOGS = FIXTURES / "logs"
PROGRAM = LOGS / "in_place.py"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of a program that is not in the project of the current folder, whose
    file it names in full."""
    text = raw_log.read(LOGS / "nnc-2.13-in-place.log.xz").decode()
    program = tmp_path / "else where" / PROGRAM.name
    program.parent.mkdir()
    program.write_bytes(PROGRAM.read_bytes())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = tmp_path / "here" / "a.log"
    path.write_text(text.replace(f"# {PROGRAM.name}", f"# {program}"))
    return path


def lines(report: Report) -> list[tuple[str | None, str | None]]:
    return [(one.before, one.after) for one in report.plan if one.kind.in_source]


def test_a_file_of_another_project_is_named_with_the_option_that_reads_it(
    log: Path,
) -> None:
    report = report_from([str(log)])
    assert [one.change for one in report.plan] == [
        "Write minimum() with operators that fuse",
        "Write clamp() instead of clamp_()",
    ]
    assert lines(report) == [(None, None)] * 2
    folder = log.parent.parent / "else where"
    assert all(
        f"--source-root '{folder}' shows its lines" in str(one.note)
        for one in report.plan
    )


def test_with_that_option_its_lines_are_shown(log: Path) -> None:
    report = report_from(
        [str(log)], source_roots=(log.parent.parent / "else where",)
    )
    assert lines(report) == [
        ("return torch.minimum(h, y) * 2", "return torch.min(h, y) * 2"),
        ("h.clamp_(0.0, 1.0)", "h = h.clamp(0.0, 1.0)"),
    ]
    assert not any("--source-root" in str(one.note) for one in report.plan)


def test_a_relative_name_is_looked_for_below_that_folder_too(log: Path) -> None:
    log.write_text(re.sub(r"# .*/", "# ", log.read_text()))
    report = report_from(
        [str(log)], source_roots=(log.parent.parent / "else where",)
    )
    assert lines(report)[1] == ("h.clamp_(0.0, 1.0)", "h = h.clamp(0.0, 1.0)")


def test_a_file_that_is_not_here_or_has_changed_shows_no_line(log: Path) -> None:
    program = log.parent.parent / "else where" / PROGRAM.name
    program.write_text(
        "\n" + program.read_text().replace("h.clamp_(0.0, 1.0)", "h = h * 1.0")
    )
    changed = report_from([str(log)], source_roots=(program.parent,))
    assert set(lines(changed)) <= {(None, None)}
    program.unlink()
    gone = report_from([str(log)])
    assert lines(gone) == [(None, None)] * 2
    assert not any("--source-root" in str(one.note) for one in gone.plan)


@pytest.mark.parametrize(
    "path",
    sorted([*LOGS.glob("*.xz"), *(FIXTURES / "foreign").glob("*.xz")]),
    ids=lambda path: path.name,
)
def test_no_log_without_its_files_shows_a_line(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(lines(report_from([str(path)]))) <= {(None, None)}
