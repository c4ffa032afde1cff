"""``fusiondoc kernels`` that runs something: a target, or the newest capture again
with a dump it lacks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Run

pytestmark = pytest.mark.torch

MODEL = """
import os
import torch
def model(x: torch.Tensor, y: torch.Tensor):
    return torch.tanh(x * y) + x
inputs = (torch.randn(4, 8), torch.randn(4, 8))
with open("runs.txt", "a") as file:
    file.write("run\\n")
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("written for the CPU")
    (tmp_path / "user.py").write_text(MODEL)
    return tmp_path


def runs(folder: Path) -> int:
    return (folder / "runs.txt").read_text().count("run")


def log_levels(capture: Path) -> str:
    return json.loads((capture / "request.json").read_text())["environment_set"][
        "PYTORCH_JIT_LOG_LEVEL"
    ]


def test_a_target_is_run_with_the_dump(fusiondoc: Run, user: Path) -> None:
    done = fusiondoc("kernels", "user.py", "--fuser", "nnc", "--dump", "nnc_ir")
    assert done.returncode == 0, done.stderr
    assert "K1 fused_mul_tanh_add" in done.stdout and "user.py:5" in done.stdout
    (log,) = (user / ".fusiondoc").glob("*/log")
    printed = re.findall(
        r"\] +(aten_add\[.*)", log.read_text().split("Final Stmt:")[-1]
    )
    assert printed and printed[0] in done.stdout


def test_without_a_dump_the_kernels_are_still_listed(
    fusiondoc: Run, user: Path
) -> None:
    done = fusiondoc("kernels", "user.py")
    assert done.returncode == 0 and "K1 fused_mul_tanh_add" in done.stdout
    assert "for (" not in done.stdout


def test_the_newest_capture_is_run_again_only_if_it_lacks_the_dump(
    fusiondoc: Run, user: Path
) -> None:
    assert (
        fusiondoc(
            "diagnose", "user.py", "--fuser", "nnc", "--runs", "4", "--seed", "3"
        ).returncode
        == 0
    )
    (capture,) = (path for path in (user / ".fusiondoc").iterdir() if path.is_dir())
    assert "kernel" not in log_levels(capture)
    table = fusiondoc("kernels")
    assert table.returncode == 0 and runs(user) == 1
    assert "--dump nnc_ir" in table.stderr

    first = fusiondoc("kernels", "--dump", "nnc_ir")
    assert first.returncode == 0, first.stderr
    assert runs(user) == 2 and "running user.py again" in first.stderr
    assert "for (int64_t" in first.stdout
    again = capture / "kernels"
    asked = json.loads((again / "request.json").read_text())
    before = json.loads((capture / "request.json").read_text())
    assert asked["options"] == {**before["options"], "dumps": ["nnc_ir"]}
    assert (
        asked["target"] == before["target"] and asked["python"] == before["python"]
    )
    assert log_levels(again).split(":").count(">>kernel") == 1

    second = fusiondoc("kernels", "--dump", "nnc_stages,nnc_ir")
    assert second.returncode == 0 and runs(user) == 2, (
        "the second look needs no run"
    )
    assert "// after inline" in second.stdout and second.stderr == ""

    third = fusiondoc("kernels", "--dump", "nnc_cuda")
    assert third.returncode == 0 and runs(user) == 3
    assert "no kernel shown has nnc_cuda" in third.stderr
    assert set(
        json.loads((again / "request.json").read_text())["options"]["dumps"]
    ) == {"nnc_ir", "nnc_cuda"}
    assert (
        len([path for path in (user / ".fusiondoc").iterdir() if path.is_dir()])
        == 1
    )


def test_a_capture_by_its_folder(fusiondoc: Run, user: Path) -> None:
    assert fusiondoc("kernels", "user.py", "--dump", "nnc_ir").returncode == 0
    (capture,) = (path for path in (user / ".fusiondoc").iterdir() if path.is_dir())
    elsewhere = user / "elsewhere"
    elsewhere.mkdir()
    done = fusiondoc("kernels", capture, "--dump", "nnc_ir", cwd=elsewhere)
    assert (
        done.returncode == 0 and "for (int64_t" in done.stdout and runs(user) == 1
    )


def test_wrong_dumps_are_refused_before_the_run(fusiondoc: Run, user: Path) -> None:
    for arguments, said in (
        (("--dump", "nnc_irr"), "Did you mean 'nnc_ir'"),
        (("--dump", "cuda_kernel"), "dump of nvFuser"),
        (("--dump", "onednn_verbose"), "--fuser onednn"),
        (("--fuser", "legacy"), "nvfuser"),  # its logs are read, no run can use it
        (("--fuser", "none", "--dump", "anything"), "nothing to dump"),
        (("--fuser", "onednn", "--dump", "nnc_ir"), "--fuser nnc"),
    ):
        done = fusiondoc("kernels", "user.py", *arguments)
        assert done.returncode == 2, arguments
        assert said in done.stderr, done.stderr
    assert not (user / "runs.txt").exists()


def test_wrong_dumps_for_a_capture_are_refused_too(
    fusiondoc: Run, user: Path
) -> None:
    assert fusiondoc("diagnose", "user.py").returncode == 0
    done = fusiondoc("kernels", "--dump", "kernel_ir")
    assert done.returncode == 2 and "dump of nvFuser" in done.stderr
    assert runs(user) == 1


def test_a_capture_whose_target_is_gone(fusiondoc: Run, user: Path) -> None:
    assert fusiondoc("diagnose", "user.py").returncode == 0
    (user / "user.py").unlink()
    done = fusiondoc("kernels", "--dump", "nnc_ir")
    assert (
        done.returncode == 2
        and "is gone" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_failing_model_keeps_its_status(fusiondoc: Run, user: Path) -> None:
    (user / "bad.py").write_text(
        "import torch\ndef model(x):\n    return x + nothing\ninputs = (torch.ones(2),)\n"
    )
    done = fusiondoc("kernels", "bad.py")
    assert done.returncode == 3 and "nothing" in done.stderr


def test_a_script_with_arguments_of_its_own(fusiondoc: Run, user: Path) -> None:
    (user / "script.py").write_text(
        "import sys, torch\nf = torch.jit.script(lambda x: x) if False else None\n"
        "@torch.jit.script\ndef g(x):\n    return torch.relu(x * 2) + x\n"
        "for _ in range(int(sys.argv[1])):\n    g(torch.ones(8))\n"
    )
    done = fusiondoc(
        "kernels", "--script", "script.py", "--dump", "nnc_ir", "--", "4"
    )
    assert done.returncode == 0, done.stderr
    assert "fused_mul_relu_add" in done.stdout


def test_the_users_log_level_stays(fusiondoc: Run, user: Path) -> None:
    done = fusiondoc(
        "kernels",
        "user.py",
        "--dump",
        "nnc_ir",
        env={"PYTORCH_JIT_LOG_LEVEL": ">autodiff:kernel"},
    )
    assert done.returncode == 0, done.stderr
    (capture,) = (path for path in (user / ".fusiondoc").iterdir() if path.is_dir())
    assert log_levels(capture).split(":")[:2] == [">autodiff", ">>kernel"]


def test_a_run_again_has_the_users_variables_of_then(
    fusiondoc: Run, user: Path
) -> None:
    """But not those that ask for logs, and none that fusiondoc had to change."""
    then = {
        "CUDA_MODULE_LOADING": "kept",
        "NOTHING_OF_TORCH": "not kept",
        "PYTORCH_JIT_TYPE_VERBOSITY": "0",
        "PYTORCH_JIT_LOG_LEVEL": "kernel",
    }
    assert (
        fusiondoc("diagnose", "user.py", "--fuser", "nnc", env=then).returncode == 0
    )
    (user / "user.py").write_text(
        MODEL
        + "print('TOLD', os.environ.get('CUDA_MODULE_LOADING'), os.environ.get('NOTHING_OF_TORCH'))\n"
    )
    done = fusiondoc("kernels", "--dump", "nnc_ir")
    assert done.returncode == 0, done.stderr
    (again,) = (user / ".fusiondoc").glob("*/kernels")
    assert "TOLD kept None" in (again / "log").read_text()
    made = json.loads((again / "request.json").read_text())["environment_set"]
    assert made["PYTORCH_JIT_LOG_LEVEL"].split(":").count("kernel") == 0
    assert "G1" in done.stdout
