"""``repro --minimise``: what stays of a failure is what causes it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
from pathlib import Path

import pytest
import warm_torch
from conftest import ROOT, Run
from running import python

from fusiondoc.repro.judge import judge, normalised

pytest.importorskip("torch")

LIVE = Path(__file__).parent / "live" / "repro_groups.py"


def operators(path: Path) -> list:
    """Operators of the graph in a written file, by torch's own parser."""
    import torch

    tree = ast.parse(path.read_text(encoding="utf-8"))
    ir = next(
        n.value.value
        for n in tree.body
        if isinstance(n, ast.Assign) and n.targets[0].id == "IR"
    )
    kinds = [node.kind() for node in torch._C.parse_ir(ir).nodes()]
    return [
        kind
        for kind in kinds
        if kind not in ("prim::Constant", "prim::TupleConstruct")
    ]


@pytest.fixture(scope="module")
def wrong_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real print in which the size of an input was changed, so that an operator
    refuses it."""
    shown = python(LIVE, "static").stdout
    chain = shown[
        shown.index("graph(", shown.index("with prim::TensorExprGroup_0") + 60) :
    ]
    # The second function; its bias gets another size than its other input can be
    # added to.
    wrong = chain[: chain.index("aten::cat")].replace(
        "Float(6, strides=[1]", "Float(5, strides=[1]"
    )
    log = tmp_path_factory.mktemp("wrong") / "wrong.log"
    log.write_text(wrong[: wrong.rindex("\ngraph(")] + "\n")
    return log


@pytest.mark.nightly
def test_a_wrong_size_is_shrunk_to_the_operator_that_refuses_it(
    fusiondoc: Run, tmp_path: Path, wrong_log: Path
) -> None:
    done = fusiondoc(
        "repro",
        wrong_log,
        "--group",
        "G1",
        "--minimise",
        "--trust-log",
        "--output",
        "wrong.py",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "must match the size" in done.stderr
    assert "4 operators before, 1 after" in done.stderr
    smaller = tmp_path / "wrong.min.py"
    assert len(operators(tmp_path / "wrong.py")) == 4
    assert operators(smaller) == ["aten::mul"]
    again = python(smaller)
    assert again.returncode == 1
    assert "must match the size" in again.stdout
    assert "verdict: failed in the unfused run" in again.stdout
    assert "the fuser is not the cause" in again.stdout


@pytest.mark.parametrize("how", [signal.SIGINT])
def test_an_interruption_keeps_what_was_reached(
    tmp_path: Path, wrong_log: Path, how: signal.Signals
) -> None:
    command = [*warm_torch.command(), "repro", str(wrong_log), "--group", "G1"]
    command += ["--minimise", "--trust-log"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if line.startswith("try "):
                process.send_signal(how)
                break
        told += process.stderr.readlines()
    assert process.returncode == 130, told
    assert any("interrupted; this is how far it got" in line for line in told), told
    assert 1 <= len(operators(tmp_path / "repro_G1.min.py")) < 4


def test_a_file_that_does_not_fail_is_not_minimised(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = tmp_path / "right.log"
    log.write_text(python(LIVE, "static").stdout)
    done = fusiondoc(
        "repro",
        log,
        "--group",
        "G2",
        "--minimise",
        "--trust-log",
        "--output",
        "right.py",
    )
    assert done.returncode == 4
    assert "does not fail on this machine" in done.stderr
    assert (tmp_path / "right.py").exists() and not (
        tmp_path / "right.min.py"
    ).exists()


REAL = """stage: unfused run
stage: fused run
verdict: failed in the fused run, RuntimeError: The following operation failed in the TorchScript interpreter.
Traceback (most recent call last):
  File "g.py", line 1, in <module>
RuntimeError: The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
RuntimeError: {}
"""


def test_failures_are_the_same_by_what_torch_says() -> None:
    text = 'T{} INTERNAL ASSERT FAILED at "../third_party/nvfuser/csrc/lower2device.cpp":{}, please report a bug'
    one, two, three = (
        judge(REAL.format(text.format(*n)), 1)
        for n in ((3, 512), (9, 512), (3, 513))
    )
    assert one.signature == two.signature != three.signature
    assert one.text.startswith("T3 INTERNAL ASSERT FAILED") and one.kind == "failed"
    assert normalised("size 6 of %x.1") == normalised("size 5 of %y")
    assert normalised("Expected a [2, 3]") != normalised("Wanted a [2, 3]")
    nvrtc = "__global__ void kernel{0}() {{\n}}\n\nCUDA NVRTC compile error: "
    nvrtc += 'k(2{0}): error: identifier "T{0}" is undefined'
    assert (
        normalised(nvrtc.format(1))
        == normalised(nvrtc.format(2))
        != normalised("error: identifier")
    )


def test_the_ways_a_file_can_end() -> None:
    assert judge("stage: fused run\n", None, signal="SIGFPE").kind == "died"
    assert judge("stage: fused run\n", None, timed_out=True).fails is False
    assert judge("verdict: same, 1 output\n", 0).fails is False
    # A crash when the interpreter ends, after the verdict, is not the group's.
    assert judge("verdict: same, 1 output\n", None, signal="SIGSEGV").kind == "same"
    assert judge("no such thing\n", 1).fails is False
    first = "stage: comparison\ndiffers: output {} (%{}): {} of 9 values, the largest difference is {} at [0]\n"
    big, small = (
        judge(first.format(*n) + "verdict: different, 1 of 2 outputs\n", 1)
        for n in ((0, 1, 5, 0.2), (1, 2, 3, 7))
    )
    assert big.fails and big.signature == small.signature
