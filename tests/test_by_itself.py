"""What a program does without fusiondoc's switches: the truth of the line on the
first screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run
from running import python_apart
from test_switched_off import MODEL, report_of

from fusiondoc.fuser_knobs import release
from fusiondoc.probe.fusers import fuser_by, switches_of
from fusiondoc.probe.switch_watch import SwitchWatch
from fusiondoc.runner.own_launcher import missing_switches

pytestmark = pytest.mark.torch

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
    assert (
        "Program  by itself fuses nothing: NNC is off on the CPU until switched on:\n"
        in screen
    )
    assert "\n".join(f"         {line}" for line in own["python"]) in screen
    assert len(screen.rstrip().split("\n")) <= 24
    markdown = fusiondoc("parse", "-f", "markdown").stdout
    assert (
        f"The program by itself fuses nothing: NNC is off on the CPU until switched on: `{ON}`"
        in markdown
    )
    page = fusiondoc("parse", "-f", "html").stdout
    assert (
        "The program by itself fuses nothing" in page
        and "\n".join(own["python"]) in page
    )
    # It is true: the same program without fusiondoc, as it is and with these lines.
    exported = fusiondoc("env", "--export", "model.py", "--fuser", "nnc").stdout
    assert all(line in exported for line in own["python"])
    for lines, groups in (("", "0"), ("\n".join(own["python"]), "1")):
        done = python_apart(code=BY_ITSELF.format(lines=lines))
        assert done.stdout.strip() == groups, done.stderr


@pytest.mark.parametrize(
    "switch",
    [
        ON,
        f"with torch.jit.fuser('fuser1'): {ON}",
        "torch._C._jit_set_llga_enabled(True)",
    ],
)
def test_a_program_that_switches_its_fuser_on_needs_no_lines(
    switch: str, fusiondoc: Run, tmp_path: Path
) -> None:
    own = report_of(fusiondoc, tmp_path, switch)["fuser"]["by_itself"]
    assert own is None or own["fuser"] == "onednn"
    assert (own is None) is ("llga" not in switch)


@pytest.mark.parametrize("switch", ["", "with torch.jit.fuser('fuser1'):\n    "])
def test_a_program_that_runs_as_it_is_tells_it_too(
    switch: str, fusiondoc: Run, tmp_path: Path
) -> None:
    text = MODEL.format(switch="torch._C._jit_set_te_must_use_llvm_cpu(False)")
    text += f"f = torch.jit.script(model)\n{switch}[f(*inputs) for _ in range(4)]\n"
    (tmp_path / "script.py").write_text(
        text.replace("inputs =", "given =").replace("*inputs", "*given")
    )
    report = json.loads(
        fusiondoc(
            "diagnose", "script.py", "--script", "--fuser", "nnc", "-f", "json"
        ).stdout
    )
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
    single = MODEL.format(switch="").replace(
        "torch.relu(x + y) * y", "torch.cumsum(x, 0)"
    )
    (tmp_path / "model.py").write_text(single)
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json")
    report = json.loads(done.stdout)
    assert not report["groups"] and report["fuser"]["by_itself"]["fuser"] == "none"


@pytest.mark.parametrize(
    ("torch", "device", "own", "wanted", "lines"),
    [
        # The defaults of knob_table.py: nvFuser on with CUDA in 1.12 to 2.0, NNC on
        # the GPU from 2.1 on.
        ("1.13.1+cu117", "cuda", "nvfuser", "nvfuser", None),
        (
            "2.0.1+cu118",
            "cuda",
            "nvfuser",
            "nnc",
            ["_jit_set_nvfuser_enabled(False)"],
        ),
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
            [
                "_jit_override_can_fuse_on_cpu(True)",
                "_jit_set_te_must_use_llvm_cpu(False)",
            ],
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
        switches["_jit_set_nvfuser_enabled"] = "cu" in torch and release(torch) < (
            2,
            1,
        )
    assert fuser_by(switches, device, llvm) == own
    if lines is not None:
        cuda = "12.1" if "cu" in torch else None
        found = missing_switches(wanted, device, switches, torch, cuda, llvm)
        assert list(found) == [f"torch._C.{line}" for line in lines]


def test_the_watched_switches_are_torchs_again_after_the_run() -> None:
    torch = pytest.importorskip("torch")
    before = {name: getattr(torch._C, name) for name in switches_of(torch)}
    watch = SwitchWatch(torch, None, "nnc")
    watch.start()
    assert (
        torch._C._jit_set_te_must_use_llvm_cpu
        is not before["_jit_set_te_must_use_llvm_cpu"]
    )
    watch.stop()
    assert {name: getattr(torch._C, name) for name in before} == before
