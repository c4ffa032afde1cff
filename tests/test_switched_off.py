"""A fuser that the environment or the program switches off: the cause is named,
whatever the log says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import Run
from running import python_apart, uses_forks

pytestmark = pytest.mark.torch

MODEL = """\
import torch

{switch}


def model(x, y):
    return torch.relu(x + y) * y


inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""


def report_of(fusiondoc: Run, folder: Path, switch: str, **env: str) -> dict:
    (folder / "model.py").write_text(MODEL.format(switch=switch))
    done = fusiondoc(
        "diagnose", "model.py", "--fuser", "nnc", "-f", "json", env=env
    )
    assert done.returncode == 0, done.stderr
    report: dict = json.loads(done.stdout)
    return report


def run_findings(report: dict) -> list:
    """Those on the run, not on operators of it."""
    return [
        (one["code"], one["message"])
        for one in report["findings"]
        if not one["ops"]
    ]


def test_a_variable_that_switches_nnc_off_is_the_reason_of_every_operator(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "", PYTORCH_TENSOREXPR="0")
    assert run_findings(report) == [
        (
            "FD104",
            "PYTORCH_TENSOREXPR=0 is set: it switches NNC off, whatever the program sets",
        )
    ]
    assert {row["reason"]["code"] for row in report["unfused"]} == {
        "FD104"
    } and not report["groups"]
    assert "unset PYTORCH_TENSOREXPR" in report["plan"][0]["change"]
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "200"})
    assert (
        done.returncode == 1
        and "found 0: PYTORCH_TENSOREXPR=0 is set" in done.stdout
    )


@pytest.mark.parametrize(
    ("switch", "knob"),
    [
        ("torch._C._jit_set_profiling_executor(False)", "profiling_executor"),
        ("torch._C._jit_set_profiling_mode(False)", "profiling_mode"),
    ],
)
def test_an_executor_that_the_program_switches_off(
    switch: str, knob: str, fusiondoc: Run, tmp_path: Path
) -> None:
    """It prints nothing, so the log looks as if nothing had run in TorchScript."""
    report = report_of(fusiondoc, tmp_path, switch)
    ((code, message),) = run_findings(report)
    assert code == "FD104" and message.startswith(
        f"The program switches {knob} off itself: "
    )
    (tmp_path / "fusions.yaml").write_text("max_fallbacks: 0\nnot_fused: []\n")
    done = fusiondoc("check", "--expect", "fusions.yaml")
    assert done.returncode == 1 and done.stdout.count("BROKEN") == 2


def test_a_fuser_that_the_program_switches_off_is_told_although_the_run_has_it_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(
        fusiondoc, tmp_path, "torch._C._jit_set_texpr_fuser_enabled(False)"
    )
    ((code, message),) = run_findings(report)
    assert len(report["groups"]) == 1
    assert code == "FD104" and message.startswith(
        "The program switches NNC off itself: this run switched it on"
    )
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "300"})
    assert (
        done.returncode == 1 and "1 of 2 expectations hold, 1 broken" in done.stdout
    )
    assert (
        " BROKEN  model.py:3: expected the fuser to be on; found it off: The program switches NNC off"
        in (done.stdout)
    )
    assert "Remove torch._C._jit_set_texpr_fuser_enabled(False)" in done.stdout
    assert "warning FD104" not in done.stdout, "once is enough"


def test_switches_that_leave_the_fuser_on_are_no_finding(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(
        fusiondoc, tmp_path, "torch._C._jit_override_can_fuse_on_gpu(False)"
    )
    assert run_findings(report) == [] and len(report["groups"]) == 1


def test_a_fuser_that_the_model_switches_off_while_it_runs(
    fusiondoc: Run, tmp_path: Path
) -> None:
    switch = """
@torch.jit.ignore
def off() -> None:
    torch._C._jit_set_texpr_fuser_enabled(False)
"""
    text = MODEL.format(switch=switch).replace(
        "    return", "    off()\n    return"
    )
    (tmp_path / "model.py").write_text(text)
    report = json.loads(
        fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json").stdout
    )
    assert (
        "FD104",
        "The program switches NNC off while it runs: plans made after that hold no group",
    ) in (run_findings(report))
    rows = {row["op"]: row["reason"]["text"] for row in report["unfused"]}
    assert (
        rows["aten::add"] == "the program had switched the fuser off"
        and not report["groups"]
    )


def test_a_knob_that_switches_the_fuser_off_is_not_the_programs_doing(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(
        MODEL.format(switch="torch._C._jit_override_can_fuse_on_gpu(False)")
    )
    done = fusiondoc(
        "diagnose", "model.py", "--fuser", "nnc", "--knob", "nnc=off", "-f", "json"
    )
    assert done.returncode == 0, done.stderr
    assert not [
        one
        for one in run_findings(json.loads(done.stdout))
        if "The program" in one[1]
    ]


def check(fusiondoc: Run, folder: Path, text: str, *options: str) -> Any:
    (folder / "program.py").write_text(text)
    (folder / "fusions.yaml").write_text(
        "max_fallbacks: 0\nnot_fused: [add, relu, mul]\n"
    )
    return fusiondoc(
        "check",
        "program.py",
        "--fuser",
        "nnc",
        *options,
        "--expect",
        "fusions.yaml",
        env={"COLUMNS": "300"},
    )


@pytest.mark.parametrize(
    "switch",
    [
        "torch._C._jit_set_texpr_fuser_enabled(False)",
        "torch._C._jit_override_can_fuse_on_cpu(False)",
        "torch._C._jit_set_te_must_use_llvm_cpu(True)",
        "torch._C._jit_set_profiling_executor(False)",
        "torch._C._jit_set_profiling_mode(False)",
        "torch._C._set_graph_executor_optimize(False)",
        "torch._C._get_graph_executor_optimize(False)",
    ],
)
def test_every_switch_thrown_at_import_is_named_with_its_line(
    switch: str, fusiondoc: Run, tmp_path: Path
) -> None:
    done = check(fusiondoc, tmp_path, MODEL.format(switch=switch))
    assert done.returncode == 1
    assert "program.py:3" in done.stdout and f" Remove {switch}, or" in done.stdout


def test_a_variable_that_the_program_sets_itself(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """torch reads it once: by hand after this line, under fusiondoc before."""
    switch = "import os; os.environ['PYTORCH_TENSOREXPR'] = '0'"
    done = check(fusiondoc, tmp_path, MODEL.format(switch=switch))
    assert (
        done.returncode == 1
        and 'Remove os.environ["PYTORCH_TENSOREXPR"] = "0"' in done.stdout
    )


SCRIPT = """\
import torch

@torch.jit.script
def model(x, y):
    return torch.relu(x + y) * y

def main():
    {before}
    for number in range(5):
        {around}
            model(torch.rand(4, 8), torch.rand(4, 8))
        {after}

main()
"""
OFF = "torch._C._jit_set_texpr_fuser_enabled(False)"


@pytest.mark.parametrize(
    ("where", "text", "line", "call"),
    [
        ("before", OFF, 8, OFF),
        (
            "around",
            "with torch.jit.optimized_execution(False):",
            10,
            "torch.jit.optimized_execution(False)",
        ),
        (
            "around",
            "with torch.jit.fuser('fuser0'):",
            10,
            'torch.jit.fuser("fuser0")',
        ),
        ("after", OFF, 12, OFF),
    ],
)
def test_a_script_that_switches_off_in_main_or_between_passes(
    where: str, text: str, line: int, call: str, fusiondoc: Run, tmp_path: Path
) -> None:
    """Blocks switch it on again, so that nothing is off at the end."""
    parts = {"before": "pass", "around": "if True:", "after": "pass", where: text}
    done = check(fusiondoc, tmp_path, SCRIPT.format(**parts), "--script")
    assert done.returncode == 1 and "0 of 2 expectations hold" in done.stdout
    assert "warning FD104: The program switches" in done.stdout
    assert (
        f" (program.py:{line}). Remove {call}, or leave it out where the model runs"
        in done.stdout
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "pass", "around": "if True:", "after": f"number < 4 or {OFF}"},
        {
            "before": "with torch.jit.optimized_execution(False): model(torch.rand(4, 8), torch.rand(4, 8))",
            "around": "if True:",
            "after": "pass",
        },
    ],
)
def test_what_a_script_switches_off_for_something_else_breaks_nothing(
    parts: dict, fusiondoc: Run, tmp_path: Path
) -> None:
    """At its very end, or around what it compares with."""
    done = check(fusiondoc, tmp_path, SCRIPT.format(**parts), "--script")
    assert done.returncode == 0 and "2 of 2 expectations hold" in done.stdout


def test_a_block_of_the_model_that_a_trace_runs_through(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = MODEL.format(switch="inner = None").replace(
        "    return",
        "    with torch.jit.optimized_execution(False):\n        return",
    )
    done = check(fusiondoc, tmp_path, text, "--trace")
    assert (
        done.returncode == 1
        and "BROKEN  program.py:7: expected the fuser to be on" in done.stdout
    )
    assert "this run traced the model with it on" in done.stdout


def test_a_process_that_the_program_starts(fusiondoc: Run, tmp_path: Path) -> None:
    text = SCRIPT.format(before=OFF, around="if True:", after="pass").replace(
        "\nmain()\n",
        "\nif __name__ == '__main__':\n    import multiprocessing\n"
        "    one = multiprocessing.get_context('spawn').Process(target=main)\n    one.start(); one.join()\n",
    )
    done = check(fusiondoc, tmp_path, text, "--script")
    assert done.returncode == 1 and "(program.py:8). Remove" in done.stdout


def test_a_section_that_no_missing_plan_breaks(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """That the run had no finding of the kind says nothing."""
    report_of(fusiondoc, tmp_path, "torch._C._jit_set_profiling_executor(False)")
    (tmp_path / "fusions.yaml").write_text("findings: {forbid: [FD301]}\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "200"})
    assert (
        done.returncode == 1
        and "BROKEN  model.py:3: expected the fuser to be on" in done.stdout
    )


def test_a_file_that_expects_it_is_fulfilled(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report_of(fusiondoc, tmp_path, OFF)
    (tmp_path / "known.yaml").write_text(
        "max_fallbacks: 0\nfindings: {expect: [FD104]}\n"
    )
    done = fusiondoc("check", "--expect", "known.yaml")
    assert done.returncode == 0 and "2 of 2 expectations hold" in done.stdout


def test_update_writes_and_stays_red(fusiondoc: Run, tmp_path: Path) -> None:
    report_of(fusiondoc, tmp_path, OFF)
    done = fusiondoc(
        "check", "--expect", "new.yaml", "--update", env={"COLUMNS": "200"}
    )
    assert done.returncode == 1 and "wrote new.yaml" in done.stderr
    assert "BROKEN model.py:3: expected the fuser to be on" in done.stderr


def test_all_formats_agree(fusiondoc: Run, tmp_path: Path) -> None:
    report_of(fusiondoc, tmp_path, OFF)
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    texts = {}
    for form in ("junit", "sarif", "markdown", "github", "json", "html"):
        done = fusiondoc("check", "--expect", "fusions.yaml", "-f", form)
        assert done.returncode == 1
        texts[form] = done.stdout
    suite = ElementTree.fromstring(texts["junit"]).find(
        "testsuite[@name='expectations']"
    )
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == (
        "2",
        "1",
    )
    results = json.loads(texts["sarif"])["runs"][0]["results"]
    (first,) = (one for one in results if one["ruleId"] == "expectation")
    assert first["level"] == "error"
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "model.py" and place["region"] == {
        "startLine": 3
    }
    assert (
        "❌ **broken** the fuser to be on; found it off at `model.py:3`"
        in texts["markdown"]
    )
    assert "::error file=model.py,line=3," in texts["github"]
    assert json.loads(texts["json"])["expectations"][0]["source"].endswith(
        "model.py:3"
    )
    assert "the fuser to be on" in texts["html"]


BLOCK = """\
import sys, torch, fusiondoc
torch._C._jit_override_can_fuse_on_cpu(True); torch._C._jit_set_te_must_use_llvm_cpu(False)

@torch.jit.script
def model(x, y):
    return torch.relu(x + y) * y

{before}
with fusiondoc.capture(name="block"):
    {inside}
    for _ in range(4):
        model(torch.rand(4, 8), torch.rand(4, 8))
"""


@pytest.mark.parametrize(
    ("before", "inside", "said"),
    [
        (
            OFF,
            "pass",
            "found unknown: This process had the fuser off before the block began",
        ),
        (
            "pass",
            OFF,
            "(program.py:10). Remove torch._C._jit_set_texpr_fuser_enabled(False)",
        ),
    ],
)
def test_a_block_of_a_process_that_has_it_off(
    before: str, inside: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(BLOCK.format(before=before, inside=inside))
    python_apart(str(tmp_path / "program.py"), cwd=tmp_path)
    (tmp_path / "fusions.yaml").write_text("max_fallbacks: 0\n")
    done = fusiondoc(
        "check", "block", "--expect", "fusions.yaml", env={"COLUMNS": "300"}
    )
    assert done.returncode == 1 and said in done.stdout
    assert "--fuser none" not in fusiondoc("parse", "block").stdout


FIXTURE = """\
import sys
from pathlib import Path
import torch
import production
from fusiondoc.testing import Fusion

fusion = Fusion("test_it", lambda: Path("captures"), "nnc")
try:
    fusion.assert_fused(production.model, torch.rand(4, 8), torch.rand(4, 8), groups=[["add", "relu", "mul"]])
except AssertionError as error:
    print("FAILED", error)
else:
    print("PASSED")
"""


@pytest.mark.parametrize(
    ("switch", "outcome"),
    [
        pytest.param("", "PASSED\n", marks=pytest.mark.nightly),
        (OFF, "FAILED expected the fuser to be on"),
    ],
)
def test_the_pytest_fixture_fails_where_the_model_s_module_switches_off(
    switch: str, outcome: str, tmp_path: Path
) -> None:
    """The model runs in a child, which imports nothing of that module."""
    (tmp_path / "production.py").write_text(MODEL.format(switch=switch))
    (tmp_path / "test_it.py").write_text(uses_forks() + FIXTURE)
    path = os.pathsep.join(
        filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))
    )
    variables = {**os.environ, "PYTHONPATH": path}
    done = python_apart(str(tmp_path / "test_it.py"), cwd=tmp_path, env=variables)
    assert outcome in done.stdout


def test_the_unfused_run_of_verify_is_no_switch_of_the_program(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """``--verify`` runs a copy of the model without optimisation, as
    ``torch.jit.optimized_execution(False)`` does."""
    (tmp_path / "model.py").write_text(MODEL.format(switch=""))
    done = fusiondoc(
        "diagnose",
        "model.py",
        "--fuser",
        "nnc",
        "--verify",
        "-f",
        "json",
        cwd=tmp_path,
    )
    report = json.loads(done.stdout)
    assert report["verification"] and "FD104" not in {
        one["code"] for one in report["findings"]
    }
    assert not any("optimized_execution" in one["change"] for one in report["plan"])
