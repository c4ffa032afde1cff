"""Stated reasons and fallbacks in every wording that torch has had.

The recordings hold only some of them; the others are the strings of the release
binaries of torch 1.11 to 2.0, put into a real log in place of the recorded ones.
"""

# ruff: noqa: E501  (log lines as torch prints them)

from __future__ import annotations

import re
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

LOGS = FIXTURES / "logs"
REJECTS = raw_log.read(LOGS / "nvfuser-2.1.2-rejects-full.log.xz")
FALLBACK = raw_log.read(LOGS / "nvfuser-2.1.2-fallback-run.log.xz")

TEXTS = {
    "rejecting node from fusion (node not parsible): ": "FD201",
    "rejecting node from fusion (input scalar type not supported): ": "FD202",
    "rejecting node from fusion (output scalar type not supported): ": "FD203",
    "rejecting node (non-cuda device): ": "FD204",
    "rejecting node (non element-wise op not supported on SM < 7X): ": "FD205",
    "rejecting node (bfloat not supported on SM < 8X): ": "FD206",
    "rejecting node from fusion (outputs device not matching fusion): ": "FD207",
}


def parse(log: bytes, folder: Path) -> Report:
    path = folder / "run.log"
    path.write_bytes(log)
    return read_logs(find_logs([str(path)]))[0]


@pytest.mark.parametrize(("text", "code"), TEXTS.items())
def test_each_text_of_partition(text: str, code: str, tmp_path: Path) -> None:
    log = REJECTS.replace(
        b"rejecting node from fusion (node not parsible): ", text.encode()
    )
    report = parse(log, tmp_path)
    rows = {row.op: row for row in report.unfused if row.reason.stated}
    assert {row.reason.code for row in rows.values()} == {code}
    assert rows.keys() == {
        "aten::cumsum",
        "aten::sort",
        "aten::index_select",
        "aten::erfinv",
    }
    cumsum = rows["aten::cumsum"]
    assert (cumsum.count, cumsum.user_source) == (1, "models/c10_rejects.py:4")
    lines = log.split(b"\n")
    said = [
        i
        for i, line in enumerate(lines, 1)
        if text.encode() in line and b"aten::cumsum" in line
    ]
    assert [e.line for e in cumsum.evidence] == said and len(said) > 1


def test_a_node_that_was_rejected_for_two_reasons_has_the_telling_one(
    tmp_path: Path,
) -> None:
    node = next(
        line
        for line in REJECTS.split(b"\n")
        if b"rejecting" in line and b"aten::cumsum" in line
    )
    other = node.replace(b"node not parsible", b"input scalar type not supported")
    report = parse(REJECTS.replace(node, node + b"\n" + other), tmp_path)
    (row,) = (row for row in report.unfused if row.op == "aten::cumsum")
    assert row.reason.code == "FD202"


def test_rejections_without_any_graph_are_rows_of_their_own(tmp_path: Path) -> None:
    only = b"".join(
        line + b"\n" for line in REJECTS.split(b"\n") if b"rejecting" in line
    )
    report = parse(only, tmp_path)
    assert not report.groups
    assert {row.op for row in report.unfused} >= {
        "aten::cumsum",
        "aten::sort",
        "aten::erfinv",
    }
    assert all(
        row.reason.stated and row.phase is None and row.evidence
        for row in report.unfused
    )


def warning(body: bytes) -> bytes:
    """The recorded fallback with another wording."""
    start = FALLBACK.index(
        b"site-packages/torch/autograd/__init__.py:251: UserWarning: FALLBACK"
    )
    end = FALLBACK.index(b"[DEBUG", start)
    return FALLBACK[:start] + body + FALLBACK[end:]


HOW_1_12 = b"To debug try disable codegen fallback path via setting the env variable `export PYTORCH_NVFUSER_DISABLE=fallback`\n"
HOW_1_11 = (
    b" To debug try disable codegen fallback pathvia setting the env variable"
    b"`export PYTORCH_NVFUSER_DISABLE_FALLBACK=1`"
)
WARNINGS = {
    "1.13 and 2.x, Python": (
        b"train.py:9: UserWarning: FALLBACK path has been taken inside: runCudaFusionGroup. This is an indication that"
        b" codegen Failed for some reason.\n"
        + HOW_1_12
        + b" (Triggered internally at ../torch/csrc/jit/codegen/"
        b"cuda/manager.cpp:335.)\n  loss.backward()\n",
        "run",
        False,
    ),
    "1.12, C++": (
        b"[W manager.cpp:331] Warning: FALLBACK path has been taken inside: runCudaFusionGroup. This is an indication"
        b" that codegen Failed for some reason.\n"
        + HOW_1_12
        + b" (function runCudaFusionGroup)\n",
        "run",
        True,
    ),
    "2.0, C++ with a time": (
        b"[W1121 04:57:12.698093058 manager.cpp:335] Warning: FALLBACK path has been taken inside: runCudaFusionGroup."
        b" This is an indication that codegen Failed for some reason.\n"
        + HOW_1_12
        + b" (function operator())\n",
        "run",
        True,
    ),
    "Windows": (
        b"C:\\train.py:9: UserWarning: FALLBACK path has been taken inside: torch::jit::fuser::cuda::"
        b"runCudaFusionGroup. This is an indication that codegen Failed for some reason.\n"
        + HOW_1_12
        + b" (Triggered internally at C:\\b\\manager.cpp:331.)\n  loss.backward()\n",
        "run",
        False,
    ),
    "1.11": (
        b"train.py:9: UserWarning: FALLBACK path has been taken. This is an indication that codegenFailed for some"
        b" reason."
        + HOW_1_11
        + b" (Triggered internally at  ../torch/csrc/jit/codegen/cuda/manager.cpp:230.)\n"
        b"  loss.backward()\n",
        "run",
        False,
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_each_generation_of_the_run_stage_warning(
    name: str, tmp_path: Path
) -> None:
    body, stage, exact = WARNINGS[name]
    report = parse(warning(body), tmp_path)
    (fallback,) = report.fallbacks
    assert (fallback.stage, fallback.group, fallback.count) == (stage, "G2", 1)
    assert fallback.count_exact is exact
    assert [g.fallback for g in report.groups] == [False, True]
    assert report.parse.user_output == 0 and report.parse.unrecognised == 0


def test_several_warnings_are_counted_for_their_group(tmp_path: Path) -> None:
    body = WARNINGS["1.12, C++"][0]
    (fallback,) = parse(warning(body * 3), tmp_path).fallbacks
    assert (fallback.count, fallback.count_exact, len(fallback.evidence)) == (
        3,
        True,
        3,
    )


def test_a_compile_fallback_without_the_dump_of_manager(tmp_path: Path) -> None:
    """Only the warning: Python shows it once, and the group is the one compiled
    last."""
    log = raw_log.read(LOGS / "nvfuser-2.1.2-fallback-compile.log.xz")
    lines = [line for line in log.split(b"\n") if b"manager.cpp:251" not in line]
    report = parse(b"\n".join(lines), tmp_path)
    (fallback,) = report.fallbacks
    assert (fallback.stage, fallback.count, fallback.count_exact) == (
        "compile",
        1,
        False,
    )
    group = next(g for g in report.groups if g.id == fallback.group)
    assert group.fallback and len(group.nodes) == 15


def test_guards_are_no_fallbacks(recordings: Path, tmp_path: Path) -> None:
    """Every plan has a fallback_function in the else-branch of its guards."""
    for log in (recordings / "torch-2.1.2").glob("c*.optimized.log"):
        assert b"fallback_function" in log.read_bytes() or "c06" in log.name
        assert not parse(log.read_bytes(), tmp_path).fallbacks


def test_nodes_of_one_pass_are_counted_not_those_of_all_passes(
    tmp_path: Path,
) -> None:
    """The plan is not in the log; the next pass over the same program names its
    values anew."""
    kept = [
        line
        for line in REJECTS.split(b"\n")
        if b"rejecting" in line or b"Before Fusion:" in line
    ]
    once = b"".join(line + b"\n" for line in kept)
    again = re.sub(rb"%([\w.]+)", rb"%\1.7", once)

    def counts(log: bytes) -> dict[tuple[str, str | None], tuple[int, int]]:
        rows = parse(log, tmp_path).unfused
        return {(r.op, r.source): (r.count, len(r.evidence)) for r in rows}

    first, both = counts(once), counts(once + again)
    assert {key: count for key, (count, _) in both.items()} == {
        k: c for k, (c, _) in first.items()
    }
    assert (
        all(both[key][1] == 2 * lines for key, (_, lines) in first.items())
        and first
    )
