"""Kernels of NNC against plain searches of the raw log and against torch's own
profiler."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
import raw_log
from conftest import FIXTURES, Run
from running import python

from fusiondoc.model.report import Report
from fusiondoc.parsers.facts import Facts, LineCounts
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.parsers.stream import Stream

LOG = FIXTURES / "kernels" / "nnc-2.13-loop-nests.log.xz"


def report_of(path: Path) -> Report:
    return read_logs([LogInput(path.name, path)])[0]


def final_nests(log: bytes) -> list[str]:
    """The loop nests behind ``Final Stmt:`` in order, by a plain search."""
    found = []
    for part in re.split(rb"(?m)^\[DEBUG kernel\.cpp:\d+\] Final Stmt:\n", log)[1:]:
        lines = []
        for line in part.split(b"\n"):
            lines.append(re.sub(rb"^\[DEBUG kernel\.cpp:\d+\] ", b"", line))
            if lines[-1] == b"}":
                break
        found.append(b"\n".join(lines).decode())
    return found


def test_every_loop_nest_of_the_log_is_the_code_of_a_kernel_with_its_group() -> (
    None
):
    report = report_of(LOG)
    nests = final_nests(raw_log.read(LOG))
    assert len(nests) == 4
    assert [kernel.code for kernel in report.kernels] == nests
    assert [kernel.groups for kernel in report.kernels] == [
        ("G1",),
        ("G2",),
        ("G3",),
        ("G4",),
    ]
    assert [group.kernels for group in report.groups] == [
        ("K1",),
        ("K2",),
        ("K3",),
        ("K4",),
    ]
    for kernel in report.kernels:
        group = next(group for group in report.groups if group.id in kernel.groups)
        # NNC names what it computes: aten_tanh[...] = ..., so that code and group
        # can be told to fit.
        stores = set(
            re.findall(r"(?m)^ +aten_(\w+?)(?:_\d+)?\[", kernel.code or "")
        )
        assert stores and stores <= {op.split("::")[1] for op in group.ops}


def test_stages_hold_every_loop_nest_that_was_printed() -> None:
    log = raw_log.read(LOG)
    kernel = report_of(LOG).kernels[0]
    stages = {dump.option: dump.text for dump in kernel.dumps}["nnc_stages"]
    titles = re.findall(r"(?m)^// (.*)$", stages)
    part = log[
        log.index(b"] Original Stmt:") : log.index(
            b"TensorExprKernel graph", log.index(b"Final Stmt:")
        )
    ]
    printed = re.findall(rb"\] (after \w+|Original Stmt|Final Stmt)", part)
    assert titles == [title.decode() for title in printed]
    assert titles[0] == "Original Stmt" and titles[-1] == "Final Stmt"


def test_evidence_is_the_line_where_the_kernels_graph_is_printed() -> None:
    lines = raw_log.read(LOG).split(b"\n")
    for kernel in report_of(LOG).kernels:
        for one in kernel.evidence:
            assert lines[one.line - 1].endswith(
                b"TensorExprKernel graph (Before graph optimization):"
            )


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_log_may_come_in_pieces_of_any_size(size: int) -> None:
    lines = raw_log.read(LOG).split(b"\n")
    whole, pieces = Facts(), Facts()
    stream = Stream(whole, LineCounts())
    stream.feed(lines, 1)
    stream.close()
    stream = Stream(pieces, LineCounts())
    for start in range(0, len(lines), size):
        stream.feed(lines[start : start + size], 1 + start)
    stream.close()
    assert len(whole.printed_kernels) == 4
    for one, other in zip(whole.printed_kernels, pieces.printed_kernels):
        mine, others = (
            {name: str(text) for name, text in made.texts.items()}
            for made in (one, other)
        )
        assert (one.name, mine, one.lines) == (other.name, others, other.lines)


def test_a_log_without_loop_nests_still_tells_of_kernels(recordings: Path) -> None:
    """On a GPU, torch 2.11, ``kernel`` at its lowest level."""
    seen = 0
    for path in sorted((recordings / "torch-2.11-nnc").glob("*.log")):
        made = path.read_bytes().count(
            b"TensorExprKernel graph (Before graph optimization):"
        )
        report = report_of(path)
        assert sum(kernel.compiles or 0 for kernel in report.kernels) == made
        assert all(
            kernel.groups and kernel.code is None for kernel in report.kernels
        )
        assert all(group.kernels for group in report.groups)
        seen += made
    assert seen


def test_cuda_code_as_cuda_codegen_prints_it(tmp_path: Path) -> None:
    """No recording holds ``>>cuda_codegen``. These lines are put together as
    cuda_codegen.cpp does (``Fused TE CUDA kernel:``, the code, the extents), behind
    a graph that torch printed on a GPU."""
    log = raw_log.read(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz").decode()
    code = 'extern "C" __global__\nvoid fused_add_relu_1(float* tx, float* aten_relu) {\n{\n  int v = 0;\n}\n}'
    message = f"Fused TE CUDA kernel:\n\n{code}\ngpu_block_extents: (8192)\ngpu_thread_extents: (512)"
    block = "".join(
        f"[DEBUG cuda_codegen.cpp:1189] {line}\n" for line in message.split("\n")
    )
    end = re.search(r"(?m)^\[DUMP kernel\.cpp:1691\]   return .*\n", log)
    assert end
    path = tmp_path / "cuda.log"
    path.write_text(log[: end.end()] + block + log[end.end() :])
    (kernel,) = report_of(path).kernels
    assert kernel.name == "fused_add_relu_1" and kernel.groups == ("G1",)
    assert kernel.code == code
    assert kernel.grid == (8192, 1, 1) and kernel.block == (512, 1, 1)
    dynamic = path.read_text().replace("(8192)", "(int((n + 511) / 512))")
    path.write_text(dynamic)
    assert report_of(path).kernels[0].grid is None


def test_the_cuda_code_of_a_gpu() -> None:
    """Forward and backward of RMS norm on an H200; the text of each kernel is what
    the log prints of it."""
    path = FIXTURES / "kernels" / "nnc-2.1-cuda.log.xz"
    log = raw_log.read(path).decode()
    names = re.findall(r"\n\[DEBUG cuda_codegen\.cpp:\d+\] void (\w+)\(", log)
    assert len(names) == log.count("Fused TE CUDA kernel:") == 5
    report = report_of(path)
    assert [kernel.name for kernel in report.kernels] == names
    printed = {
        line[line.find("]") + 2 :]
        for line in log.split("\n")
        if "cuda_codegen.cpp:" in line[:30]
    }
    for kernel in report.kernels:
        code = kernel.code
        assert (
            code is not None
            and f"void {kernel.name}(" in code
            and 'extern "C" __global__' in code
        )
        assert set(code.split("\n")) <= printed | {""} and code.rstrip().endswith(
            "}"
        )
        assert (
            len(kernel.groups) == 1
            and kernel.block == (512, 1, 1)
            and kernel.grid is not None
        )
    phases = {group.id: group.phase for group in report.groups}
    assert [phases[kernel.groups[0]] for kernel in report.kernels] == [
        "forward"
    ] * 2 + ["backward"] * 3


def test_a_cut_off_loop_nest_is_no_code(tmp_path: Path) -> None:
    log = raw_log.read(LOG)
    start = log.index(b"Final Stmt:")
    for length in (12, 60, 200):
        path = tmp_path / "cut.log"
        path.write_bytes(log[: start + length])
        kernels = report_of(path).kernels
        assert len(kernels) == 1 and kernels[0].code is None


PROGRAM = """
import torch
def model(x: torch.Tensor, y: torch.Tensor):
    z = torch.relu(x + y) * 2.0
    w = torch.sigmoid(z).sum()
    for i in range(3):
        z = torch.tanh(z * y) + y
        z = z.sort(0)[0]
    return torch.tanh(z * w) - x
inputs = (torch.randn(16, 16), torch.randn(16, 16))
"""

PROFILER = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
torch._C._jit_set_te_must_use_llvm_cpu(False)
torch._C._jit_override_can_fuse_on_cpu(True)
import program
function = torch.jit.script(program.model)
for _ in range(3):
    function(*program.inputs)
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    function(*program.inputs)
names = {event.key: event.count for event in profiler.key_averages() if event.key.startswith("fused_")}
print("NAMES", json.dumps(names))
"""


@pytest.mark.torch
def test_names_and_groups_are_those_of_torchs_profiler(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """The profiler has an event of the kernel's name for every run of a group."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available() or torch._C._llvm_enabled():
        pytest.skip("written for the CPU without LLVM")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "profiler.py").write_text(PROFILER)
    child = python(tmp_path / "profiler.py", cwd=tmp_path)
    assert child.returncode == 0, child.stdout
    names = json.loads(re.search(r"^NAMES (.*)$", child.stdout, re.M).group(1))  # type: ignore[union-attr]
    done = fusiondoc("kernels", "program.py", "--fuser", "nnc", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    instances = [one for group in report["groups"] for one in group["instances"]]
    found = {
        k["name"]: sum(k["id"] in one["kernels"] for one in instances)
        for k in report["kernels"]
    }
    assert found == names
    assert sum(names.values()) == len(instances) >= 4


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["nnc-2.13-loop-nests", "onednn-2.13-verbose"])
def test_damaged_logs_never_fail(name: str, seed: int, tmp_path: Path) -> None:
    """Lines lost, doubled, swapped and cut: a report comes out, and its kernels
    belong to its groups."""
    random = Random(seed)
    lines = raw_log.read(FIXTURES / "kernels" / f"{name}.log.xz").split(b"\n")
    for _ in range(len(lines) // 4):
        place = random.randrange(len(lines))
        change = random.randrange(4)
        if change == 0:
            del lines[place]
        elif change == 1:
            lines.insert(place, random.choice(lines))
        elif change == 2:
            lines[place] = lines[place][: random.randrange(len(lines[place]) + 1)]
        else:
            lines[place] += random.choice(
                [b"{", b"}", b",", b"\0", b"\xff", b"1e999"]
            )
    path = tmp_path / "damaged.log"
    path.write_bytes(b"\n".join(lines))
    report = report_of(path)
    groups = {group.id: group for group in report.groups}
    for kernel in report.kernels:
        assert all(kernel.id in groups[one].kernels for one in kernel.groups)
    stats = report.parse
    assert (
        stats.recognised + stats.user_output + stats.unrecognised
        == stats.lines
        > 100
    )
