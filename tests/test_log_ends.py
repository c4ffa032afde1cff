"""Logs that end in a crash name the group that was at work: real crashes under
nvFuser and NNC."""

from __future__ import annotations

from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.api import parse
from fusiondoc.captures.ending import Result
from fusiondoc.captures.request import KeptRequest
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.rules.fd3_crashes import crashed
from fusiondoc.model.report import Finding, Report
from fusiondoc.parsers.lines.failures import CRASH
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

NVFUSER = FIXTURES / "logs" / "nvfuser-1.12.1-crash.log.xz"
NNC = FIXTURES / "logs" / "nnc-2.13-crash.log.xz"
ORDERED = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
SEVERAL = FIXTURES / "foreign" / "resnet18.trace.eval.nvfuser.log.xz"
DIED = (
    b"bash: line 1:  4711 Segmentation fault      (core dumped) python train.py\n"
)


def report_of(log: bytes, tmp_path: Path) -> Report:
    path = tmp_path / "run.log"
    path.write_bytes(log)
    return parse(path)


def found(log: bytes, tmp_path: Path, code: str = "FD303") -> list[Finding]:
    return [one for one in report_of(log, tmp_path).findings if one.code == code]


def test_a_log_that_ends_in_the_first_run_of_a_group_names_it(
    tmp_path: Path,
) -> None:
    log = raw_log.read(NVFUSER)
    (one,) = found(log, tmp_path)
    assert one.severity == "note", "a run that went well may end there too"
    assert one.message.startswith(
        "The log ends in the first run of group G1 (add, native_dropout, add,"
    )
    assert "died" not in one.message
    assert b"running GraphCache" in log.split(b"\n")[one.evidence[0].line - 1]


@pytest.mark.parametrize(
    "words", [DIED, b"Fatal Python error: Floating point exception\n", b"Aborted\n"]
)
def test_the_words_of_the_shell_make_it_sure(words: bytes, tmp_path: Path) -> None:
    log = raw_log.read(NVFUSER)
    (one,) = found(log + words, tmp_path)
    assert one.severity == "error"
    assert one.message.startswith(
        f"The process died ({words.decode().strip()}) while compiling group G1 (add"
    )
    lines = (log + words).split(b"\n")
    assert words.strip() == lines[one.evidence[-1].line - 1].strip()


def test_a_log_that_ends_while_a_group_is_made_names_it(tmp_path: Path) -> None:
    log = raw_log.read(NVFUSER).rstrip().split(b"\n")[:-1]
    (one,) = found(b"\n".join(log) + b"\n", tmp_path)
    assert (
        "ends while nvFuser compiles group G1 (add, native_dropout" in one.message
    )


def test_a_crash_in_a_launch_names_group_and_kernel(tmp_path: Path) -> None:
    """The dumps of a run that was well, up to a launch whose time is not printed
    any more."""
    log = raw_log.read(ORDERED)
    launches = log.split(b"Launch Parameters: ")
    log = (
        b"Launch Parameters: ".join(launches[:-1])
        + b"Launch Parameters: "
        + launches[-1].split(b"\n")[0]
        + b"\n"
    )
    (one,) = found(log + DIED, tmp_path)
    group = next(
        g for g in report_of(log, tmp_path).groups if g.phase == "backward"
    )
    assert "while running group " + group.id in one.message


def test_a_crash_while_nvrtc_compiles_names_the_kernel(tmp_path: Path) -> None:
    """The same run, up to the source of its second kernel, which is printed before
    NVRTC takes it."""
    log = raw_log.read(ORDERED)
    end = (
        log.index(
            b"\n" + b"=" * 38 + b"\n",
            log.index(b"Codegen output for kernel: kernel2"),
        )
        + 40
    )
    (one,) = found(log[:end] + DIED, tmp_path)
    assert "while compiling group G2 (" in one.message and one.message.endswith(
        ", at kernel kernel2"
    )


@pytest.mark.parametrize("words", [b"", DIED])
@pytest.mark.parametrize("nth, group", [(0, "G1"), (2, "G3")])
@pytest.mark.parametrize("more", [1, 2, 5])
def test_a_log_cut_inside_the_graph_of_a_cache_names_its_group(
    nth: int, group: str, more: int, words: bytes, tmp_path: Path
) -> None:
    """nvFuser prints the graph of a GraphCache when it makes it, in the order of
    the plan."""
    lines = raw_log.read(SEVERAL).split(b"\n")
    made = [
        i for i, line in enumerate(lines) if b"GraphCache constructor: " in line
    ]
    (one,) = found(b"\n".join(lines[: made[nth] + more]) + b"\n" + words, tmp_path)
    assert ("while compiling" if words else "while nvFuser compiles") in one.message
    assert f" group {group} (" in one.message


@pytest.mark.parametrize("glue", [b"", b"\n"])
def test_dumps_of_kernels_alone_name_the_kernel(
    glue: bytes, tmp_path: Path
) -> None:
    """Of a program that dies while its output is buffered, the source of a kernel
    is cut anywhere, and the shell writes behind it."""
    log = raw_log.read(ORDERED)
    start = log.index(b"======= Codegen output for kernel: kernel2")
    end = log.index(b"\n" + b"=" * 38 + b"\n", start)
    cut = log[start : (start + end) // 2].rstrip()
    (one,) = found(cut + glue + DIED, tmp_path)
    assert one.severity == "error" and one.message.endswith(
        "kernel whose source is in the log is kernel2"
    )
    assert "kernel_cache" in str(one.advice)
    (one,) = found(cut, tmp_path)
    assert (
        one.severity == "warning"
        and "The log breaks off in the source of kernel2" in one.message
    )
    (one,) = found(log[start : end + 40] + DIED, tmp_path)
    assert one.message.endswith("kernel whose source is in the log is kernel2")
    assert not found(log[start : end + 40], tmp_path)


def test_nnc_names_the_group_whose_kernel_was_printed_last(tmp_path: Path) -> None:
    """A real one: the stack of the thread was too small for the recursion of NNC's
    passes."""
    log = raw_log.read(NNC)
    (one,) = found(log, tmp_path)
    assert "Segmentation fault" in one.message
    assert (
        "while compiling or running group G2 (mul, add, mul, sub, ... 100 operators"
        in one.message
    )
    begun = max(
        i
        for i, line in enumerate(log.split(b"\n"), 1)
        if b"TensorExprKernel graph (Before" in line
    )
    assert one.evidence[0].line == begun


def test_what_a_program_says_after_the_work_shows_that_it_was_done(
    tmp_path: Path,
) -> None:
    (one,) = found(raw_log.read(NVFUSER) + b"step 1 loss 0.3\n" + DIED, tmp_path)
    assert "; the last group that was made before is G1" in one.message
    assert not found(raw_log.read(NVFUSER) + b"step 1 loss 0.3\n", tmp_path)


def test_a_captured_run_that_died_names_the_kernel_too() -> None:
    report, observed = read_logs(find_logs([str(NNC)]))
    context = Context(
        observed, request=KeptRequest(), result=Result(signal="SIGSEGV")
    )
    (one,) = crashed(report, context)
    assert one.message.startswith(
        "The process died of SIGSEGV while compiling or running group G2"
    )


@pytest.mark.parametrize(
    "log",
    sorted(
        path.name
        for path in (FIXTURES / "logs").glob("*.xz")
        if "crash" not in path.name
    ),
)
def test_runs_that_ended_well_have_no_such_finding(log: str) -> None:
    assert not [
        one
        for one in parse(FIXTURES / "logs" / log).findings
        if one.code == "FD303"
    ]


@pytest.mark.parametrize(
    "line, tells",
    [
        (b"Segmentation fault (core dumped)", True),
        (
            b"Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)",
            True,
        ),
        (b"  exitcode  : -11 (pid: 4711)", True),
        (b"died with <Signals.SIGABRT: 6>.", True),
        (
            b"*** SIGSEGV (@0x0) received by PID 4711 (TID 0x7f) from PID 0; stack trace: ***",
            True,
        ),
        (b"terminate called after throwing an instance of 'c10::Error'", True),
        (
            b"[node7:4711:0:4711] Caught signal 11 (Segmentation fault: address not mapped to object)",
            True,
        ),
        (b"  exitcode  : 1 (pid: 4711)", False),
        (b"Process finished with exit code 0", False),
        (b"Aborted the epoch early", False),
    ],
)
def test_words_of_a_crash(line: bytes, tells: bool) -> None:
    assert (CRASH.search(line) is not None) is tells


INVALID = (
    b"Traceback (most recent call last):\n"
    b'  File "train.py", line 9, in <module>\n'
    b"    loss.backward()\n"
    b"RuntimeError: Function torch::jit::(anonymous namespace)::DifferentiableGraphBackward returned an"
    b" invalid gradient at index 0 - got [4, 8] but expected shape compatible with [8, 4]\n"
)


def test_a_fallback_and_the_error_that_its_operators_end_in_name_each_other(
    tmp_path: Path,
) -> None:
    """A group falls back, and what it computes unfused is wrong as well: two
    findings of one cause."""
    lines = raw_log.read(
        FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"
    ).split(b"\n")
    warned = next(
        i for i, line in enumerate(lines) if b"FALLBACK path has been taken" in line
    )
    log = b"\n".join(lines[: warned + 4]) + b"\n" + INVALID
    (fell,) = found(log, tmp_path, "FD302")
    (failed,) = found(log, tmp_path, "FD905")
    assert (
        "Group G2 (" in fell.message
        and "the error of FD905: RuntimeError: Function torch" in fell.message
    )
    assert failed.message.endswith(
        "it came from group G2, which had fallen back (FD302)"
    )
    later = b"\n".join(lines) + b"step 1\n" + INVALID
    assert "FD302" not in found(later, tmp_path, "FD905")[0].message
