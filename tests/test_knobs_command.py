"""``fusiondoc knobs`` as a user runs it: real processes, the real torch of this
interpreter."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import Run


@pytest.fixture
def without_torch(tmp_path):
    """An interpreter that has no torch: this one, told to leave out installed
    packages."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.torch
def test_values_are_those_of_the_torch_found_and_lines_fit(fusiondoc: Run):
    torch = pytest.importorskip("torch")
    done = fusiondoc("knobs")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.startswith(f"torch {torch.__version__}")
    lines = done.stdout.splitlines()
    assert any(
        line.split()[:2] == ["fusion_strategy", "STATIC:2,DYNAMIC:10"]
        for line in lines
    )
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 2):
        assert "No-ops on torch" in done.stdout
        assert not any(line.startswith("nvfuser ") for line in lines)
        assert any(
            line.split()[:3] == ["nvfuser", "does", "nothing"]
            for line in fusiondoc("knobs", "--all").stdout.splitlines()
        )


def test_without_torch_the_catalogue_is_shown_and_the_fix_named(
    fusiondoc: Run, without_torch
):
    done = fusiondoc("knobs", "--python", without_torch)
    assert done.returncode == 0, done.stderr
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert (
        first.startswith("Values are unknown:")
        and "has no torch" in first
        and "--python PATH" in first
    )
    lines = done.stdout.splitlines()
    assert any(line.split()[:2] == ["single_node", "unknown"] for line in lines)
    assert any(line.startswith("print_args ") for line in lines)


def test_json_holds_every_knob_variable_and_option(fusiondoc: Run, without_torch):
    done = fusiondoc(
        "knobs",
        "--python",
        without_torch,
        "--format",
        "json",
        env={"PYTORCH_TENSOREXPR": "0"},
    )
    shown = json.loads(done.stdout)
    assert shown["schema"] == "fusiondoc.knobs/1"
    assert shown["torch"] is None and "no torch" in shown["note"]
    knobs = {one["name"]: one for one in shown["knobs"]}
    assert {
        "single_node",
        "horizontal",
        "guard",
        "autodiff_inlining",
        "profiled_runs",
    } <= set(knobs)
    assert (
        knobs["guard"]["live_in"] == "1.11 to 2.1"
        and knobs["guard"]["effective"] is None
    )
    assert {one["name"]: one for one in shown["variables"]}["PYTORCH_TENSOREXPR"][
        "current"
    ] == "0"
    assert "print_args" in [
        one["name"] for one in shown["options"]["PYTORCH_NVFUSER_DUMP"]
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("single_node", "knob"),
        ("_jit_nvfuser_single_node_mode", "knob"),
        ("torch._C._jit_set_nvfuser_single_node_mode", "knob"),
        ("PYTORCH_NVFUSER_DUMP", "variable"),
        ("kernel_args", "option of PYTORCH_NVFUSER_DUMP"),
        (">partition", "file of the JIT log"),
    ],
)
def test_one_name_is_shown_in_full(
    fusiondoc: Run, without_torch, name: str, kind: str
):
    done = fusiondoc("knobs", "--python", without_torch, name)
    assert done.returncode == 0, done.stderr
    assert f"({kind})" in done.stdout.splitlines()[0]
    assert "  live in     torch 1.1" in done.stdout


def test_a_slip_in_a_name_is_wrong_usage_with_did_you_mean(fusiondoc: Run):
    done = fusiondoc("knobs", "singel_node")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'single_node'?" in done.stderr
    done = fusiondoc("knobs", "--python", "no/such/python")
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.torch
def test_what_this_torch_would_misread_in_the_environment_is_said(fusiondoc: Run):
    torch = pytest.importorskip("torch")
    done = fusiondoc(
        "knobs",
        env={
            "PYTORCH_NVFUSER_DUMP": "print_args",
            "PYTORCH_JIT_LOG_LEVEL": "inliner,peephole",
            "PYTORCH_TENSOREXPR_DONT_FUZE": "add",
        },
    )
    said = " ".join(done.stdout.split("IN THIS ENVIRONMENT")[1].split())
    assert "Write PYTORCH_JIT_LOG_LEVEL='inliner:peephole'" in said
    assert (
        "PYTORCH_TENSOREXPR_DONT_FUZE is set, but torch has no such variable"
        in said
    )
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 2):
        assert (
            "! PYTORCH_NVFUSER_DUMP is set and ignored: it is read by torch 1.11 to 2.1"
            in said
        )
    else:
        assert (
            "'print_args' is an option of PYTORCH_NVFUSER_DUMP in torch 1.11"
            in said
        )


def test_a_variable_shows_its_options_and_what_is_wrong_with_its_value(
    fusiondoc: Run, without_torch
):
    bad = {"PYTORCH_NVFUSER_DUMP": "cuda_kernel,no_such_option"}
    done = fusiondoc(
        "knobs", "--python", without_torch, "PYTORCH_NVFUSER_DUMP", env=bad
    )
    said = " ".join(done.stdout.split())
    assert "options fusion_ir, fusion_ir_math, kernel_ir, cuda_kernel," in said
    assert "problem PYTORCH_NVFUSER_DUMP='cuda_kernel,no_such_option':" in said
