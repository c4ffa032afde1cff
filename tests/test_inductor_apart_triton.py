"""Causes of boundaries that only Triton's scheduling has, without a GPU: Inductor
schedules the loops of the CPU for Triton, and the code that it would generate of
them is not needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import runs_of_processes

pytestmark = [pytest.mark.torch, pytest.mark.cold, pytest.mark.nightly]

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
CASES = (
    "FD263_before_broadcast",
    "FD268_two_transposes",
    "FD268_sum_of_transposed",
    "FD276_other_lengths",
)

PROGRAM = f"""
import contextlib, json, sys
import torch
import torch._inductor.config as config

sys.path.insert(0, {str(BENCHMARKS)!r})
import inductor_apart

config.cpu_backend = "triton"
config.force_disable_caches = True
which, *names = sys.argv[1:]
counts = []

def after_fusion(nodes):
    counts.append(len(nodes))
    return nodes

if which == "one":
    config._post_fusion_custom_pass = after_fusion
for name in names:
    torch._dynamo.reset()
    with contextlib.suppress(Exception):  # code generation needs the package triton
        inductor_apart.run(name, which, "cpu")
print(json.dumps(counts))
"""


def test_the_report_names_the_cause_and_its_change_makes_one_node(
    tmp_path: Path,
) -> None:
    (tmp_path / "cases.py").write_text(PROGRAM)
    run = runs_of_processes(tmp_path, tmp_path / "cache")
    done = run(
        "diagnose",
        "cases.py",
        "--script",
        "--no-run",
        "--format",
        "json",
        "--",
        "apart",
        *CASES,
    )
    assert done.returncode == 0, done.stderr
    causes = [
        boundary["cause"]["code"]
        for boundary in json.loads(done.stdout)["boundaries"]
    ]
    assert sorted(causes) == sorted(name.partition("_")[0] for name in CASES)
    command = [sys.executable, "cases.py", "one", *CASES]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == [1] * len(CASES)


def test_bytes_of_a_step_that_changes_its_inputs_are_those_that_torch_counts(
    tmp_path: Path,
) -> None:
    """Torch's count of what is read has a tensor that only has to be written
    before."""
    benchmark = BENCHMARKS / "inductor_on_gpu.py"
    command = [
        sys.executable,
        str(benchmark),
        str(tmp_path / "results"),
        "--only",
        "adam_step inference",
    ]
    options = ["--device", "cpu", "--generate", "--limit", "250"]
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
