"""A log beyond its limit keeps head, tail and every line about fusion; it says what
is missing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.captures.capture import LOGS, REQUEST, SCHEMA, Capture
from fusiondoc.probe import live_capture
from fusiondoc.reports.json_format import as_dict
from fusiondoc.runner.capped_log import CappedLog, FusionLines, Sizes, WatchedLog
from fusiondoc.runner.child import Child
from fusiondoc.workflows.load import report_from, report_of

NOISE = b"step 1 loss 0.25 |" + b"#" * 150 + b"| 12 it/s\n"
LOG = raw_log.read(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")


def what_it_says(path: Path) -> dict[str, Any]:
    """The rows of a report without lines of the log."""
    report = as_dict(report_from([str(path)]))
    rows = {
        name: report[name]
        for name in ("groups", "unfused", "fallbacks", "kernels", "fuser")
    }

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: without(inner)
                for name, inner in value.items()
                if name != "evidence"
            }
        return [without(one) for one in value] if isinstance(value, list) else value

    made: dict[str, Any] = without(rows)
    return made


def logs() -> list[Path]:
    found = sorted((FIXTURES / "logs").glob("*.log.xz")) + sorted(
        (FIXTURES / "dumps").glob("*.log.xz")
    )
    return [path for path in found if path.stat().st_size < 30_000]


@pytest.mark.parametrize("part", range(4))
def test_the_lines_about_fusion_are_all_that_a_report_needs(
    tmp_path: Path, part: int
) -> None:
    chosen = logs()[part::12]
    assert len(chosen) > 2
    for path in chosen:
        content = raw_log.read(path)
        lines = content.split(b"\n")
        fusion = FusionLines(content)
        whole, sifted = tmp_path / "whole.log", tmp_path / "sifted.log"
        whole.write_bytes(b"\n".join(lines))
        sifted.write_bytes(
            b"\n".join(line for line in lines if fusion.about(line)) + b"\n"
        )
        assert what_it_says(sifted) == what_it_says(whole), path


def test_output_of_a_program_is_not_about_fusion() -> None:
    fusion = FusionLines(b"")
    for line in (
        NOISE[:-1],
        b"Epoch 3: done",
        b"After 5 steps",
        b"loading graph (cached)",
        b"",
        b"[W] x",
    ):
        assert not fusion.about(line), line


@pytest.fixture
def small() -> Sizes:
    return Sizes.within(1 << 20)


def write(path: Path, limit: int, chunk: int = 20_000) -> tuple[CappedLog, int]:
    """Noise, a log about fusion in the middle, noise: four times the limit, in
    pieces that cut lines."""
    log = CappedLog(path, limit)
    data = (
        NOISE * (limit * 2 // len(NOISE))
        + LOG
        + NOISE * (limit * 2 // len(NOISE))
        + b"the last line\n"
    )
    most = 0
    for start in range(0, len(data), chunk):
        log.write(data[start : start + chunk])
        most = max(most, sum(one.stat().st_size for one in path.parent.iterdir()))
    assert log.written == len(data)
    return log, most


def test_head_tail_and_fusion_are_kept_within_the_limit(
    tmp_path: Path, small: Sizes
) -> None:
    path, limit = tmp_path / "log", 1 << 20
    log, most = write(path, limit)
    log.close()
    assert most <= limit + (1 << 16) and [
        one.name for one in tmp_path.iterdir()
    ] == ["log"]
    content = path.read_bytes()
    sizes = Sizes.within(limit)
    assert content[: sizes.head - 100] == (NOISE * sizes.head)[: sizes.head - 100]
    assert content.endswith(NOISE * (sizes.tail // len(NOISE)) + b"the last line\n")
    (tmp_path / "alone.log").write_bytes(LOG)
    assert what_it_says(path) == what_it_says(tmp_path / "alone.log")
    report = report_from([str(path)])
    lines = 2 * (limit * 2 // len(NOISE)) + LOG.count(b"\n") + 1
    assert (
        report.parse.left_out.lines
        + report.parse.lines
        - content.count(b"[fusiondoc] left out")
        == lines
    )
    assert report.parse.left_out.about_fusion == 0
    assert "none of them about fusion" in next(
        f.message for f in report.findings if f.code == "FD909"
    )
    counts = report.parse
    assert (
        counts.lines == counts.recognised + counts.user_output + counts.unrecognised
    )


def test_a_process_that_writes_its_own_log_is_kept_within_the_limit(
    tmp_path: Path,
) -> None:
    """``fusiondoc.capture()``: descriptors 1 and 2 are the log itself. A line is
    cut where they move on."""
    path, limit, problems = tmp_path / "log", 1 << 20, []
    most = 0
    with live_capture.redirected(str(path), problems.append) as move:
        log = WatchedLog(path, limit, lambda other: move(str(other)))
        noise = [NOISE * 1000] * 10
        for number, text in enumerate(
            (*noise[:2], LOG, *noise, *noise, b"the last line\n")
        ):
            os.write(1 + number % 2, b"half a line")
            os.write(1, b", its end\n" + text)
            most = max(most, sum(one.stat().st_size for one in tmp_path.iterdir()))
            log.look()
    log.close()
    assert not problems and [one.name for one in tmp_path.iterdir()] == ["log"]
    assert most < limit + 3 * 1000 * len(NOISE)
    content = path.read_bytes()
    assert content.startswith(
        b"half a line, its end\n" + NOISE
    ) and content.endswith(b"the last line\n")
    assert len(content) < limit * 1.2
    (tmp_path / "alone.log").write_bytes(LOG)
    assert what_it_says(path) == what_it_says(tmp_path / "alone.log")
    assert report_from([str(path)]).parse.left_out.lines > 10_000


def test_lines_about_fusion_have_a_limit_too(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", 1 << 20)
    log.write(
        NOISE * 4_000
        + b"kernel1 run in 1.0 ms, achieved: 2.0 GB/s\n" * 40_000
        + NOISE * 4_000
    )
    for _ in range(20):
        log.write(NOISE * 800)
    log.close()
    assert (tmp_path / "log").stat().st_size < (1 << 20) + (1 << 17)
    left = report_from([str(tmp_path / "log")]).parse.left_out
    assert 20_000 < left.about_fusion < 40_000


def test_a_killed_run_leaves_its_newest_lines(tmp_path: Path) -> None:
    (tmp_path / REQUEST).write_text(
        json.dumps({"schema": SCHEMA, "target": {"text": "m.py"}})
    )
    write(tmp_path / "log", 1 << 20)  # never closed
    capture = Capture(tmp_path)
    assert capture.log_names == LOGS
    report = report_of(capture)
    assert report.groups and report.parse.left_out.lines > 1_000
    assert b"the last line\n" in (tmp_path / "log.2").read_bytes()


def test_a_log_within_its_limit_is_byte_for_byte(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", 1 << 20)
    data = bytes(range(256)) * 2000
    for start in range(0, len(data), 999):
        log.write(data[start : start + 999])
    log.close()
    assert (tmp_path / "log").read_bytes() == data


def test_a_child_that_prints_without_end_does_not_fill_the_disk(
    tmp_path: Path,
) -> None:
    program = (
        "for n in range(25_000): print(f'line {n:0100}')\nprint('[fusiondoc] end')"
    )
    child = Child(
        [sys.executable, "-c", program],
        {},
        tmp_path,
        tmp_path / "log",
        60,
        kept=1 << 20,
    )
    ending = child.run()
    content = (tmp_path / "log").read_bytes()
    assert ending.exit_status == 0 and ending.log_bytes > 2 << 20 > len(content)
    assert content.startswith(b"line %0100d\nline %0100d\n" % (0, 1))
    assert content.endswith(b"line %0100d\n[fusiondoc] end\n" % 24_999)
