"""``fusiondoc check`` of runs under torch.compile, on recordings of real runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from conftest import FIXTURES, Run
from inductor_recordings import RECORDINGS, Recording

import fusiondoc
from fusiondoc.expectations.match import check
from fusiondoc.expectations.outcome import ExpectationOutcome
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.update import updated
from fusiondoc.model.report import Report

INDUCTOR = FIXTURES / "inductor"
LAUNCHED = [
    one
    for one in RECORDINGS
    if "error" not in (one.facts.get("launches") or {"error": 0})
]


@cache
def report_of(program: str, release: str = "2.11") -> Report:
    return fusiondoc.parse(INDUCTOR / release / program)


def outcomes(
    text: str, program: str, release: str = "2.11"
) -> list[ExpectationOutcome]:
    return check(loads(text, "f.yaml").sections[0], report_of(program, release))


def held(text: str, program: str, release: str = "2.11") -> list[bool]:
    return [outcome.holds for outcome in outcomes(text, program, release)]


@pytest.mark.parametrize(
    "recording", LAUNCHED, ids=lambda recording: recording.name
)
def test_kernels_of_graphs_are_those_that_the_device_ran(
    recording: Recording,
) -> None:
    """The profiler of the recorded run counted the launches of a step, second
    stages of reductions with them; a step runs the graphs of the first sizes
    alone."""
    report = fusiondoc.parse(recording.folder)
    assert report.compiled is not None
    launches = recording.facts["launches"]
    launched = sum(
        times for name, (times, _) in launches.items() if name.startswith("triton_")
    )
    stages = sum(
        group.count
        for group in report.groups
        if group.id in report.compiled.second_stages
    )
    graphs = [
        graph for graph in report.compiled.graphs if graph.specialisation == 1
    ]
    if (
        recording.name == "2.11-cond_break"
    ):  # the step took one of the two ways behind the condition
        graphs = [graph for graph in graphs if graph.compile_id in ("0/0", "1/0")]
    assert sum(graph.kernels for graph in graphs) + stages == launched


def test_lines_that_are_one_kernel() -> None:
    text = "one_kernel: [{source: 'gcases.py:9-13'}, {source: gcases.py, ops: [add, add, rsqrt]}]"
    assert held(text, "composite") == [True, True]


def test_lines_that_are_several_kernels_are_broken_with_the_boundary_of_most_bytes() -> (
    None
):
    text = "one_kernel: [{source: 'gcases.py:9-13', phase: backward}]"
    (broken,) = outcomes(text, "composite")
    largest = report_of("composite").boundaries[0]
    assert (
        not broken.holds and largest.bytes is not None and largest.cause is not None
    )
    assert "sum outside groups" in broken.found
    assert (broken.why or "").startswith(
        f"{largest.bytes:,} bytes go through memory between"
    )
    assert largest.cause.code in (broken.why or "")


def test_operators_are_counted() -> None:
    """The forward kernel of the program has three additions."""
    names = ", ".join(["add"] * 3)
    assert held(
        f"one_kernel: [{{source: gcases.py, ops: [{names}]}}]", "composite"
    ) == [True]
    assert held(
        f"one_kernel: [{{source: gcases.py, ops: [{names}, add]}}]", "composite"
    ) == [False]


def test_lines_without_operators_are_broken() -> None:
    (broken,) = outcomes("one_kernel: [{source: 'other.py:3'}]", "composite")
    assert (broken.holds, broken.found) == (False, "no operator at these lines")


def test_a_call_of_a_library_is_no_part_of_a_kernel() -> None:
    (broken,) = outcomes("one_kernel: [{source: gcases.py}]", "mlp")
    assert (
        not broken.holds
        and "addmm outside groups" in broken.found
        and "FD2" in (broken.why or "")
    )


def test_an_operator_that_is_computed_again_breaks_nothing() -> None:
    """Two sets of loops multiply at this line; one of them computes the other
    operators there as well."""
    report = report_of("inplace", "2.13")
    assert report.compiled is not None
    again = {(row.op, row.user_source) for row in report.compiled.computed_again}
    assert ("aten::mul", "models/cases.py:58") in again
    assert held("one_kernel: [{source: 'cases.py:58'}]", "inplace", "2.13") == [
        True
    ]


def test_limits_of_graphs() -> None:
    text = "compiled_graphs: [{{max_kernels: {0}, phase: backward}}, {{bytes_at_most: {1}, phase: backward}}]"
    assert held(text.format(3, 219795456), "composite") == [True, True]
    assert held(text.format(2, 219795455), "composite") == [False, False]
    assert held(
        "compiled_graphs: [{max_kernels: 9, source: 'other.py:1'}]", "composite"
    ) == [False]


def test_bytes_are_those_of_the_compiler() -> None:
    facts = next(one.facts for one in RECORDINGS if one.name == "2.11-composite")
    moved = sum(
        node["read"] + node["write"]
        for graph in facts["graphs"]
        for node in graph.get("after", ())
        if node["read"] is not None
    )
    (outcome,) = outcomes("bytes_at_most: 1", "composite")
    assert not outcome.holds and outcome.value == moved


def test_graph_breaks_in_own_code_and_recompiles() -> None:
    (broken,) = outcomes("max_graph_breaks: 0", "cond_break")
    assert not broken.holds and "Data-dependent branching" in (broken.why or "")
    assert held("max_graph_breaks: 1", "cond_break") == [True]
    (again,) = outcomes("max_recompiles: 0", "dynamic_small")
    assert not again.holds and "size mismatch" in (again.why or "")


def test_operators_in_eager_code() -> None:
    (broken,) = outcomes("may_fall_back: [_fft_r2c, abs]", "fallback", "2.13")
    assert (broken.holds, broken.found) == (False, "linalg_qr")
    assert "FD252" in (broken.why or "")
    assert held(
        "may_fall_back: [_fft_r2c, abs, linalg_qr]", "fallback", "2.13"
    ) == [True]
    assert held("may_fall_back: []", "mlp") == [True]  # calls of libraries are none


EVERY_KEY = """
one_kernel: [{source: model.py}]
compiled_graphs: [{max_kernels: 9}]
max_graph_breaks: 9
max_recompiles: 9
may_fall_back: []
bytes_at_most: 999999999999
"""


def test_a_run_of_another_fuser_holds_none_of_them() -> None:
    report = fusiondoc.parse(FIXTURES / "compare" / "before.log.xz")
    section = loads(EVERY_KEY, "f.yaml").sections[0]
    assert [outcome.holds for outcome in check(section, report)] == [False] * 6


@pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)
def test_what_update_writes_holds(recording: Recording) -> None:
    report = fusiondoc.parse(recording.folder)
    text = updated("", "f.yaml", report)
    sections = loads(text, "f.yaml").sections
    assert all(
        outcome.holds for section in sections for outcome in check(section, report)
    )
    assert not any(kernel.name in text for kernel in report.kernels)
    assert updated(text, "f.yaml", report) == text


def test_update_brings_limits_up_to_date() -> None:
    before = (
        "compiled_graphs:\n- max_kernels: 0\n  bytes_at_most: 5\nmax_graph_breaks: 0\nmay_fall_back: []\n"
        "one_kernel:\n- source: other.py\nbytes_at_most: 1\n"
    )
    after = updated(before, "f.yaml", report_of("cond_break"))
    assert (
        "max_kernels: 1\n  bytes_at_most: 36864\n" in after
        and "max_graph_breaks: 1" in after
    )
    assert "one_kernel" not in after and "bytes_at_most: 229377" in after


def test_a_warm_cache_is_named_and_what_the_code_shows_is_checked() -> None:
    """The second run of the composite program, whose code came from the FX graph
    cache: its trace has kernels and no decisions, the log of the scheduler is
    empty."""
    text = "one_kernel: [{source: 'gcases.py:9-13'}, {source: gcases.py, phase: backward}]\nbytes_at_most: 9\n"
    whole, apart, moved = outcomes(text, "warm_cache")
    assert whole.holds and not apart.holds and not moved.holds
    assert "a cache of Inductor gave the code" in (apart.why or "")
    assert "a cache of Inductor gave the code" in moved.found
    assert held(
        "compiled_graphs: [{max_kernels: 3, phase: backward}]", "warm_cache"
    ) == [True]
    assert [one.code for one in report_of("warm_cache").findings] == ["FD921"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "one_kernel:\n- phase: forward\n",
            "2:3: an item of one_kernel needs source",
        ),
        (
            "compiled_graphs:\n- phase: forward\n",
            "2:3: a compiled graph needs max_kernels or bytes_at_most",
        ),
        (
            "compiled_graphs:\n- max_kernel: 1\n",
            "2:3: unknown key 'max_kernel'",
        ),
        ("may_fall_back: sort\n", "1:16: may_fall_back must be a list"),
        ("max_graph_breaks: -1\n", "1:19: max_graph_breaks must be a whole number"),
    ],
)
def test_mistakes_have_a_position(text: str, problem: str) -> None:
    with pytest.raises(fusiondoc.errors.UsageError) as error:
        loads(text, "f.yaml")
    assert problem in error.value.message


NO_RUN = """
import torch

@torch.compile
def model(x):
    y = torch.relu(x + 1)
    return torch.cumsum(y * 2, 0) + y

inputs = (torch.rand(16, 64),)
"""


@pytest.mark.torch
def test_a_run_without_kernels_breaks_what_is_written(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(
        NO_RUN.replace("    return", "    print('here')\n    return")
    )
    (tmp_path / "f.yaml").write_text(
        "max_graph_breaks: 0\ncompiled_graphs: [{max_kernels: 9}]\n"
    )
    broken = fusiondoc(
        "check",
        "model.py",
        "--no-run",
        "--expect",
        "f.yaml",
        cwd=tmp_path,
        env={"COLUMNS": "1000"},
    )
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert (
        "expected at most 0 graph breaks in your own files; found 1"
        in broken.stdout
    )
    assert broken.stdout.count("BROKEN") == 1


@pytest.mark.torch
@pytest.mark.nightly
def test_a_run_is_checked_without_compiling_kernels(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(NO_RUN)
    run = ["check", "model.py", "--no-run", "--expect", "f.yaml"]
    assert fusiondoc(*run, "--update", cwd=tmp_path).returncode == 0
    written = (tmp_path / "f.yaml").read_text()
    assert "max_graph_breaks: 0" in written and "max_kernels: " in written
    assert fusiondoc(*run, cwd=tmp_path).returncode == 0
    (tmp_path / "model.py").write_text(
        NO_RUN.replace("    return", "    print('here')\n    return")
    )
    broken = fusiondoc(*run, cwd=tmp_path, env={"COLUMNS": "1000"})
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert (
        "expected at most 0 graph breaks in your own files; found 1"
        in broken.stdout
    )
