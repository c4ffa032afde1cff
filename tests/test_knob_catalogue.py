"""The catalogue against what real runs of torch did, and against the probe, which
may not import it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs import catalogue, checks, parse_version
from fusiondoc.fusers.knob_rows import span
from fusiondoc.probe import knobs as probe_knobs
from fusiondoc.probe.knob_values import parse

ROOT = Path(__file__).resolve().parent.parent


def test_probe_and_catalogue_name_the_same_knobs_and_functions():
    assert [knob.name for knob in catalogue.knobs()] == list(probe_knobs.names())
    for knob in catalogue.knobs():
        there = probe_knobs.KNOBS[knob.name]
        assert knob.kind == there.kind, knob.name
        assert knob.setter in there.needs, knob.name
        assert knob.getter is None or knob.getter in there.needs, knob.name


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("switch", "on"),
        ("switch", "False"),
        ("switch", "onn"),
        ("count", "3"),
        ("count", "-3"),
        ("integer", "-1"),
        ("integer", "1.5"),
        ("ratio", "0.25"),
        ("ratio", "-1"),
        ("strategy", "STATIC:2,DYNAMIC:10"),
        ("strategy", "static:1"),
        ("strategy", "STATIC"),
        ("strategy", "DYNAMC:2"),
        ("operators", "aten::add, aten::mul"),
        ("operators", "add"),
        ("stream", "stdout"),
        ("stream", "file"),
    ],
)
def test_probe_and_check_agree_on_what_a_value_is(kind: str, text: str):
    knob = next(one for one in catalogue.knobs() if one.kind == kind)
    try:
        checks.check_knob(knob.name, text)
        accepted = True
    except UsageError:
        accepted = False
    if accepted:
        parse(kind, text)
    else:
        with pytest.raises(ValueError):
            parse(kind, text)


def test_every_dump_option_of_a_real_run_is_known_exactly_if_that_run_did_not_fall_back(
    recordings: Path,
):
    seen = set()
    for log in sorted((recordings / "torch-2.1.2" / "dumps").glob("*.log")):
        option = log.name.split(".")[1]
        fell_back = b"FALLBACK path has been taken" in log.read_bytes()
        seen.add((option, fell_back))
        if fell_back:
            with pytest.raises(UsageError):
                checks.check_dump_option(option, "2.1.2")
        else:
            checks.check_dump_option(option, "2.1.2")
    assert ("print_args", True) in seen and ("kernel_args", False) in seen


def test_every_file_that_wrote_to_a_real_log_is_known_at_its_level(
    recordings: Path,
):
    prefix = re.compile(
        rb"^\[(DUMP|UPDATE|DEBUG) (\w+)\.(?:cpp|h|cu):\d+\] ", re.MULTILINE
    )
    rank = {b"DUMP": 0, b"UPDATE": 1, b"DEBUG": 2}
    found: set[tuple[str, str]] = set()
    for log in recordings.glob("torch-*/**/*.log"):
        version = log.relative_to(recordings).parts[0].split("-")[1]
        known = {file.name: file for file in catalogue.log_files(version)}
        for level, name in set(prefix.findall(log.read_bytes())):
            assert known[name.decode()].least <= rank[level], (log, name)
            found.add((version, name.decode()))
    assert ("2.1.2", "partition") in found and ("2.11", "tensorexpr_fuser") in found


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("1.11.0", "print_args", "kernel_args"),
        ("1.12.1", "kernel_args", "ptx"),
        ("1.13.1", "inline_propagator", "sync_map"),
        ("2.0.1", "sync_map", "inline_propagator"),
        ("2.1.2+cu121", "bank_conflict", "sass"),
    ],
)
def test_dump_options_follow_the_version(version: str, has: str, lacks: str):
    assert has in catalogue.dump_options(version)
    assert lacks not in catalogue.dump_options(version)


def test_torch_without_nvfuser_has_no_dump_options():
    assert (
        catalogue.dump_options("2.2.0")
        == catalogue.dump_options("2.13.0+cpu")
        == ()
    )
    with pytest.raises(UsageError, match=r"torch 2\.13 knows no option") as error:
        checks.check_option_list(checks.DUMP, "cuda_kernel", "2.13.0")
    assert "1.11 to 2.1" in str(error.value.hint)


def test_an_option_of_another_version_says_where_it_exists():
    with pytest.raises(
        UsageError, match=r"torch 1\.11, not in torch 2\.0\. Use kernel_args"
    ) as error:
        checks.check_option_list(checks.DUMP, "cuda_kernel,print_args", "2.0.1")
    assert "fall back" in str(error.value.hint)


def test_a_slip_gets_did_you_mean_and_spaces_get_the_right_spelling():
    with pytest.raises(UsageError, match="Did you mean 'cuda_kernel'"):
        checks.check_option_list(checks.DUMP, "cuda_kernl", "2.0")
    with pytest.raises(UsageError) as error:
        checks.check_option_list(checks.DUMP, "cuda_kernel, launch_param", "2.0")
    assert error.value.hint == "Write PYTORCH_NVFUSER_DUMP=cuda_kernel,launch_param"


def test_a_knob_of_inductor_is_found_by_its_name_in_torch():
    with pytest.raises(UsageError, match=r"'triton\.prefer_nd_tiling'"):
        checks.check_knob("torch._inductor.config.triton.prefer_nd_tiling")
    assert checks.check_knob(
        "triton.prefer_nd_tiling", "on", "2.13.0"
    ).in_python == ("torch._inductor.config.triton.prefer_nd_tiling",)
    with pytest.raises(
        UsageError, match=r"is in torch 2\.6 to 2\.13, not in torch 2\.1"
    ):
        checks.check_knob("max_fusion_size", "2", "2.1.2")


def test_knob_by_its_torch_name_points_to_the_short_one():
    with pytest.raises(UsageError, match="'single_node'"):
        checks.check_knob("torch._C._jit_set_nvfuser_single_node_mode")


def test_a_newer_torch_is_taken_to_be_like_the_newest_known():
    assert parse_version("2.14.0.dev20260101") in span("1.12-2.13")
    assert parse_version("2.14.0") not in span("1.12-2.1")


def test_importing_the_catalogue_loads_neither_torch_nor_yaml():
    code = (
        "import sys, fusiondoc.fuser_knobs.checks\n"
        "print([name for name in ('torch', 'yaml', 'click') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
