"""Recordings of torch.compile that lack something, and errors of it: what is shown,
and what is missing."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from command_line import Run
from conftest import FIXTURES
from inductor_recordings import RECORDINGS, Recording
from running import python_apart
from thorough import every

from fusiondoc.fusers.inductor.break_texts import line_of_compiler_error
from fusiondoc.workflows.load import report_from

COMPOSITE = FIXTURES / "inductor" / "2.11" / "composite"

ERROR = """
torch._dynamo.exc.TorchRuntimeError: RuntimeError when making fake tensor call

from user code:
   File "/home/user/model.py", line 4, in model
    def model(x): return boom(x.sin()) + 1
                         ^^^^^^^^^^^^^^^^^
  File "/env/lib/python3.11/site-packages/torch/_library/custom_ops.py", line 863, in __call__
    return self._opoverload(*args, **kwargs)

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
"""Of torch 2.13, for a custom operator without a fake implementation."""


def test_the_line_of_an_error_is_the_programs_and_not_torchs() -> None:
    assert line_of_compiler_error(ERROR) == "/home/user/model.py:4"
    of_torch_alone = ERROR.replace(
        "/home/user/model.py", "/env/lib/python3.11/site-packages/torch/nn/a.py"
    )
    assert (line_of_compiler_error(of_torch_alone) or "").endswith(
        "custom_ops.py:863"
    )
    assert line_of_compiler_error("RuntimeError: no traceback") is None


def test_a_trace_without_code_says_so(fusiondoc: Run, tmp_path: Path) -> None:
    (path,) = COMPOSITE.glob("dedicated_log_torch_trace_*.xz")
    records = re.split(r"(?m)^(?=V\d)", lzma.decompress(path.read_bytes()).decode())
    kept = [
        record
        for record in records
        if "inductor_output_code" not in record.partition("\n")[0]
    ]
    assert len(kept) == len(records) - 2
    (tmp_path / "trace.log").write_text("".join(kept), "utf-8")
    done = fusiondoc("parse", tmp_path / "trace.log", "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["coverage"]["unknown"]
    shown = fusiondoc("parse", tmp_path / "trace.log", "--summary").stdout
    assert "unknown: no code is known that torch.compile generated" in shown
    found = {one["code"]: one for one in report["findings"]}
    assert found["FD923"]["message"].startswith("The log has no generated code")
    assert "TORCH_TRACE=" in found["FD923"]["advice"] and "FD922" not in found
    assert (
        report["plan"][0]["codes"] == ["FD923"]
        and "output_code" in report["plan"][0]["change"]
    )


def test_a_compilation_that_failed_in_a_trace_has_its_error(tmp_path: Path) -> None:
    """It has graphs and no code, and the error is in the metrics, behind them."""
    (path,) = COMPOSITE.glob("dedicated_log_torch_trace_*.xz")
    records = re.split(r"(?m)^(?=V\d)", lzma.decompress(path.read_bytes()).decode())
    kept = [
        record
        for record in records
        if "inductor_output_code" not in record.partition("\n")[0]
    ]
    failed = "".join(kept).replace(
        '"fail_reason": null', '"fail_reason": "AssertionError: scheduler broke"'
    )
    (tmp_path / "trace.log").write_text(failed, "utf-8")
    report = report_from([str(tmp_path / "trace.log")])
    assert report.compiled is not None
    assert report.compiled.graphs[0].failed == "AssertionError: scheduler broke"
    assert report.plan[0].codes == ("FD312",)


FAILS = """
import torch
{0}
def backend(graph, examples):
    raise RuntimeError("no kernel for this graph")

@torch.compile(backend=backend)
def f(x):
    return torch.relu(x) + 1

f(torch.ones(4))
"""
FAILED = "BackendCompilerFailed: backend='backend' raised: RuntimeError: no kernel for this graph"


@pytest.mark.parametrize("goes_on", [True, False], ids=["suppressed", "raised"])
def test_a_compilation_that_failed_in_a_log_has_its_error(
    tmp_path: Path, goes_on: bool
) -> None:
    """Torch's warning where the program goes on in eager code, which has the prefix
    of TORCH_LOGS on each line of its traceback; or the traceback that ends the
    program. The same with a prefix of containers."""
    suppressed = "torch._dynamo.config.suppress_errors = True" if goes_on else ""
    (tmp_path / "model.py").write_text(FAILS.format(suppressed), "utf-8")
    done = python_apart(tmp_path / "model.py")
    assert (
        done.returncode == 0
    ) == goes_on and "BackendCompilerFailed" in done.stderr
    for name, prefix in (
        ("plain", ""),
        ("prefixed", "2026-11-28T10:00:00Z worker-0 | "),
    ):
        log = tmp_path / f"{name}.log"
        log.write_text(
            "".join(f"{prefix}{line}\n" for line in done.stderr.splitlines()),
            "utf-8",
        )
        report = report_from([str(log)])
        errors = [one for one in report.findings if one.severity == "error"]
        assert [one.code for one in errors] == ["FD312"] and errors[
            0
        ].message.endswith(FAILED)
        assert report.plan[0].codes == ("FD312",)
        assert not any(
            "PYTORCH_JIT_LOG_LEVEL" in (one.advice or "") for one in report.findings
        )
        if goes_on:
            assert report.frontend == "dynamo" and (
                errors[0].source or ""
            ).endswith("model.py:7")
            assert not any(
                one.code in ("FD901", "FD902", "FD924") for one in report.findings
            )


def test_what_code_without_comments_and_provenance_lacks_is_in_the_fusion_log(
    tmp_path: Path,
) -> None:
    """C++ has no comments on operators, and 14 of 15 backward graphs have an empty
    provenance."""
    recording = next(one for one in RECORDINGS if one.name == "2.13-norm")
    trace, log = tmp_path / "trace.log", tmp_path / "fusion.log"
    data = lzma.decompress(recording.trace.read_bytes()).decode()
    bare = re.sub(r"(?m)^\t *(?:// |# (?!AOT ID)).*\n", "", data)
    records = re.split(r"(?m)^(?=V\d)", bare)
    emptied = [
        f"{record.partition(chr(10))[0]}\n\t{{}}\n"
        if "provenance" in record.partition("\n")[0]
        else record
        for record in records
    ]
    assert emptied != records and bare != data
    trace.write_text("".join(emptied), "utf-8")
    report = report_from([str(trace)])
    assert report.plan[0].codes == ("FD923",) and not any(
        one.code == "FD922" for one in report.findings
    )
    assert (
        report.coverage.unknown == "the log does not show all operators of kernels"
    )
    recorded = lzma.decompress(recording.log.read_bytes()).splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in recorded if b"[__fusion]" in line))
    both = report_from([str(trace), str(log)])  # what the advice gives
    assert (
        not any(one.code.startswith("FD92") for one in both.findings)
        and both.coverage.is_known
    )


@pytest.mark.parametrize(
    "searched", [b"cannot fuse ", b"fusing ", b"  SchedulerNode("], ids=str
)
def test_lines_that_were_searched_for_alone_are_of_torch_compile(
    searched: bytes, tmp_path: Path
) -> None:
    """``grep "cannot fuse"``: no round begins in it."""
    log = lzma.decompress((COMPOSITE / "log.xz").read_bytes())
    lines = [
        line
        for line in log.splitlines(keepends=True)
        if b"[__fusion]" in line and searched in line
    ]
    (tmp_path / "found.log").write_bytes(b"".join(lines))
    report = report_from([str(tmp_path / "found.log")])
    assert len(lines) > 1 and (
        report.parse.recognised,
        report.parse.unrecognised,
    ) == (len(lines), 0)
    assert (
        report.frontend == "dynamo"
        and report.compiled is not None
        and not report.compiled.unknown_texts
    )
    found = {one.code: one for one in report.findings}
    assert "TORCH_LOGS=" in (found["FD923"].advice or "") and "FD901" not in found


def test_texts_of_a_later_torch_are_counted_and_shown(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = lzma.decompress((COMPOSITE / "log.xz").read_bytes()).decode()
    later = log.replace("no shared data", "a text of a later torch")
    assert later != log
    (tmp_path / "later.log").write_text(later, "utf-8")
    report = json.loads(
        fusiondoc("parse", tmp_path / "later.log", "--format", "json").stdout
    )
    others = [
        one for one in report["boundaries"] if one["cause"]["code"] == "FD278"
    ]
    assert others and all(
        "a text of a later torch" in one["cause"]["text"] for one in others
    )
    assert "FD924" in {one["code"] for one in report["findings"]}


def shown_of(path: Path) -> list[object]:
    """Groups, calls and boundaries with their causes."""
    report = report_from([str(path)])
    return [
        Counter((group.kind, group.phase, group.ops) for group in report.groups),
        Counter((row.op, row.reason.code) for row in report.unfused),
        Counter(
            (one.bytes, one.kind, one.cause and one.cause.text)
            for one in report.boundaries
        ),
    ]


@pytest.mark.parametrize(
    "recording", every(5, RECORDINGS), ids=lambda recording: recording.name
)
def test_lines_of_worker_processes_between_those_of_a_message_change_nothing(
    recording: Recording, tmp_path: Path
) -> None:
    """As with TORCHINDUCTOR_COMPILE_THREADS: workers compile while the parent
    prints code."""
    worker = b"V1124 15:01:33.106000 99999 torch/_inductor/runtime/triton_heuristics.py:100] [__autotuning] 2"
    warning = (
        b"/env/torch/_inductor/compile_worker/subproc_pool.py:1: UserWarning: slow"
    )
    draw, lines = random.Random(1), []
    for line in lzma.decompress(recording.log.read_bytes()).split(b"\n"):
        lines.append(line)
        lines += [one for one in (worker, warning) if draw.random() < 0.1]
    log = tmp_path / "workers.log"
    log.write_bytes(b"\n".join(lines))
    assert shown_of(log) == shown_of(recording.log)


def texts_in(data: bytes) -> list[tuple[int, int]]:
    """Of a trace: where the payload of each graph and module begins, and where its
    last return does."""
    found = []
    for record in re.finditer(
        rb"(?m)^\S.*\{\"(?:inductor_post_grad_graph|inductor_output_code)\".*\n((?:\t.*\n)+)",
        data,
    ):
        call = max(0, record[1].find(b"def call("))
        end = re.search(rb"(?m)^\t\s+return\b", record[1][call:])
        assert end is not None
        found.append((record.start(1), record.start(1) + call + end.start()))
    return found


@pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)
def test_a_trace_that_is_cut_counts_what_lost_its_end(
    recording: Recording, tmp_path: Path
) -> None:
    data = lzma.decompress(recording.trace.read_bytes())
    assert report_from([str(recording.trace)]).parse.truncated == 0
    draw, cut = random.Random(recording.name), tmp_path / "cut.log"
    for begin, end in texts_in(data)[:2]:
        cut.write_bytes(data[: draw.randrange(begin, end)])
        report = report_from([str(cut)])
        assert report.parse.truncated == 1
        assert "FD902" in {one.code for one in report.findings}


@pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)
def test_a_log_that_is_cut_counts_rounds_without_an_end(
    recording: Recording, tmp_path: Path
) -> None:
    data = lzma.decompress(recording.log.read_bytes())
    assert report_from([str(recording.log)]).parse.truncated == 0
    begin, end = (
        data.find(b"===== attempting fusion (1/"),
        data.find(b"===== fusion complete"),
    )
    if begin < 0:
        return  # a warm cache: nothing was lowered
    cut = tmp_path / "cut.log"
    cut.write_bytes(
        data[: random.Random(recording.name).randrange(begin + 60, end)]
    )
    assert report_from([str(cut)]).parse.truncated == 1


@pytest.mark.parametrize(
    "prefix",
    (
        b"2024-01-01T00:00:00Z ",
        b"web-1  | ",
        b"build\tTest\t2024-01-01T00:00:%02d.1234567Z ",
        b"[01:02:%02d] ",
    ),
)
@pytest.mark.parametrize("name", ("mlp", "warm_cache"))
def test_a_trace_behind_times_or_tags_is_read_like_the_plain_one(
    name: str, prefix: bytes, tmp_path: Path
) -> None:
    trace = (
        FIXTURES / "inductor" / "2.11" / name / "dedicated_log_torch_trace_a.log.xz"
    )
    log = tmp_path / "ci.log"
    with log.open("wb") as file:
        for number, line in enumerate(
            lzma.decompress(trace.read_bytes()).splitlines(keepends=True)
        ):
            file.write(
                (prefix % (number // 50 % 60) if b"%" in prefix else prefix) + line
            )
    plain, report = report_from([str(trace)]), report_from([str(log)])
    assert shown_of(log) == shown_of(trace) and report.groups
    assert [one.code for one in report.findings] == [
        one.code for one in plain.findings
    ]
    assert report.parse.truncated == report.parse.user_output == 0


def test_a_trace_that_is_cut_within_any_line_counts_as_cut(tmp_path: Path) -> None:
    data = lzma.decompress(
        (
            COMPOSITE.parent / "mlp" / "dedicated_log_torch_trace_a.log.xz"
        ).read_bytes()
    )
    draw, cut = random.Random(1), tmp_path / "cut.log"
    for _ in range(8):
        at = draw.randrange(1000, len(data))
        cut.write_bytes(
            data[:at] if b"\n" not in data[at - 1 : at + 1] else data[: at - 2]
        )
        assert report_from([str(cut)]).parse.truncated >= 1


@pytest.mark.parametrize(
    "end", (b"] [0/0] [__output_c", b"] [0/0] ", b"12:41", b"_inductor/gr")
)
def test_a_log_that_is_cut_within_a_prefix_counts_as_cut(
    end: bytes, tmp_path: Path
) -> None:
    """What a user pasted may have no line end behind its last line, which is not
    cut then."""
    data = lzma.decompress((COMPOSITE / "log.xz").read_bytes())
    prefix = b"V1124 15:01:12.643000 611 torch/_inductor/graph.py:2552] [0/0] [__output_code] "
    last = (
        prefix[: prefix.find(end) + len(end)]
        if end in prefix
        else b"V1124 15:" + end
    )
    log = tmp_path / "cut.log"
    log.write_bytes(data + last)
    assert report_from([str(log)]).parse.truncated == 1
    log.write_bytes(data.rstrip(b"\n"))
    assert report_from([str(log)]).parse.truncated == 0
