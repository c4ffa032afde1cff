"""``fusiondoc compare`` of runs under torch.compile: kernels that became several,
and other compilers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES, Run

import fusiondoc
from fusiondoc.model.report import Report

COMPOSITE = FIXTURES / "inductor" / "2.11" / "composite"


def joined(report: Report, first: str, second: str) -> Report:
    """The report as if two of its kernels were one: how they were before they came
    apart."""
    whole, part = report.group(first), report.group(second)
    assert whole is not None and part is not None
    one = replace(whole, nodes=(*whole.nodes, *part.nodes), outputs=part.outputs)
    groups = tuple(
        one if group is whole else group
        for group in report.groups
        if group is not part
    )
    return replace(report, groups=groups)


def test_one_kernel_that_became_two_has_the_boundary_its_cause_and_bytes() -> None:
    after = fusiondoc.parse(COMPOSITE)
    comparison = fusiondoc.compare(joined(after, "G2", "G3"), after)
    (split,) = [change for change in comparison.groups if "split" in change.kinds]
    assert [ref.id for ref in split.b] == ["G2", "G3"]
    between = [
        one
        for one in after.boundaries
        if {one.producer.group, one.consumer.group} == {"G2", "G3"}
    ]
    assert split.boundaries == tuple(
        sorted(between, key=lambda one: -(one.bytes or 0))[:3]
    )
    assert split.boundaries[0].bytes == 41975808
    text = " ".join(fusiondoc.render(comparison, "text").split())
    assert "42 MB go through memory between G2 and G3" in text and "(FD262)" in text


def test_two_compiled_runs_are_matched_by_operators() -> None:
    report = fusiondoc.parse(COMPOSITE)
    comparison = fusiondoc.compare(report, report)
    assert comparison.same and comparison.by_lines == ()


def test_breaks_and_recompiles_that_came_are_findings() -> None:
    folder = FIXTURES / "inductor" / "2.11"
    before, broken = (
        fusiondoc.parse(folder / "foreach_small"),
        fusiondoc.parse(folder / "cond_break"),
    )
    came = {
        one.finding.code
        for one in fusiondoc.compare(before, broken).findings
        if one.change == "came"
    }
    assert "FD121" in came
    again = fusiondoc.compare(before, fusiondoc.parse(folder / "dynamic_small"))
    assert "FD122" in {
        one.finding.code for one in again.findings if one.change == "came"
    }


MODEL = """
import torch

def model(x, w, b):
    y = torch.relu(x * w + b)
    z = torch.cumsum(y, 0)
    return torch.tanh(z) * y + 1

inputs = (torch.rand(16, 64), torch.rand(64), torch.rand(64))
"""


@pytest.mark.torch
def test_what_was_a_group_of_another_fuser_is_named_by_lines(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    for name, options in (("nnc", ()), ("inductor", ("--no-run",))):
        run = [
            "diagnose",
            "model.py",
            "--fuser",
            name,
            *options,
            "-o",
            f"{name}.json",
        ]
        assert fusiondoc(*run, cwd=tmp_path).returncode == 0
    done = fusiondoc(
        "compare", "nnc.json", "inductor.json", "-f", "json", cwd=tmp_path
    )
    rows = json.loads(done.stdout)["by_lines"]
    lines = [
        {node["source"].split(":")[1] for node in row["a"]["nodes"]} for row in rows
    ]
    assert lines == [{"5"}, {"7"}]
    for row, line in zip(rows, ("5", "7")):
        (kernel,) = row["b"]
        assert {node["user_source"].split(":")[1] for node in kernel["nodes"]} == {
            line
        }
        assert row["outside"] == []
    text = " ".join(
        fusiondoc(
            "compare", "nnc.json", "inductor.json", cwd=tmp_path
        ).stdout.split()
    )
    assert "G1 of A (3 operators: mul, add, relu) is computed by G1 of B" in text
    assert (
        "Same 2 groups" in text and "G1 of A is now" not in text
    )  # one answer on each group
    assert (
        "Kernels" not in text
        and "of two compilers, so kernels are not compared" in text
    )
    findings = [
        json.loads((tmp_path / name).read_text())["findings"]
        for name in ("nnc.json", "inductor.json")
    ]
    assert (
        all(one["severity"] != "error" for side in findings for one in side)
        and findings[1]
    )
    assert json.loads(done.stdout)["findings"] == [] and "TORCH_TRACE" not in text
    assert json.loads((tmp_path / "inductor.json").read_text())["kernels"]
    assert (
        fusiondoc(
            *COMPARE, "--fail-on", "split", "--fail-on", "group-gone", cwd=tmp_path
        ).returncode
        == 0
    )
    _outside_in_b(tmp_path)
    assert fusiondoc(*COMPARE, "--fail-on", "split", cwd=tmp_path).returncode == 0
    done = fusiondoc(*COMPARE, "--fail-on", "group-gone", cwd=tmp_path)
    assert done.returncode == 1 and "Changed 1 group (1 gone)" in " ".join(
        done.stdout.split()
    )


COMPARE = ("compare", "nnc.json", "inductor.json")


def _outside_in_b(folder: Path) -> None:
    """Change the report of torch.compile so that it has no group of line 7."""
    report = json.loads((folder / "inductor.json").read_text())
    report["groups"] = [
        one
        for one in report["groups"]
        if not one["nodes"][0]["user_source"].endswith(":7")
    ]
    (folder / "inductor.json").write_text(json.dumps(report))
