"""A log that was cut off, at its end or its beginning, loses no row that what is
left of it holds whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.model.report import Group, Report
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs

REFUSED = (
    "ir/nvfuser-2.1.2-rejects",
    "logs/nvfuser-2.1.2-rejects-full",
    "logs/nnc-2.11-rejects",
)
PLANNED = (
    "logs/nvfuser-2.1.2-rejects-full",
    "logs/nvfuser-2.1.2-ordered-layer-norm",
    "logs/nvfuser-2.1.2-fallback-run",
    "logs/nvfuser-1.12.1-crash",
    "logs/nnc-2.11-add-relu",
    "logs/nnc-2.11-rejects",
    "logs/nvfuser-2.1.2-no-autodiff-optimized",
)
SAID = re.compile(rb"rejecting node|Failed cond ")
PLAN = re.compile(
    rb"\] (?:Before Compilation|After TExprFuser|Optimized Graph): ?$"
)


def lines_of(name: str) -> list[bytes]:
    return raw_log.read(FIXTURES / f"{name}.log.xz").split(b"\n")


def report(lines: list[bytes], folder: Path) -> Report:
    log = folder / "cut.log"
    log.write_bytes(b"\n".join(lines))
    return read_logs([LogInput("cut.log", log)], work_out=Reasons(None))[0]


def rejections_shown(made: Report, lines: list[bytes]) -> set[int]:
    """The lines that state a rejection and are evidence of a row."""
    found = {one.line for row in made.unfused for one in row.evidence}
    return {number for number in found if SAID.search(lines[number - 1])}


def plans(lines: list[bytes]) -> Iterator[tuple[int, int]]:
    """First line and the line after the last of each print of a plan, from 0."""
    for start, line in enumerate(lines):
        if PLAN.search(line):
            prefix = line[: line.index(b"]") + 1]
            end = start + 1
            while (
                end < len(lines)
                and lines[end].startswith(prefix)
                and not PLAN.search(lines[end])
            ):
                end += 1
            yield start, end


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_refused_before_a_cut_is_shown(name: str, tmp_path: Path) -> None:
    lines = lines_of(name)
    whole = rejections_shown(report(lines, tmp_path), lines)
    assert whole
    cuts = {
        start + (end - start) * part // 6
        for start, end in plans(lines)
        for part in range(7)
    }
    cuts |= {len(lines) * part // 12 for part in range(4, 12)}
    for cut in sorted(cuts):
        shown = rejections_shown(report(lines[:cut], tmp_path), lines)
        lost = {number for number in whole if number <= cut} - shown
        assert not lost, (
            f"cut after line {cut}: {[lines[number - 1] for number in lost]}"
        )


def key(group: Group) -> tuple[object, ...]:
    return group.kind, group.nodes, group.inputs, group.outputs


def groups_of(made: Report) -> set[tuple[object, ...]]:
    return set(map(key, made.groups))


@pytest.mark.parametrize("name", PLANNED)
def test_groups_whose_plan_has_lost_its_beginning_are_shown(
    name: str, tmp_path: Path
) -> None:
    lines = lines_of(name)
    every = groups_of(report(lines, tmp_path))
    checked = 0
    for start, end in list(plans(lines))[:3]:
        whole = report(lines[start:end], tmp_path).groups
        for cut in sorted(
            {start + 1 + (end - start) * part // 5 for part in range(5)}
        ):
            left = {
                key(group)
                for group in whole
                if start + group.evidence[0].line - 1 >= cut
            }
            found = groups_of(report(lines[cut:], tmp_path))
            assert left <= found, f"cut before line {cut + 1}"
            assert found <= every, (
                f"cut before line {cut + 1}: groups that the whole log does not have"
            )
            checked += len(left)
    assert checked
