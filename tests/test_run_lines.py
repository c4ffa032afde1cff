"""The line of a run that check leaves for a history: its figures, and the file that
keeps many of them."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT

import fusiondoc
from fusiondoc.errors import UsageError
from fusiondoc.expectations.gate import gate
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Report
from fusiondoc.workflows import history_runs
from fusiondoc.workflows.history_runs import read_runs
from fusiondoc.workflows.lines_of_runs import append_lines, failed_line, line_of

LOG = FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz"


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(LOG)


def test_the_groups_of_a_line_are_those_that_the_log_prints(bert: Report) -> None:
    line = line_of(bert, "bert")
    text = lzma.decompress(LOG.read_bytes()).decode()
    plan = text[text.rindex("Before Compilation:") :].split(
        "with prim::CudaFusionGroup_0", 1
    )[0]
    assert (
        line.number_of_groups
        == len(re.findall(r"= prim::CudaFusionGroup_\d+", plan))
        > 3
    )
    assert line.operators == sum(
        len(group.ops) * group.count for group in line.groups
    )
    assert (line.status, line.lost, line.cached) == ("holds", (), False)


def test_a_broken_expectation_is_lost(bert: Report) -> None:
    section = loads(
        "number_of_groups: 1000\nmax_fallbacks: 0\n", "f.yaml"
    ).sections[0]
    report = bert.__class__(
        **{**vars(bert), "expectations": tuple(gate(section, bert, "f.yaml"))}
    )
    line = line_of(report, "bert")
    assert (line.status, line.held, len(line.lost)) == ("broken", 1, 1)
    assert line.lost[0].startswith("expected 1000 groups; found ")


def test_a_line_comes_back_as_it_was_written(bert: Report, tmp_path: Path) -> None:
    lines = [
        line_of(bert, "bert", date="2026-11-24T10:00:00+00:00"),
        failed_line("gone", "no such file"),
    ]
    file = tmp_path / "history" / "runs.jsonl"
    append_lines(file, lines)
    assert read_runs([str(file)], tmp_path).runs == tuple(lines)
    assert file.read_text().count("\n") == 2
    with file.open("a") as cut_off:
        cut_off.write(
            json.dumps({"schema": "fusiondoc.run/2"})
            + "\n"
            + file.read_text()[:100]
        )
    read = read_runs([str(file)], tmp_path)
    assert read.runs == tuple(lines)
    assert [one.source for one in read.unreadable] == [f"{file}:3", f"{file}:4"]


def test_processes_that_append_at_a_time_lose_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from fusiondoc.workflows.lines_of_runs import *\n"
        "for number in range(20): append_lines(Path(sys.argv[1]), [failed_line('m' * 9000, 'x')] * 3)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "runs.jsonl")]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(read_runs([str(tmp_path / "runs.jsonl")], tmp_path).runs) == 180


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        append_lines(tmp_path / "runs.jsonl", [failed_line("m", "x")])


def test_runs_with_equal_plans_share_them_and_others_keep_their_own(
    bert: Report, tmp_path: Path
) -> None:
    line = line_of(bert, "bert")
    other = replace(line, groups=line.groups[:-1], outside=())
    file = tmp_path / "runs.jsonl"
    append_lines(file, [line, other, line])
    first, second, third = read_runs([str(file)], tmp_path).runs
    assert (first, second, third) == (line, other, line)
    assert first.groups is third.groups and first.outside is third.outside


def test_a_line_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_runs, "_MOST_OF_A_LINE", 1 << 20)
    file = tmp_path / "runs.jsonl"
    file.write_bytes((b" " * 1000 + b"\n") * 2100)
    assert read_runs([str(file)], tmp_path).runs == ()
    file.write_bytes(b"x" * (2 << 20))
    with pytest.raises(UsageError, match="a line is larger than 1 MiB"):
        read_runs([str(file)], tmp_path)


def test_a_line_of_lists_in_lists_is_no_run(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    deep = "[" * 100_000 + "]" * 100_000
    file.write_text('{"schema": "fusiondoc.run/1", "groups": ' + deep + "}\n[]\n")
    assert len(read_runs([str(file)], tmp_path).unreadable) == 2
