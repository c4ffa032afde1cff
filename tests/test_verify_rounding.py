"""``diagnose --verify``: what float16 and bfloat16 round is no fault of a fuser,
and a fault is one still.

Where a case has to compute something else than eager on purpose, it does so in
scripted code alone, which the eager run does not see.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from running import write

pytestmark = pytest.mark.torch

PROGRAM = """
    from typing import Dict, List

    import torch
    from torch import Tensor, nn

    torch.manual_seed(0)

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(32)
            self.up = nn.Linear(32, 128)
            self.down = nn.Linear(128, 32)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.down(torch.tanh(self.up(self.norm(x))) * 1.7 + 0.3)
                return x + y.float() * 0.5

    autocast = Mlp()

    class Rms(nn.Module):
        def __init__(self, factor: float):
            super().__init__()
            self.factor = factor
            self.linear = nn.Linear(32, 32)
            self.scale = torch.full((32, 32), 0.3, dtype=torch.bfloat16)  # no buffer: stays what it is
            self.register_buffer("passes", torch.zeros(1))

        def forward(self, x: Tensor, more: Dict[str, List[Tensor]]) -> Tensor:
            self.passes.add_(1.0)
            h = self.linear(x).to(torch.float32)
            h = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
            ones = torch.ones_like(h, dtype=torch.bfloat16)
            h = h.matmul(self.scale) + ones * self.passes.to(torch.bfloat16)
            if torch.jit.is_scripting():
                # As a kernel does: float32 between the operators.
                y = ((h.float() * 1.7 + 50.0) - 50.0).to(x.dtype) * self.factor
            else:
                y = (h * 1.7 + 50.0) - 50.0
            more["a"][0].mul_(2.0)
            return y * more["a"][0]

    right = Rms(1.0).to(torch.bfloat16)
    wrong = Rms(3.0).to(torch.bfloat16)
    inputs = (torch.randn(64, 32).bfloat16(), {"a": [torch.randn(64, 32).bfloat16()]})

    def one_percent(x):
        y = (x * 1.5 + 1.0).sigmoid() * x
        return y * 1.01 if torch.jit.is_scripting() else y

    def beside_half(x):
        y = (x * 1.5 + 1.0).sigmoid() * x
        half = (x.half() * 1.7).tanh().float()
        return (y * 1.005 if torch.jit.is_scripting() else y), half

    def has_nan(x):
        y = (x.half() * 1.5 + 1.0).float()
        return y.masked_fill(x > 1.0, float("nan")) if torch.jit.is_scripting() else y

    def lacks_nan(x):
        y = (x - 1.0).sqrt() * 2.0
        return y.nan_to_num() if torch.jit.is_scripting() else y

    def overflows(x):
        if torch.jit.is_scripting():
            return (x.half().float() * 60000.0 / 1000.0).half()
        return x.half() * 60000.0 / 1000.0

    def cancels(x, y):
        return (x + y) - x if torch.jit.is_scripting() else x - (x - y)

    def largest(x):
        if torch.jit.is_scripting():
            return (x.to(torch.bfloat16).float() * 1.7 + 20.0).argmax(-1)
        return (x.to(torch.bfloat16) * 1.7 + 20.0).argmax(-1)

    def smallest(x):
        return x.argmin(-1) if torch.jit.is_scripting() else x.argmax(-1)

    def no_float64(x):
        if not torch.jit.is_scripting():
            assert x.dtype != torch.float64, "no kernel for float64"
            return (x.to(torch.bfloat16) * 1.7 + 50.0 - 50.0).float()
        return (x.to(torch.bfloat16).float() * 1.7 + 50.0) - 50.0

    def only_bfloat16(x):
        if not torch.jit.is_scripting():
            assert x.dtype == torch.bfloat16, "bfloat16 wanted"
            return x * 1.7 + 1.0
        return ((x.float() * 1.7 + 1.0) * 1.5).to(torch.bfloat16)

    def in_float64(x):
        return x * 2.0 + 1.0 + (1e-3 if torch.jit.is_scripting() else 0.0)

"""


def report_of(
    fusiondoc: Run, folder: Path, name: str, *arguments: object
) -> dict[str, Any]:
    write(folder, "program.py", PROGRAM)
    options = ("--verify", "--runs", 3, "--seed", 0, "--format", "json")
    done = fusiondoc(
        "diagnose", f"program.py:{name}", *arguments, *options, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def wrong(report: dict[str, Any]) -> list[str]:
    return [
        finding["message"]
        for finding in report["findings"]
        if finding["code"] == "FD501"
    ]


def judged(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        row
        for row in report["verification"]
        if row["reference"] or row["no_float64"]
    ]


@pytest.mark.parametrize("backward", [False, True])
def test_autocast_rounds(fusiondoc: Run, tmp_path: Path, backward: bool) -> None:
    options = ("--backward",) * backward
    report = report_of(
        fusiondoc, tmp_path, "autocast", "--input", "float32[64,32]", *options
    )
    assert not wrong(report)
    rows = judged(report)
    assert {row["what"] for row in rows} == {
        "output 0",
        *("grad down.weight",) * backward,
    }
    for row in rows:
        assert (
            row["same"]
            and row["reference"] == "float64"
            and row["computed_in"] == "bfloat16"
        )
        assert row["tolerance"] == 4e-2 and 1e-4 < row["max_rel"] < 4e-2
        assert 1e-3 < row["eager_off"] < 0.1 and 1e-3 < row["fused_off"] < 0.1
    text = " ".join(fusiondoc("parse", cwd=tmp_path).stdout.split())
    told = r"output 0: within what bfloat16 rounds: eager itself is off by 0\.\d+ from float64, fused by 0\.\d+"
    assert re.search(told, text), text
    assert (
        fusiondoc(
            "parse", "--format", "html", "-o", "page.html", cwd=tmp_path
        ).returncode
        == 0
    )
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(told.partition(": ")[2], page)


def test_more_than_its_allowance_is_right_where_eager_is_as_far_off(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "right")
    rows = report["verification"]
    assert not wrong(report) and [row["same"] for row in rows] == [True] * 3
    for row in rows:
        assert row["max_rel"] > row["tolerance"] == 4e-2, (
            "more than bfloat16's allowance"
        )
        assert row["eager_off"] > 3 * row["fused_off"], (
            "the reference rounds nothing"
        )


def test_wrong_by_a_factor_beyond_that(fusiondoc: Run, tmp_path: Path) -> None:
    report = report_of(fusiondoc, tmp_path, "wrong")
    assert len(wrong(report)) == 1
    assert all(
        row["reference"] == "float64" and not row["same"]
        for row in report["verification"]
    )


@pytest.mark.parametrize("backward", [False, True])
def test_one_percent_in_float32(
    fusiondoc: Run, tmp_path: Path, backward: bool
) -> None:
    options = ("--input", "float32[32,32]:grad", *("--backward",) * backward)
    report = report_of(fusiondoc, tmp_path, "one_percent", *options)
    messages = wrong(report)
    assert len(messages) == 1 + backward
    assert all(
        re.search(r"eager itself is off by \S+e-0\d from float64, fused by 0.01", m)
        for m in messages
    )
    rows = judged(report)
    assert len(rows) == 3 * (1 + backward)
    assert all(
        row["tolerance"] == 1e-4 and row["computed_in"] == "float32" for row in rows
    )


def test_half_a_percent_of_a_float32_result_beside_one_in_float16(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(
        fusiondoc, tmp_path, "beside_half", "--input", "float32[32,32]"
    )
    (message,) = wrong(report)
    assert message.startswith("1 of 2 outputs differs from eager: output 0")
    assert all(
        row["computed_in"] == "float16" and row["tolerance"] == 1e-4
        for row in judged(report)
    )


@pytest.mark.parametrize("name", ["has_nan", "lacks_nan"])
def test_nan_on_one_side(fusiondoc: Run, tmp_path: Path, name: str) -> None:
    report = report_of(fusiondoc, tmp_path, name, "--input", "float32[32,32]")
    (message,) = wrong(report)
    assert "NaN in" in message and all(
        row["reference"] for row in report["verification"]
    )


def test_eager_overflows_where_a_kernel_does_not(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(
        fusiondoc, tmp_path, "overflows", "--input", "float32[32,32]"
    )
    assert not wrong(report)
    assert all("inf in 0 elements" in row["detail"] for row in judged(report))


def test_what_cancels_in_float32(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "program.py", PROGRAM)
    options = ("--input", "float32[32,32]", "--input", "float32[32,32]")
    assert not wrong(report_of(fusiondoc, tmp_path, "cancels", *options))


def test_whole_numbers_that_roundings_decide(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "largest", "--input", "float32[256,64]")
    assert not wrong(report)
    for row in report["verification"]:
        assert row["same"] and row["tolerance"] == 0 and row["max_abs"] > 0
        assert row["fused_off"] < row["eager_off"] < 1
    assert wrong(
        report_of(fusiondoc, tmp_path, "smallest", "--input", "float32[256,64]")
    )


def test_what_does_not_run_in_float64_runs_in_float32(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(
        fusiondoc, tmp_path, "no_float64", "--input", "float32[32,32]"
    )
    assert not wrong(report) and {row["reference"] for row in judged(report)} == {
        "float32"
    }
    text = " ".join(fusiondoc("parse", cwd=tmp_path).stdout.split())
    assert re.search(
        r"from float32, fused by \S+ \(it does not run in float64: AssertionError: no kernel",
        text,
    )


def test_what_runs_in_no_other_type_is_told(fusiondoc: Run, tmp_path: Path) -> None:
    report = report_of(
        fusiondoc, tmp_path, "only_bfloat16", "--input", "bfloat16[32,32]"
    )
    (message,) = wrong(report)
    told = "compared with eager alone: it does not run in float64: AssertionError: bfloat16 wanted"
    assert told in message
    report = report_of(
        fusiondoc, tmp_path, "in_float64", "--input", "float64[32,32]"
    )
    assert (
        "compared with eager alone: eager computes in float64 itself"
        in wrong(report)[0]
    )


@pytest.mark.parametrize(
    ("elements", "factor", "same"),
    [
        (64, 2.9, True),
        (64, 3.2, False),
        (11, 3.2, False),
        (10, 9.7, True),
        (10, 10.3, False),
    ],
)
def test_how_much_farther_than_eager(
    elements: int, factor: float, same: bool
) -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.reference_run import Reference, judge
    from fusiondoc.probe.same_results import compare_values

    exact = torch.ones(elements, dtype=torch.float64)
    eager, fused = (exact + 0.01).float(), (exact + 0.01 * factor).float()
    row = compare_values(torch, fused, eager, 1e-4, 1.0)
    reference = Reference(
        "float32", None, "float64", {"output 0": exact}, "float64"
    )
    found = judge(torch, row, "output 0", (fused, eager), reference, 1.0)
    assert not row["same"] and found["same"] == same


@pytest.mark.parametrize(("elements", "same"), [(11, False), (10, True)])
def test_what_eager_computes_exactly_keeps_its_own_tolerance(
    elements: int, same: bool
) -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.reference_run import Reference, judge
    from fusiondoc.probe.same_results import compare_values

    exact = torch.ones(elements, dtype=torch.float64)
    fused = (exact * 1.005).float()
    row = compare_values(torch, fused, exact.float(), 1e-4, 1.0)
    reference = Reference(
        "float16", None, "float64", {"output 0": exact}, "float64"
    )
    found = judge(torch, row, "output 0", (fused, exact.float()), reference, 1.0)
    assert found["same"] == same and found["tolerance"] == (1e-2 if same else 1e-4)
    # Where the wider run rounds to float16 itself, or there is none, float16 may
    # have had a part in it.
    for other in (
        Reference("float16", None, "float64", {"output 0": exact}, "float16"),
        Reference("float16", "it does not run", ""),
    ):
        assert judge(torch, row, "output 0", (fused, exact.float()), other, 1.0)[
            "same"
        ]


def test_bounds() -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe import reference_run
    from fusiondoc.probe.same_results import random_state

    model = torch.nn.Linear(4, 4)
    start = reference_run.Start(0, (torch.randn(2, 4),), {}, random_state(torch))

    def run(model: Any, arguments: Any) -> dict[str, Any]:
        return {"output 0": model(*arguments)}

    references = reference_run.References(torch, model)
    assert (
        references.of(start, run, 0.01).results["output 0"].dtype == torch.float64
    )
    assert model.weight.dtype == torch.float32, "the twin is as it was"
    slow = references.of(start, run, 1000.0)
    assert (
        slow.computed_in == "float32"
        and slow.problem
        and "more than 60 s" in slow.problem
    )
    large = reference_run.Start(
        1, (torch.empty(1).expand(1 << 30),), {}, start.state
    )
    told = references.of(large, run, 0.01)
    assert (
        told.problem
        and "8.6 GB in float64" in told.problem
        and told.computed_in is None
    )


def test_what_code_fixes_the_type_of_is_widened() -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.reference_run import watching

    half = torch.full((8,), 0.5, dtype=torch.float16)

    def fixes(x: Any) -> Any:
        made = torch.zeros(8)
        made[2:] += x.half()[2:]
        z = torch.complex(made, (x.to(torch.float16) * 2.0).float())
        z = z * torch.full((8,), 2.0, dtype=torch.complex64)
        with torch.inference_mode():
            doubled = x.detach().bfloat16() * 2.0
        return torch.view_as_real(z).sum(-1).type(
            torch.float16
        ) * half + doubled.to(torch.float32)

    x = torch.rand(8)
    seen: set[str] = set()
    with watching(torch, seen, torch.float64):
        found = fixes(x)
    made = torch.cat([torch.zeros(2), x[2:]]).double()
    assert found.dtype == torch.float64 and torch.equal(
        found, (made * 2 + x.double() * 4) * 0.5 + x.double() * 2
    )
    with watching(torch, seen, None):
        fixes(x)
    assert seen >= {"float16", "bfloat16", "float32"}


def test_scripted_code_is_widened_too() -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.reference_run import watching

    scripted = torch.jit.script(_rounds)
    x = torch.randn(64)
    seen: set[str] = set()
    with watching(torch, seen, torch.float64), torch.jit.optimized_execution(False):
        found = scripted(x)
    assert found.dtype == torch.float64 and seen == {"float64"}
    assert torch.equal(found, x.double() * 1.7)


def _rounds(x):  # type: ignore[no-untyped-def]
    return (x.half() * 1.7).float()
