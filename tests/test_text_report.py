"""The terminal report: what its first screen answers, its width, its colours and
its drawings."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT, Run
from thorough import every

from fusiondoc.model.own_fuser import OwnFuser
from fusiondoc.rendering.drawing import (
    Detail,
    bar,
    can_show_blocks,
    plain,
    sparkline,
)
from fusiondoc.reports.text.screen import render
from fusiondoc.views.formatting import with_near_paths
from fusiondoc.views.report_context import can_change
from fusiondoc.workflows.load import report_from

CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
CRASH = FIXTURES / "captures" / "rotary-nvfuser-2.1.2.tar.xz"
"""The run ends with an error, whose finding has eight lines."""
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))
FOREIGN = FIXTURES / "foreign"
SCREENS = [
    *LOGS,
    *sorted(FOREIGN.glob("*.log.xz")),
    *sorted(
        (FIXTURES / "inductor" / "2.13").glob(
            "*/dedicated_log_torch_trace_*.log.xz"
        )
    ),
]
"""Logs of all fusers."""
TO_COPY = re.compile(r" +((\$|-|\+|fusiondoc) |PYTORCH_[A-Z_]+=\S+$)")
"""Lines of code, commands, and variables with their values are never broken."""
REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "path", [CAPTURE, *every(3, LOGS)], ids=lambda path: path.name
)
def test_nothing_is_wider_than_the_terminal(path: Path, width: int) -> None:
    text = render(report_from([str(path)], 4800.0), width=width)
    assert (
        max(len(line) for line in text.split("\n") if not TO_COPY.match(line))
        <= width
    )
    assert "\x1b" not in text


def test_the_first_screen_answers_the_questions() -> None:
    screen = "\n".join(
        render(report_from([str(CAPTURE)]), width=80).split("\n")[:24]
    )
    assert re.search(
        r"^Fused +7 operators in 2 groups, 0 not fused", screen, flags=re.M
    )
    assert re.search(
        r"^Kernels +4, median 1,636 to 2,890 GB/s \(34% to 60% of 4,814",
        screen,
        flags=re.M,
    )
    assert re.search(r"^Speed +not timed: --time", screen, flags=re.M)
    screen = "\n".join(
        render(report_from([str(REJECTS)]), width=80).split("\n")[:24]
    )
    assert re.search(
        r"^Not fused +aten::\w+.*\n? *.*\(FD2\d\d\)", screen, flags=re.M
    )


def rows_of_screen(report: Any) -> int:
    return len(
        render(report, width=80, detail=Detail.SUMMARY).rstrip("\n").split("\n")
    )


@pytest.mark.parametrize(
    "path", [CAPTURE, CRASH, *every(2, SCREENS)], ids=lambda path: path.name
)
def test_the_first_screen_fits_into_24_lines(path: Path) -> None:
    report = report_from([str(path)], 4800.0)
    lines = (
        "torch._C._jit_override_can_fuse_on_cpu(True)",
        "torch._C._jit_set_te_must_use_llvm_cpu(False)",
    )
    own = OwnFuser("none", "cpu", "nnc", lines)
    with_it = replace(report, fuser=replace(report.fuser, by_itself=own))
    text = render(with_it, width=80, detail=Detail.SUMMARY)
    assert (
        "Program  by itself fuses nothing: NNC is off on the CPU"
        in text.replace("    ", "  ")
    )
    assert rows_of_screen(report) <= 24
    if rows_of_screen(report) <= 20:
        assert all(line in text for line in lines)


@pytest.mark.parametrize("path", every(2, SCREENS), ids=lambda path: path.name)
def test_the_first_screen_has_the_first_change_with_its_lines_and_a_reason(
    path: Path,
) -> None:
    report = with_near_paths(report_from([str(path)], 4800.0))
    screen = " ".join(render(report, width=80, detail=Detail.SUMMARY).split())
    for change in report.plan[:1]:
        changed = f"{change.before or ''}\n{change.after or ''}".split("\n")
        assert all(
            " ".join(part.split()) in screen
            for part in (change.change, *changed, change.command)
        )
    assert (
        not any(can_change(row.reason.code) for row in report.unfused)
        or "Not fused" in screen
    )


def test_steps_that_the_first_screen_names_are_in_full_below_it() -> None:
    report = report_from(
        [str(FIXTURES / "captures" / "rotary-nvfuser-2.1.2.tar.xz")]
    )
    short = render(report, width=80, detail=Detail.SUMMARY)
    whole = render(report, width=80)
    line = "torch._C._jit_set_nvfuser_skip_node_kind("
    assert "2 more steps without --summary" in short and line not in short
    assert (
        whole.count(line) == 1
        and " 2. Run it with --knob skip_node_kind=prim::transpose_copy" in whole
    )
    assert (
        whole.index("2 more steps below")
        < whole.index("Then do this")
        < whole.index("\nGroups\n")
    )


@pytest.mark.parametrize("path", every(4, SCREENS), ids=lambda path: path.name)
def test_a_verdict_is_one_line(path: Path) -> None:
    report = report_from([str(path)], 4800.0)
    text = render(report, width=80, detail=Detail.VERDICT)
    assert text.count("\n") == 1 and text.endswith("\n")
    assert not report.plan or f"Do first: {report.plan[0].change}" in text


def kernel_lines(width: int) -> list:
    text = render(report_from([str(CAPTURE)]), width=width)
    return (
        text[text.index("\nKernels\n") :].split("\n\n")[0].strip().split("\n")[1:]
    )


def test_a_wide_terminal_shows_more_of_the_kernels() -> None:
    narrow, wide = kernel_lines(80), kernel_lines(120)
    assert (
        narrow[0].split()[:3] == ["kernel", "group", "part"]
        and "regs" not in narrow[0]
    )
    assert {"name", "regs", "warps", "MB"} <= set(wide[0].split())
    assert len(narrow) == len(wide) == 6 and narrow[5].strip().startswith(
        "first: us of the first launch"
    )
    # The log has 0.085088, 0.07712 and 0.072896 ms of kernel1, the first of them
    # after its compile.
    assert " 85.1 75.0 1,904 " in narrow[1]
    # The bar is the share of the peak: 40 % of eight characters are three.
    assert "40% ███░░░░░ bandwidth" in narrow[1] and " 50% 142.7" in wide[1]


def test_parts_of_a_group_are_numbered() -> None:
    assert [line.split()[2] for line in kernel_lines(80)[2:5]] == [
        "1/3",
        "2/3",
        "3/3",
    ]


def test_plain_ascii_where_the_encoding_has_no_blocks(fusiondoc: Run) -> None:
    done = fusiondoc("parse", CAPTURE, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stdout.isascii()
    assert "40% ###....." in done.stdout and "\\u" not in done.stdout
    blocks = fusiondoc("parse", CAPTURE, env={"PYTHONIOENCODING": "utf-8"}).stdout
    assert "40% ███░░░░░" in blocks
    assert [len(line) for line in done.stdout.split("\n")] == [
        len(line) for line in blocks.split("\n")
    ]


def on_a_terminal(tmp_path: Path, **variables: str) -> str:
    """What the command writes to a real pseudo-terminal."""
    parent, child = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
        "COLUMNS": "80",
        **variables,
    }
    if "NO_COLOR" not in variables:
        environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "fusiondoc", "parse", str(CAPTURE)],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=str(tmp_path),
    )
    os.close(child)
    data = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        data += piece
    os.close(parent)
    assert process.wait(timeout=60) == 0
    return data.decode()


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    assert "\x1b[" in on_a_terminal(tmp_path)
    assert "\x1b[" not in on_a_terminal(tmp_path, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(tmp_path, TERM="dumb")


def test_bars() -> None:
    assert bar(0, 4) == "░░░░" and bar(0.5, 4) == "██░░" and bar(1, 4) == "████"
    assert bar(0.01, 4) == "█░░░"  # something is not nothing
    assert bar(3.0, 4) == "████"  # from a cache


def test_sparklines_show_orders_of_magnitude() -> None:
    assert sparkline([1000, 10, 1, 1]) == "█▃▁▁"
    assert sparkline([1.0, 1.01, 0.99]) == "▁▁▁"  # noise
    assert sparkline([5.0]) == "" and sparkline([]) == ""
    assert sparkline([1, 1, 1, 9], most=3) == "▁▁▁…"


def test_plain_keeps_the_width() -> None:
    text = "▁▂▃▄▅▆▇█░…→× ok"
    assert plain(text).isascii() and len(plain(text)) == len(text)
    assert (
        can_show_blocks("utf-8")
        and not can_show_blocks("ascii")
        and not can_show_blocks("latin-1")
    )
    assert not can_show_blocks(None) and not can_show_blocks("no such encoding")
