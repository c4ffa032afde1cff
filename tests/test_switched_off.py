"""A fuser that the environment or the program switches off: the cause is named, whatever the log says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run
from running import python_apart

from fusiondoc.fuser_knobs import release
from fusiondoc.probe.own_switches import OwnSwitches, fuser_by, switches_of
from fusiondoc.runner.own_launcher import missing_switches

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
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json", env=env)
    assert done.returncode == 0, done.stderr
    report: dict = json.loads(done.stdout)
    return report


def run_findings(report: dict) -> list:
    """Those on the run, not on operators of it."""
    return [(one["code"], one["message"]) for one in report["findings"] if not one["ops"]]


def test_a_variable_that_switches_nnc_off_is_the_reason_of_every_operator(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "", PYTORCH_TENSOREXPR="0")
    assert run_findings(report) == [
        ("FD104", "PYTORCH_TENSOREXPR=0 is set: it switches NNC off, whatever the program says")
    ]
    assert {row["reason"]["code"] for row in report["unfused"]} == {"FD104"} and not report["groups"]
    assert "unset PYTORCH_TENSOREXPR" in report["plan"][0]["change"]
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "200"})
    assert done.returncode == 1 and "found 0: PYTORCH_TENSOREXPR=0 is set" in done.stdout


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
    assert code == "FD104" and message.startswith(f"The program switches {knob} off itself: ")
    (tmp_path / "fusions.yaml").write_text("max_fallbacks: 0\nnot_fused: []\n")
    done = fusiondoc("check", "--expect", "fusions.yaml")
    assert done.returncode == 1 and done.stdout.count("BROKEN") == 2


def test_a_fuser_that_the_program_switches_off_is_told_although_the_run_has_it_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "torch._C._jit_set_texpr_fuser_enabled(False)")
    ((code, message),) = run_findings(report)
    assert len(report["groups"]) == 1
    assert code == "FD104" and message.startswith(
        "The program switches NNC off itself: this run switched it on"
    )
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "200"})
    assert done.returncode == 0 and "\nwarning FD104: The program switches NNC off itself" in done.stdout
    assert fusiondoc("check", "--expect", "fusions.yaml", "--fail-on", "FD104").returncode == 1


def test_switches_that_leave_the_fuser_on_are_no_finding(fusiondoc: Run, tmp_path: Path) -> None:
    report = report_of(fusiondoc, tmp_path, "torch._C._jit_override_can_fuse_on_gpu(False)")
    assert run_findings(report) == [] and len(report["groups"]) == 1


def test_a_fuser_that_the_model_switches_off_while_it_runs(fusiondoc: Run, tmp_path: Path) -> None:
    switch = """
@torch.jit.ignore
def off() -> None:
    torch._C._jit_set_texpr_fuser_enabled(False)
"""
    text = MODEL.format(switch=switch).replace("    return", "    off()\n    return")
    (tmp_path / "model.py").write_text(text)
    report = json.loads(fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json").stdout)
    assert ("FD104", "The program switches NNC off while it runs: plans made after that hold no group") in (
        run_findings(report)
    )
    rows = {row["op"]: row["reason"]["text"] for row in report["unfused"]}
    assert rows["aten::add"] == "the program had switched the fuser off" and not report["groups"]


def test_a_knob_that_switches_the_fuser_off_is_not_the_programs_doing(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(switch="torch._C._jit_override_can_fuse_on_gpu(False)"))
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "--knob", "nnc=off", "-f", "json")
    assert done.returncode == 0, done.stderr
    assert not [one for one in run_findings(json.loads(done.stdout)) if "The program" in one[1]]


# -- by itself ----------------------------------------------------------------------------------------------

ON = "torch._C._jit_override_can_fuse_on_cpu(True); torch._C._jit_set_te_must_use_llvm_cpu(False)"
"""What NNC needs on the CPU of a torch without LLVM."""

BY_ITSELF = """\
import torch

{lines}
f = torch.jit.script(torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh()))
for _ in range(4):
    f(torch.rand(4, 8))
print(len(torch._C._last_executed_optimized_graph().findAllNodes("prim::TensorExprGroup")))
"""


def test_what_the_program_does_by_itself_is_said_with_the_lines_that_switch_the_fuser_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    own = report_of(fusiondoc, tmp_path, "")["fuser"]["by_itself"]
    assert (own["fuser"], own["device"], own["wanted"]) == ("none", "cpu", "nnc")
    assert own["python"] == ON.split("; ")
    screen = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "--summary").stdout
    assert "Program  by itself fuses nothing: NNC is off on the CPU until switched on:\n" in screen
    assert "\n".join(f"         {line}" for line in own["python"]) in screen
    assert len(screen.rstrip().split("\n")) <= 24
    markdown = fusiondoc("parse", "-f", "markdown").stdout
    assert f"The program by itself fuses nothing: NNC is off on the CPU until switched on: `{ON}`" in markdown
    page = fusiondoc("parse", "-f", "html").stdout
    assert "The program by itself fuses nothing" in page and "\n".join(own["python"]) in page
    # It is true: the same program without fusiondoc, as it is and with these lines.
    exported = fusiondoc("env", "--export", "model.py", "--fuser", "nnc").stdout
    assert all(line in exported for line in own["python"])
    for lines, groups in (("", "0"), ("\n".join(own["python"]), "1")):
        done = python_apart(code=BY_ITSELF.format(lines=lines))
        assert done.stdout.strip() == groups, done.stderr


@pytest.mark.parametrize(
    "switch", [ON, f"with torch.jit.fuser('fuser1'): {ON}", "torch._C._jit_set_llga_enabled(True)"]
)
def test_a_program_that_switches_its_fuser_on_needs_no_lines(
    switch: str, fusiondoc: Run, tmp_path: Path
) -> None:
    own = report_of(fusiondoc, tmp_path, switch)["fuser"]["by_itself"]
    assert own is None or own["fuser"] == "onednn"
    assert (own is None) is ("llga" not in switch)


@pytest.mark.parametrize("switch", ["", "with torch.jit.fuser('fuser1'):\n    "])
def test_a_program_that_runs_as_it_is_tells_it_too(switch: str, fusiondoc: Run, tmp_path: Path) -> None:
    text = MODEL.format(switch="torch._C._jit_set_te_must_use_llvm_cpu(False)")
    text += f"f = torch.jit.script(model)\n{switch}[f(*inputs) for _ in range(4)]\n"
    (tmp_path / "script.py").write_text(text.replace("inputs =", "given =").replace("*inputs", "*given"))
    report = json.loads(fusiondoc("diagnose", "script.py", "--script", "--fuser", "nnc", "-f", "json").stdout)
    own = report["fuser"]["by_itself"]
    assert report["groups"] and (own is None) is bool(switch)
    assert own is None or own["python"] == ON.split("; ")[:1]


def test_it_is_said_also_where_nothing_fused_and_not_where_no_fuser_was_wanted(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Who follows the advice of a report needs the fuser on."""
    report_of(fusiondoc, tmp_path, "")
    done = fusiondoc("diagnose", "model.py", "--fuser", "none", "-f", "json")
    assert json.loads(done.stdout)["fuser"]["by_itself"] is None
    single = MODEL.format(switch="").replace("torch.relu(x + y) * y", "torch.cumsum(x, 0)")
    (tmp_path / "model.py").write_text(single)
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json")
    report = json.loads(done.stdout)
    assert not report["groups"] and report["fuser"]["by_itself"]["fuser"] == "none"


@pytest.mark.parametrize(
    ("torch", "device", "own", "wanted", "lines"),
    [
        # The defaults of knob_table.py: nvFuser on with CUDA in 1.12 to 2.0, NNC on the GPU from 2.1 on.
        ("1.13.1+cu117", "cuda", "nvfuser", "nvfuser", None),
        ("2.0.1+cu118", "cuda", "nvfuser", "nnc", ["_jit_set_nvfuser_enabled(False)"]),
        (
            "2.1.2+cu121",
            "cuda",
            "nnc",
            "nvfuser",
            [
                "_jit_override_can_fuse_on_gpu(False)",
                "_jit_set_texpr_fuser_enabled(False)",
                "_jit_set_nvfuser_enabled(True)",
            ],
        ),
        ("2.11.0+cu130", "cuda", "nnc", "nnc", None),
        (
            "2.11.0+cu130",
            "cpu",
            "none",
            "nnc",
            ["_jit_override_can_fuse_on_cpu(True)", "_jit_set_te_must_use_llvm_cpu(False)"],
        ),
        ("1.12.1+llvm", "cpu", "nnc", "nnc", None),
    ],
)
def test_the_fuser_by_itself_of_other_versions_and_devices(
    torch: str, device: str, own: str, wanted: str, lines: list[str] | None
) -> None:
    llvm = "llvm" in torch
    switches = {
        "_jit_override_can_fuse_on_cpu": llvm,
        "_jit_override_can_fuse_on_gpu": "cu" in torch,
        "_jit_set_texpr_fuser_enabled": True,
        "_jit_set_te_must_use_llvm_cpu": True,
        "_jit_set_llga_enabled": False,
    }
    if release(torch) < (2, 2):
        switches["_jit_set_nvfuser_enabled"] = "cu" in torch and release(torch) < (2, 1)
    assert fuser_by(switches, device, llvm) == own
    if lines is not None:
        cuda = "12.1" if "cu" in torch else None
        found = missing_switches(wanted, device, switches, torch, cuda, llvm)
        assert list(found) == [f"torch._C.{line}" for line in lines]


def test_the_watched_switches_are_torchs_again_after_the_run() -> None:
    torch = pytest.importorskip("torch")
    before = {name: getattr(torch._C, name) for name in switches_of(torch)}
    own = OwnSwitches(torch)
    own.start()
    assert torch._C._jit_set_te_must_use_llvm_cpu is not before["_jit_set_te_must_use_llvm_cpu"]
    own.stop()
    assert {name: getattr(torch._C, name) for name in before} == before
