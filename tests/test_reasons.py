"""Reasons that no log states: what is worked out agrees with what another log of
the same program states."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FIXTURES
from thorough import every, least

import fusiondoc
from fusiondoc.diagnosis.reasons import CATCH_ALL, Reasons
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

SHARE = 0.95
"""Of the unfused rows at least this many have a reason of their own."""


def parse(path: Path) -> Report:
    return read_logs(find_logs([str(path)]), work_out=Reasons())[0]


def rows_of(paths: list) -> list:
    return [row for path in paths for row in parse(path).unfused]


def test_nearly_every_row_of_the_fixtures_has_a_reason() -> None:
    rows = rows_of(sorted((FIXTURES / "logs").glob("*.xz")))
    named = [row for row in rows if row.reason.code != "FD299"]
    assert len(rows) > 80
    assert len(named) / len(rows) >= SHARE


@pytest.mark.nightly
def test_nearly_every_row_of_the_recordings_has_a_reason(recordings: Path) -> None:
    rows = rows_of(
        sorted(
            [*recordings.glob("torch-*/*.log"), *recordings.glob("torch-*/*/*.log")]
        )
    )
    unnamed = [row for row in rows if row.reason.code == "FD299"]
    assert len(rows) > 500
    assert 1 - len(unnamed) / len(rows) >= SHARE, (
        f"{len(unnamed)} of {len(rows)} rows have no reason"
    )


def test_only_a_stated_catch_all_gives_way_to_a_cause() -> None:
    """All other stated reasons stay, and a row whose cause is found keeps the log's
    lines on it."""
    for path in every(3, sorted((FIXTURES / "logs").glob("*.xz"))):
        stated = [
            r
            for r in read_logs(find_logs([str(path)]))[0].unfused
            if r.reason.stated
        ]
        with_causes = parse(path).unfused
        assert [
            (r.op, r.source, r.phase, r.reason.code)
            for r in stated
            if r.reason.code not in CATCH_ALL
        ] == [
            (r.op, r.source, r.phase, r.reason.code)
            for r in with_causes
            if r.reason.stated and r.reason.code not in CATCH_ALL
        ]
        for row in stated:
            lines = {e.line for e in row.evidence}
            of_it = [
                r
                for r in with_causes
                if (r.op, r.source, r.phase) == (row.op, row.source, row.phase)
            ]
            assert lines <= {e.line for r in of_it for e in r.evidence}


AGREES = {"FD201", "FD233", "FD226", "FD229", "FD230", "FD235"}
"""What may be worked out for a node that nvFuser calls "not parsible": its
catalogue lacks it, its rule does not take it so, or it is no operator."""


def test_what_is_worked_out_agrees_with_what_is_stated(recordings: Path) -> None:
    """The optimised log of a program states nothing; its other log states why
    nvFuser refused each node."""
    compared = disagreed = 0
    for seed in every(5, sorted(recordings.glob("torch-*/*.seed.log"))):
        optimized = seed.with_name(seed.name.replace(".seed.", ".optimized."))
        if not optimized.exists():
            continue
        rows = read_logs(find_logs([str(seed)]))[0].unfused
        stated = {(r.op, r.source) for r in rows if r.reason.code == "FD201"}
        for row in parse(optimized).unfused:
            if (row.op, row.source) in stated and not row.reason.stated:
                compared += 1
                disagreed += (
                    row.reason.code not in AGREES and row.reason.code != "FD299"
                )
    assert compared > least(60)
    assert disagreed == 0


@pytest.mark.parametrize(
    ("log", "op", "line", "code"),
    [
        ("nnc-2.11-rejects", "aten::tanh", "models/c10_rejects.py:10", "FD227"),
        ("nvfuser-2.1.2-ordered-encoder-layer", "aten::t", None, "FD226"),
        ("nvfuser-2.1.2-fallback-compile", "aten::expand", None, "FD226"),
    ],
)
def test_reasons_that_were_read_off_the_graphs(
    log: str, op: str, line: str, code: str
) -> None:
    rows = [
        r
        for r in parse(FIXTURES / "logs" / f"{log}.log.xz").unfused
        if r.op == op and r.user_source == line and r.ran is not False
    ]
    assert rows and {r.reason.code for r in rows} == {code}
    assert not any(r.reason.stated for r in rows)


def test_a_dtype_that_the_group_behind_asks_for() -> None:
    """``(...).to(x.dtype)`` in an RMS norm keeps the addition that makes x out of
    its group under nvFuser: with ``type_as(x)``, or with the dtype named, the
    addition was in the group (H200, torch 2.1.2). The last addition waits for
    matrix products that read the first one."""
    report = fusiondoc.parse(
        FIXTURES / "logs" / "nvfuser-2.1.2-rms-norm-dtype.log.xz"
    )
    first, last = (row for row in report.unfused if row.op == "aten::add")
    assert first.reason.text.startswith(
        "the dtype of its result is read by aten::to in the group after it"
    )
    assert (
        "aten::linear" in last.reason.text
        and "is on a path from aten::add" in last.reason.text
    )
    assert {first.reason.code, last.reason.code} == {"FD227"}
    advice = [
        one.advice or "" for one in report.findings if one.ops == ("aten::add",)
    ]
    assert any("y.type_as(x) for y.to(x.dtype)" in text for text in advice)
    assert not [row for row in report.unfused if row.reason.code == "FD299"]


def test_findings_that_save_most_come_first() -> None:
    from fusiondoc.workflows.load import report_from

    report = report_from(
        [str(FIXTURES / "logs" / "nnc-2.11-primitive-layer-norm.log.xz")]
    )
    for severity in ("warning", "note"):
        equal = [
            f for f in report.findings if f.severity == severity and not f.keeps_out
        ]
        # What nothing can be done about stands last.
        saved = [
            f.saves_bytes or 0
            for f in equal
            if not (f.advice or "").startswith("Nothing")
        ]
        assert saved == sorted(saved, reverse=True)
    mean = next(row for row in report.unfused if row.op == "aten::native_dropout")
    # Two results of 16 x 128 x 1024: a float32 and a bool tensor, each written and
    # read again.
    assert mean.bytes_moved == 2 * 16 * 128 * 1024 * (4 + 1)


def test_the_true_cause_behind_a_stated_reason(tmp_path: Path) -> None:
    """nvFuser calls nine dimensions a scalar type that it does not support."""
    import raw_log

    log = raw_log.read(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")
    log = log.replace(b"node not parsible", b"input scalar type not supported")
    (tmp_path / "dims.log").write_bytes(
        log.replace(b"Float(64, 1024, ", b"Float(64, 1024, 1, 1, 1, 1, 1, 1, 1, ")
    )
    (tmp_path / "dtype.log").write_bytes(
        log.replace(b"Float(64, 1024, ", b"ComplexFloat(64, 1024, ")
    )
    for name, words in (("dims", "9 dimensions"), ("dtype", "ComplexFloat")):
        row = next(
            r
            for r in parse(tmp_path / f"{name}.log").unfused
            if r.op == "aten::cumsum"
        )
        assert row.reason.stated and row.reason.code == "FD202"
        assert words in row.reason.text


def test_an_operator_with_a_rule_is_not_said_to_have_none() -> None:
    rows = parse(
        FIXTURES / "logs" / "nvfuser-1.13.1-primitive-layer-norm.log.xz"
    ).unfused
    means = [
        row for row in rows if row.op == "aten::mean" and row.reason.code == "FD201"
    ]
    assert {row.reason.text for row in means} == {
        "its `dim` and `keepdim` are arguments of this graph, not constants"
    }
