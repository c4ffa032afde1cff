"""Dumps of torch.compile that ``fusiondoc kernels`` shows, against a plain search
of the recorded trace."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path

import pytest
from command_line import Run
from conftest import FIXTURES

from fusiondoc.fuser_knobs.checks import how_to_set, is_set

TRACE = FIXTURES / "inductor" / "2.11" / "composite"


@pytest.fixture(scope="module")
def modules() -> list[str]:
    """The payloads of the records with generated code, each without the tab before
    its lines."""
    (path,) = TRACE.glob("dedicated_log_torch_trace_*.xz")
    text = lzma.decompress(path.read_bytes()).decode()
    found = re.findall(
        r'^V\d.*\{"inductor_output_code": .*\n((?:\t.*\n?)*)', text, re.MULTILINE
    )
    return [re.sub(r"^\t", "", payload, flags=re.MULTILINE) for payload in found]


def test_code_is_named_by_its_language_and_the_module_stands_at_its_first_kernel(
    fusiondoc: Run, modules: list[str]
) -> None:
    done = fusiondoc(
        "kernels", TRACE, "--dump", "triton,output_code", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)["kernels"]
    defined = [
        re.findall(r"^(\w+) = async_compile\.triton\(", module, re.MULTILINE)
        for module in modules
    ]
    assert len(modules) > 1 and [kernel["name"] for kernel in kernels] == [
        name for names in defined for name in names
    ]
    for kernel in kernels:
        assert any(kernel["code"].strip() in module for module in modules)
    dumped = {
        kernel["name"]: dump["text"].strip()
        for kernel in kernels
        for dump in kernel["dumps"]
    }
    assert dumped == {
        names[0]: module.strip() for names, module in zip(defined, modules)
    }


def test_saved_files_end_as_their_language(
    fusiondoc: Run, tmp_path: Path, modules: list[str]
) -> None:
    done = fusiondoc("kernels", TRACE, "--save", tmp_path / "code")
    assert done.returncode == 0, done.stderr
    saved = {path.name for path in (tmp_path / "code").glob("*.py")}
    assert len([name for name in saved if name.endswith(".triton.py")]) == sum(
        module.count(" = async_compile.triton(") for module in modules
    )
    assert len([name for name in saved if name.endswith(".output_code.py")]) == len(
        modules
    )


def test_a_trace_from_a_pipe_has_the_same_dumps(
    fusiondoc: Run, modules: list[str]
) -> None:
    (path,) = TRACE.glob("dedicated_log_torch_trace_*.xz")
    text = lzma.decompress(path.read_bytes()).decode()
    done = fusiondoc(
        "kernels", "-", "--dump", "output_code", "--format", "json", input=text
    )
    assert done.returncode == 0, done.stderr
    dumps = [
        dump["text"].strip()
        for one in json.loads(done.stdout)["kernels"]
        for dump in one["dumps"]
    ]
    assert dumps == [module.strip() for module in modules]


def test_what_a_trace_does_not_hold_is_said_with_the_variable(
    fusiondoc: Run,
) -> None:
    done = fusiondoc("kernels", TRACE, "--dump", "ir_post_fusion")
    assert done.returncode == 2 and "TORCH_LOGS=ir_post_fusion" in done.stderr


def test_a_list_of_artifacts_has_a_dump_or_not() -> None:
    assert is_set("ir_post_fusion", {"TORCH_LOGS": "+fusion,ir_post_fusion"})
    assert is_set("triton", {"TORCH_LOGS": "+output_code"})
    assert not is_set("ir_post_fusion", {"TORCH_LOGS": "+fusion,output_code"})
    assert not is_set("ir_post_fusion", {})
    assert (
        how_to_set(["triton", "ir_post_fusion"])
        == "TORCH_LOGS=output_code,ir_post_fusion"
    )
