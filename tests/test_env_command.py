"""``fusiondoc env``: what can run here, and lines that work in a launcher of one's
own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import write

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LAUNCHER_END = """
@torch.jit.script
def f(x):
    return (x + 1.0).relu() * x

for _ in range(4):
    f(torch.ones(4))
graph = torch._C._last_executed_optimized_graph()
print("GROUPS", len(list(graph.findAllNodes("prim::TensorExprGroup"))))
print("RUNS", torch._C._jit_get_num_profiled_runs())
"""


def test_it_says_what_works_and_what_is_missing(fusiondoc) -> None:
    said = json.loads(fusiondoc("env", "--format", "json").stdout)
    assert said["schema"] == "fusiondoc.env/1"
    assert said["environment"]["torch"] == torch.__version__
    rows = {row["fuser"]: row for row in said["fusers"]}
    assert rows["nnc"]["available"] is True
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    assert rows["inductor"]["available"] is (
        compiler is not None or torch.cuda.is_available()
    )
    if not torch.cuda.is_available():
        assert (
            rows["nvfuser"]["available"] is False
            and "NVIDIA GPU" in rows["nvfuser"]["install"]
        )
    text = fusiondoc("env")
    assert text.returncode == 0 and re.search(r"^nnc +yes ", text.stdout, re.M)
    assert max(map(len, text.stdout.splitlines())) <= 110


def test_what_is_exported_can_be_pasted_and_works(
    tmp_path: Path, fusiondoc
) -> None:
    if torch.cuda.is_available():
        pytest.skip("written for the CPU")
    write(tmp_path, "train.py", "import torch\nprint('mine')\n")
    exported = fusiondoc(
        "env", "--export", "train.py", "--fuser", "nnc", "--knob", "profiled_runs=2"
    )
    assert exported.returncode == 0, exported.stderr
    shell = [
        line for line in exported.stdout.splitlines() if line.startswith("export ")
    ]
    _, _, python = exported.stdout.partition("# 2. In Python")
    lines = python.partition("\n")[2].partition("\n\n#")[0]
    write(tmp_path, "launcher.py", "")
    (tmp_path / "launcher.py").write_text(lines + "\n" + LAUNCHER_END)
    script = "\n".join([*shell, f"{sys.executable} launcher.py 2>&1"])
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith("PYTORCH_")
    }
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "GROUPS 1" in done.stdout and "RUNS 2" in done.stdout
    assert (
        "tensorexpr_fuser.cpp" in done.stdout and "Optimized Graph" in done.stdout
    )
    assert done.stdout.index("tensorexpr_fuser.cpp") < done.stdout.index("GROUPS")


def test_the_exported_variables_are_those_of_a_run(
    tmp_path: Path, fusiondoc
) -> None:
    write(tmp_path, "train.py", "def model(x):\n    return x\n\ninputs = ()\n")
    options = ("--fuser", "onednn", "--format", "json")
    environment = {"PYTORCH_JIT_LOG_LEVEL": ">autodiff"}
    said = json.loads(
        fusiondoc("env", "--export", "train.py", *options, env=environment).stdout
    )
    assert said["fuser"] == "onednn" and said["merged"] == ["PYTORCH_JIT_LOG_LEVEL"]
    level, *verbose = said["shell"]
    assert (
        ">autodiff" in level
        and ">>graph_helper" in level
        and any("ONEDNN_VERBOSE=1" in one for one in verbose)
    )
    assert "torch._C._jit_set_llga_enabled(True)" in said["python"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--export", "models/trian.py"), 2, "Did you mean 'models/train.py'"),
        (("--export", "models/x.py"), 2, "There are in 'models': train.py."),
        (("--export", "trian.py"), 2, "Did you mean 'train.py'"),
        (
            ("--export", "train.py", "--knob", "fusion_strategie=STATIC:1"),
            2,
            "fusion_strategy",
        ),
        (("--python", "/no/such/python"), 2, "no interpreter"),
        (("somewhere",), 2, "unexpected argument 'somewhere'"),
    ],
)
def test_wrong_usage(
    tmp_path: Path, fusiondoc, arguments: tuple[str, ...], status: int, message: str
) -> None:
    write(tmp_path, "train.py", "print('mine')\n")
    (tmp_path / "models").mkdir()
    write(tmp_path, "models/train.py", "")
    done = fusiondoc("env", *arguments)
    assert done.returncode == status and message in done.stderr
    assert "Traceback" not in done.stderr
