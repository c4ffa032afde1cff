"""Damaged logs: whatever was cut, spliced, doubled or replaced, there is a report,
and it adds up."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, ROOT, Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from thorough import examples

from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.reports.json_format import render as render_json
from fusiondoc.reports.text.screen import render as render_text
from fusiondoc.workflows.load import report_from

SCHEMA = Draft202012Validator(
    json.loads((ROOT / "docs" / "report.schema.json").read_text())
)
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))
PREFIX = b"[DUMP graph_fuser.cpp:2503] "

Change = Callable[[bytes], bytes]


def report(log: bytes) -> dict:
    """The JSON report of a log, checked against the schema and itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.log"
        path.write_bytes(log)
        made = report_from([str(path)])
    assert render_text(made, width=80, colour=False)
    found = json.loads(render_json(made))
    SCHEMA.validate(found)
    counts = found["parse"]
    assert (
        counts["lines"]
        == counts["recognised"] + counts["user_output"] + counts["unrecognised"]
    )
    return found


@functools.cache
def start_of(log: Path) -> bytes:
    return raw_log.read(log)[:120_000]


@st.composite
def stretches(
    draw: st.DrawFn, log: bytes, longest: int = 60
) -> tuple[list[bytes], int, int]:
    lines = log.split(b"\n")
    start = draw(st.integers(0, len(lines) - 1))
    return lines, start, min(len(lines), start + draw(st.integers(1, longest)))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    log = start_of(draw(st.sampled_from(LOGS)))
    begin = draw(st.integers(0, len(log) - 1))
    log = log[begin : begin + draw(st.integers(100, 40_000))]
    for kind in draw(st.lists(st.integers(0, 8), min_size=1, max_size=6)):
        lines, start, end = draw(stretches(log))
        if kind == 0:
            lines[start:end] = []
        elif kind == 1:
            lines[end:end] = lines[start:end] * 2
        elif kind == 2:
            other, first, last = draw(
                stretches(start_of(draw(st.sampled_from(LOGS))))
            )
            lines[start:start] = other[first:last]
        elif kind == 3:
            lines[start] += draw(st.binary(max_size=20)) + lines[end - 1]
        elif kind == 4:
            lines[start] = lines[start][draw(st.integers(0, 40)) :]
        elif kind == 5:
            lines[start:end] = draw(st.permutations(lines[start:end]))
        elif kind == 6:
            ranks = draw(st.lists(st.integers(0, 3), min_size=1, max_size=7))
            lines = [
                b"[rank%d]:" % ranks[i % len(ranks)] + line
                for i, line in enumerate(lines)
            ]
        elif kind == 7:
            ending = draw(st.sampled_from((b"\r", b"\r\n\n", b"\n\r", b"\0")))
            lines[start:end] = [line + ending for line in lines[start:end]]
        else:
            number = draw(
                st.sampled_from(
                    (
                        b"-1",
                        b"nan",
                        b"",
                        b"%",
                        b"(",
                        b'"',
                        b"[",
                        b"\xff",
                        b"9" * 5000,
                    )
                )
            )
            lines[start:end] = [
                re.sub(rb"\d+", number, line, count=1) for line in lines[start:end]
            ]
        log = b"\n".join(lines) or b"x"
    return log


@settings(
    max_examples=examples(250),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(damaged())
def test_a_damaged_log_gives_a_report_that_adds_up(log: bytes) -> None:
    report(log)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.binary(min_size=1, max_size=5000))
def test_any_bytes(data: bytes) -> None:
    report(data)


DIGITS = b"9" * 6000
LAUNCH = b"BlockDim.x = 1, BlockDim.y = 1, BlockDim.z = 1, GridDim.x = 1, GridDim.y = 1, GridDim.z = 1"


@pytest.mark.parametrize(
    "line",
    [
        b"Launch Parameters: " + LAUNCH + b", Smem Size = " + DIGITS,
        b"[fusiondoc] iteration " + DIGITS + b"/5 forward inputs 1",
        b"ptxas info : Compiling entry function '_ZN11CudaCodeGen"
        + DIGITS
        + b"kernel1E' for 'sm_80'",
        (b"rank" + DIGITS + b": " + PREFIX + b"Before Compilation: \n") * 5,
        PREFIX
        + b"Before Compilation: \n"
        + PREFIX
        + b"graph():\n"
        + PREFIX
        + b"  block"
        + DIGITS
        + b"():",
    ],
    ids=["launch", "mark", "ptxas", "rank", "block"],
)
def test_numbers_too_long_for_an_integer(line: bytes) -> None:
    """Python refuses to read integers of more than 4300 digits."""
    report(line + b"\nkernel1 run in 1 ms, achieved: 1 GB/s\n")


def nested(depth: int) -> bytes:
    """A graph of ``depth`` branches in one another, with a relu in the
    innermost."""
    body = [b"graph(%x : Tensor, %c : bool):"]
    for i in range(depth):
        blanks = b"    " * i
        body += [
            blanks + b"  %%o%d : Tensor = prim::If(%%c) # a.py:%d:4" % (i, i),
            blanks + b"    block0():",
        ]
    body.append(b"    " * depth + b"  %z : Tensor = aten::relu(%x) # a.py:9999:4")
    for i in reversed(range(depth)):
        blanks, inner = b"    " * i, b"%%o%d" % (i + 1) if i + 1 < depth else b"%z"
        body += [
            blanks + b"      -> (" + inner + b")",
            blanks + b"    block1():",
            blanks + b"      -> (%x)",
        ]
    return b"".join(
        PREFIX + line + b"\n"
        for line in [b"Before Compilation: ", *body, b"  return (%o0)"]
    )


@pytest.mark.parametrize("depth", [3, 240])
def test_branches_nested_deep(depth: int) -> None:
    found = report(nested(depth))
    assert [row["op"] for row in found["unfused"]].count("aten::relu") == 1
    assert found["parse"]["unrecognised"] == 0


def test_lines_that_interrupt_a_kernel_after_its_text_count_once() -> None:
    found = report(
        b"======= Codegen output for kernel: kernel1 =======\n"
        b"int a; [DEBUG kernel_cache.cpp:818] running GraphCache: 0x1\nint b;\n"
        + b"=" * 38
        + b"\n"
    )
    assert found["kernels"][0]["code"] == "int a; \nint b;"


@pytest.mark.parametrize("size", [b"-3", b"9" * 4000])
def test_a_size_that_no_tensor_has_gives_no_bytes(size: bytes) -> None:
    log = raw_log.read(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")
    found = report(re.sub(rb"(Float\()\d+", rb"\g<1>" + size, log))
    assert found["groups"]
    assert {group["bytes_in"] for group in found["groups"]} == {None}


def test_branches_nested_deeper_than_python_can_recurse(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "deep.log").write_bytes(nested(1500))
    done = fusiondoc("parse", "deep.log")
    assert (done.returncode, done.stderr) == (0, "")


def frame(name: bytes, end: bytes) -> bytes:
    return (
        b"======= Codegen output for kernel: "
        + name
        + b" =======\n\nint x;\n"
        + end
    )


def test_a_kernel_that_breaks_off_does_not_swallow_the_next_one() -> None:
    whole = frame(
        b"kernel1", b"=" * 38 + b"\n\nkernel1 run in 0.5 ms, achieved: 4 GB/s\n"
    )
    alone = report(whole)["kernels"]
    found = report(frame(b"kernel9", b"") + whole)
    assert [(k["name"], k["launches"], k["code"]) for k in found["kernels"]] == [
        (k["name"], k["launches"], k["code"]) for k in alone
    ]
    assert found["parse"]["truncated"] == 1


@pytest.mark.nightly
def test_a_printed_graph_without_an_end_is_given_up() -> None:
    found = report(
        b"graph(%x : Tensor):\n"
        + b"  %1 : int = prim::Constant[value=1]()\n" * 170_000
    )
    assert found["parse"]["truncated"] == 1
    assert found["parse"]["recognised"] < 160_000


def test_a_line_in_many_blocks() -> None:
    found = report(
        b"x" * 3_000_000
        + b"\nkernel1 run in 0.5 ms, achieved: 4 GB/s\n"
        + b"y" * 2_000_000
    )
    assert found["parse"]["lines"] == 3
    assert found["kernels"][0]["evidence"][0]["line"] == 2


def test_evidence_is_each_line_once_in_order() -> None:
    lines = array("Q", [3, 5, 9])
    assert [e.line for e in PackedEvidence(lines, ["a"])] == [3, 5, 9]
    assert [e.line for e in PackedEvidence(array("Q", [5, 3, 5]), ["a"])] == [3, 5]
    assert [e.line for e in PackedEvidence([5, 3, 3], ["a"])] == [3, 5]


def test_jit_lines_of_other_passes_alone_get_a_next_step() -> None:
    found = report(b"[DEBUG strange_pass.cpp:123] doing 3 things\n" * 5)
    (finding,) = found["findings"]
    assert finding["code"] == "FD901"
    assert "strange_pass" in finding["message"]
    assert "PYTORCH_JIT_LOG_LEVEL" in finding["advice"]
