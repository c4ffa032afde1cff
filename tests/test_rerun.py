"""The rerun without fallback, with real children: a script that says and raises
what nvFuser does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, Run
from running import write

from fusiondoc.fusers.fuser_errors import CODEGEN
from fusiondoc.workflows.fallback_off import fallback_off, is_off

pytestmark = pytest.mark.torch

ERROR = (
    'RuntimeError: (false) INTERNAL ASSERT FAILED at "../third_party/nvfuser/csrc/lower_utils.cpp":77, please'
    " report a bug to PyTorch. Could not find a producer"
)


def fallback_script(folder: Path, when_off: str) -> Path:
    """A program that prints the recorded log of a fallback on torch 2.1.2, and does
    ``when_off`` where the fallback is switched off."""
    log = FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"
    return write(
        folder,
        "train.py",
        f"""
        import lzma, os, sys
        if "fallback" in os.environ.get("PYTORCH_NVFUSER_DISABLE", "").split(","):
            assert os.environ["PYTORCH_NVFUSER_DISABLE_FALLBACK"] == "1"
            {when_off}
        sys.stderr.write(lzma.open({str(log)!r}, "rt").read())
        """,
    )


def diagnose(
    fusiondoc: Run, folder: Path, *options: str, **kwargs: Any
) -> tuple[dict[str, Any], str]:
    done = fusiondoc(
        "diagnose",
        "--script",
        "train.py",
        "--format",
        "json",
        *options,
        cwd=folder,
        **kwargs,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_the_error_of_the_rerun_is_that_of_the_fallback(
    fusiondoc: Run, tmp_path: Path
) -> None:
    message = ERROR[len("RuntimeError: ") :]
    fallback_script(tmp_path, f"raise RuntimeError({message!r})")
    report, said = diagnose(fusiondoc, tmp_path)
    assert "running once more without fallback" in said
    first = report["fallbacks"][0]
    assert first["error"] == "Could not find a producer (lower_utils.cpp:77)"
    assert first["error_kind"] == CODEGEN
    (found,) = [f for f in report["findings"] if f["code"] == "FD302"]
    assert (
        "nvFuser's code generator failed: Could not find a producer"
        in found["message"]
    )
    assert "skip_node_kind" in found["advice"]

    captures = [
        path for path in (tmp_path / ".fusiondoc").iterdir() if path.is_dir()
    ]
    assert len(captures) == 1 and (captures[0] / "rerun" / "request.json").is_file()
    again = fusiondoc("parse", "--format", "json", cwd=tmp_path)
    assert json.loads(again.stdout)["fallbacks"] == report["fallbacks"]
    inner = fusiondoc("parse", captures[0] / "rerun", cwd=tmp_path)
    assert inner.returncode == 0 and "Could not find a producer" in inner.stdout


def test_an_error_that_the_program_catches_is_found_in_its_log(
    fusiondoc: Run, tmp_path: Path
) -> None:
    fallback_script(tmp_path, f"print({ERROR!r}); sys.exit(0)")
    report, _ = diagnose(fusiondoc, tmp_path)
    assert (
        report["fallbacks"][0]["error"]
        == "Could not find a producer (lower_utils.cpp:77)"
    )


def test_an_error_of_the_program_is_told_apart(
    fusiondoc: Run, tmp_path: Path
) -> None:
    fallback_script(
        tmp_path, "raise RuntimeError('The size of tensor a (3) must match')"
    )
    report, _ = diagnose(fusiondoc, tmp_path)
    assert report["fallbacks"][0]["error_kind"] == "program"
    (found,) = [f for f in report["findings"] if f["code"] == "FD302"]
    assert (
        "the operators themselves fail" in found["message"]
        and "--fuser none" in found["advice"]
    )


def test_a_toolchain_that_does_not_fit(fusiondoc: Run, tmp_path: Path) -> None:
    fallback_script(
        tmp_path,
        "raise RuntimeError('nvrtc: error: invalid value for --gpu-architecture (-arch)')",
    )
    report, _ = diagnose(fusiondoc, tmp_path)
    codes = [finding["code"] for finding in report["findings"]]
    assert codes[0] == "FD306" and "FD302" in codes


@pytest.mark.parametrize(
    ("when_off", "said"),
    [("pass", "raised no error"), ("os.kill(os.getpid(), 11)", "died of SIGSEGV")],
    ids=["nothing", "signal"],
)
def test_a_rerun_without_an_error(
    fusiondoc: Run, tmp_path: Path, when_off: str, said: str
) -> None:
    fallback_script(tmp_path, when_off)
    report, _ = diagnose(fusiondoc, tmp_path)
    assert report["fallbacks"][0]["error"] is None
    (found,) = [f for f in report["findings"] if f["code"] == "FD302"]
    assert said in found["advice"]


def test_no_rerun(fusiondoc: Run, tmp_path: Path) -> None:
    fallback_script(tmp_path, "raise RuntimeError('no')")
    report, said = diagnose(fusiondoc, tmp_path, "--no-rerun")
    assert report["fallbacks"][0]["error"] is None and "once more" not in said
    assert not list((tmp_path / ".fusiondoc").glob("*/rerun"))
    # Switched off by the user already: the run itself raised whatever there is.
    env = {"PYTORCH_NVFUSER_DISABLE_FALLBACK": "1"}
    _, said = diagnose(fusiondoc, tmp_path, env=env)
    assert "once more" not in said


def test_the_variables_of_each_version() -> None:
    number = {"PYTORCH_NVFUSER_DISABLE_FALLBACK": "1"}
    assert fallback_off("1.11.0", {}) == number
    assert fallback_off("1.12.1+cu116", {}) == {
        "PYTORCH_NVFUSER_DISABLE": "fallback",
        **number,
    }
    assert (
        fallback_off("2.1.2", {"PYTORCH_NVFUSER_DISABLE": "fma"})[
            "PYTORCH_NVFUSER_DISABLE"
        ]
        == "fma,fallback"
    )
    assert not is_off({"PYTORCH_NVFUSER_DISABLE_FALLBACK": "true"}), "atoi"
    assert (
        is_off({"PYTORCH_NVFUSER_DISABLE": "fma,fallback"})
        and is_off(number)
        and not is_off({})
    )
