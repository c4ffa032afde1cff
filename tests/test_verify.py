"""``diagnose --verify``: fused passes against eager ones, on real torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from running import write

pytestmark = pytest.mark.torch

ONEDNN_CASE = """
    import torch

    torch.manual_seed(0)
    conv = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU()).eval()
    model = torch.jit.script(conv)
    inputs = (torch.randn(2, 3, 16, 16),)
"""

MANY = """
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)
            self.norm = torch.nn.BatchNorm1d(16)

        def forward(self, x, pair: list[torch.Tensor]):
            y = self.norm(torch.tanh(self.linear(x)) * 2 + 1)
            return y * pair[0], (pair[1] > 0).long()

    model = Block()
    inputs = (
        torch.randn(32, 16, requires_grad=True),
        [torch.randn(32, 16, requires_grad=True), torch.randn(4)],
    )

    def changes_its_input(x):
        x.mul_(2.0)
        return (x + 1).relu()

    def unused_draw(x):
        torch.rand(3)
        return torch.nn.functional.dropout(x * 2.0 + 1.0, 0.5, True), x.sigmoid() * 2.0

    def rows(x):
        # One random number for a row of 512: far fewer independent values than elements.
        torch.rand(3)
        return (torch.rand(8, 1) * x).relu() + 1.0

    def by_trace(x):
        return x * 2.0 if x.sum() > 0 else x * 3.0

    def half(x):
        return (x * 1.5 + 1.0).sigmoid() * x
"""


def report_of(fusiondoc: Run, folder: Path, *arguments: object) -> dict[str, Any]:
    done = fusiondoc(
        "diagnose", *arguments, "--verify", "--format", "json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def codes(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"]]


def onednn_drops_the_bias() -> bool:
    """Torch's own word on the case, without fusiondoc: run it fused and eager."""
    torch = pytest.importorskip("torch")
    scope: dict[str, Any] = {}
    import textwrap

    exec(textwrap.dedent(ONEDNN_CASE), scope)
    cpu = torch._C._jit_can_fuse_on_cpu()
    llga = torch._C._jit_llga_enabled()
    torch._C._jit_override_can_fuse_on_cpu(False)
    torch._C._jit_set_llga_enabled(True)
    try:
        with torch.no_grad():
            off = [
                float(
                    (
                        scope["model"](*scope["inputs"])
                        - scope["conv"](*scope["inputs"])
                    )
                    .abs()
                    .max()
                )
            ]
            for _ in range(3):
                fused = scope["model"](*scope["inputs"])
                off.append(
                    float((fused - scope["conv"](*scope["inputs"])).abs().max())
                )
    finally:
        torch._C._jit_override_can_fuse_on_cpu(cpu)
        torch._C._jit_set_llga_enabled(llga)
    return off[0] == 0 and off[-1] > 0.1


def test_the_bias_that_onednn_graph_leaves_out_is_found(
    fusiondoc: Run, tmp_path: Path
) -> None:
    if not onednn_drops_the_bias():
        pytest.skip("this torch computes it right")
    write(tmp_path, "conv.py", ONEDNN_CASE)
    report = report_of(
        fusiondoc, tmp_path, "conv.py", "--fuser", "onednn", "--no-freeze"
    )
    rows = report["verification"]
    assert [(r["iteration"], r["phase"], r["what"], r["by"]) for r in rows] == [
        (i, "forward", "output 0", "value") for i in range(1, 6)
    ]
    assert [r["same"] for r in rows] == [True, False, False, False, False]
    assert all(
        0.1 < r["max_abs"] < 0.3 and r["tolerance"] == 1e-4 for r in rows[1:]
    )
    (found,) = [f for f in report["findings"] if f["code"] == "FD501"]
    assert found["severity"] == "error"
    assert "0.19" in found["message"] and "passes 2 to 5 of 5" in found["message"]
    assert "G1" in found["advice"]
    again = fusiondoc("parse", "--fail-on", "FD501", cwd=tmp_path)
    assert (
        again.returncode == 1
        and "output 0" in again.stdout
        and "1/5" in again.stdout
    )
    for option in ("-q", "--summary"):
        short = fusiondoc(
            "parse", option, cwd=tmp_path, env={"COLUMNS": "200"}
        ).stdout
        assert (
            "0 of 1 results are the same in all of 5 passes, fused and eager; output 0 is off by 0.1"
            in short
        )
    write(tmp_path, "fusions.yaml", "max_fallbacks: 0\n")
    for options in ((), ("-q",)):
        checked = fusiondoc(
            "check", "--expect", "fusions.yaml", *options, cwd=tmp_path
        )
        assert "Numbers: 0 of 1 results are the same" in checked.stdout


def test_frozen_it_is_right(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "conv.py", ONEDNN_CASE)
    report = report_of(
        fusiondoc, tmp_path, "conv.py", "--fuser", "onednn", "--runs", 3
    )
    said = "1 of 1 results are the same in all of 3 passes, fused and eager"
    for option in ("-q", "--summary"):
        assert (
            said
            in fusiondoc(
                "parse", option, cwd=tmp_path, env={"COLUMNS": "200"}
            ).stdout
        )
    assert "Numbers:" not in fusiondoc("parse", cwd=tmp_path).stdout, (
        "the section has it"
    )
    assert [r["same"] for r in report["verification"]] == [True] * 3
    assert not {"FD501", "FD502", "FD503"} & set(codes(report))


def test_outputs_gradients_and_running_means(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "many.py", MANY)
    report = report_of(fusiondoc, tmp_path, "many.py", "--backward")
    rows = report["verification"]
    assert all(r["same"] and r["dtype_same"] and r["strides_same"] for r in rows)
    first = [(r["phase"], r["what"]) for r in rows if r["iteration"] == 1]
    assert first == [
        ("forward", "output 0"),
        ("forward", "output 1"),
        ("backward", "grad x"),
        ("backward", "grad pair[0]"),
        ("backward", "grad linear.weight"),
        ("backward", "grad linear.bias"),
        ("backward", "grad norm.weight"),
        ("backward", "grad norm.bias"),
    ]
    assert {r["tolerance"] for r in rows} == {
        1e-4,
        0.0,
    }  # the long output must be equal
    assert report["groups"] and any(0 < r["max_abs"] < 1e-4 for r in rows), (
        "fused passes were compared"
    )
    assert not {"FD501", "FD502", "FD503"} & set(codes(report))


def test_a_function_that_changes_its_input(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "many.py", MANY)
    options = ("--input", "float32[8,8]", "--runs", 4)
    report = report_of(fusiondoc, tmp_path, "many.py:changes_its_input", *options)
    assert [r["same"] for r in report["verification"]] == [True] * 4


def test_random_results_are_compared_by_statistics(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "many.py", MANY)
    options = (
        "--input",
        "float32[128,128]:grad",
        "--backward",
        "--runs",
        3,
        "--seed",
        1,
    )
    report = report_of(fusiondoc, tmp_path, "many.py:unused_draw", *options)
    by = {
        what: {r["by"] for r in report["verification"] if r["what"] == what}
        for what in ("output 0", "output 1", "grad x")
    }
    assert by == {
        "output 0": {"statistics"},
        "output 1": {"value"},
        "grad x": {"statistics"},
    }
    assert all(r["same"] for r in report["verification"])
    (found,) = [f for f in report["findings"] if f["code"] == "FD503"]
    assert (
        "aten::dropout" in found["message"]
        and "output 0, grad x" in found["message"]
    )
    assert "FD501" not in codes(report)


def test_elements_that_share_a_random_number_raise_no_alarm(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "many.py", MANY)
    for seed in (1, 2):
        options = ("--input", "float32[8,512]", "--runs", 4, "--seed", seed)
        report = report_of(fusiondoc, tmp_path, "many.py:rows", *options)
        assert {r["by"] for r in report["verification"]} == {"statistics"}
        assert "FD501" not in codes(report), [
            r["detail"] for r in report["verification"]
        ]


def test_what_tracing_changes_is_not_put_down_to_fusion(
    fusiondoc: Run, tmp_path: Path
) -> None:
    source = (
        MANY
        + """
    sign = [-1.0]

    def inputs():
        sign[0] = -sign[0]
        return (torch.full((4, 4), sign[0]),)
"""
    )
    write(tmp_path, "many.py", source)
    report = report_of(
        fusiondoc, tmp_path, "many.py:by_trace", "--trace", "--runs", 4
    )
    same = [r["same"] for r in report["verification"]]
    assert same in ([True, False, True, False], [False, True, False, True])
    (found,) = [f for f in report["findings"] if f["code"] == "FD501"]
    assert "it is not the fusion" in found["advice"]


def test_a_coarser_type_has_a_coarser_tolerance(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "many.py", MANY)
    report = report_of(
        fusiondoc,
        tmp_path,
        "many.py:half",
        "--input",
        "bfloat16[64,8]",
        "--runs",
        3,
    )
    assert {r["tolerance"] for r in report["verification"]} == {4e-2}
    assert all(r["same"] for r in report["verification"])


def test_a_script_has_no_effect_and_is_told_so(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "script.py", "print('hello')\n")
    done = fusiondoc("diagnose", "--script", "script.py", "--verify", cwd=tmp_path)
    assert (
        done.returncode == 0 and "--verify has no effect on a script" in done.stderr
    )
    short = fusiondoc("parse", "-q", cwd=tmp_path)
    assert short.stdout.endswith(". Numbers: nothing was compared with eager\n")


def test_a_model_that_cannot_be_copied(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "locked.py",
        """
        import threading, torch

        class Locked(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.lock = threading.Lock()

            def forward(self, x):
                return x + 1

        model = Locked()
        inputs = (torch.ones(2),)
        """,
    )
    done = fusiondoc("diagnose", "locked.py", "--verify", cwd=tmp_path)
    assert (
        done.returncode == 4
        and "cannot be copied" in done.stderr
        and "Traceback" not in done.stderr
    )
