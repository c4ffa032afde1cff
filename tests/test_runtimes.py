"""Which kernels each run of a group launched, against plain searches of the log;
and which inputs a guard refused, against the types that the log prints."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import FIXTURES
from raw_log import read

from fusiondoc.api import parse
from fusiondoc.model.report import Report

LOGS = (
    "logs/nvfuser-2.1.2-ordered-encoder-layer",
    "logs/nvfuser-2.1.2-ordered-dynamic-shapes",
    "foreign/convnext.script.train.nvfuser",
    "foreign/functions.trace.train.nvfuser",
    "foreign/lstm_cells.trace.eval.nvfuser",
    "foreign/shapes.script.train.nvfuser",
)
_LINE = re.compile(
    rb"running GraphCache: (0x[0-9a-f]+)|^(kernel\d+) run in ", re.MULTILINE
)
Launched = Counter[tuple[str, ...]]


def launched_together(log: bytes) -> dict[str, Launched]:
    """Pointer of a GraphCache -> the names of the kernels that each of its runs
    launched, in order."""
    found: dict[str, Launched] = {}
    pointer, names = "", ()
    for begins, name in _LINE.findall(log):
        if begins:
            if names:
                found.setdefault(pointer, Counter())[names] += 1
            pointer, names = begins.decode(), ()
        else:
            names += (name.decode(),)
    if names:
        found.setdefault(pointer, Counter())[names] += 1
    return found


def launched_in(report: Report) -> Launched:
    """The same of a report, all groups together; those whose runs are not known are
    left out."""
    names = {kernel.id: kernel.name for kernel in report.kernels}
    counts: Launched = Counter()
    for group in report.groups:
        for runtime in group.runtimes:
            counts[tuple(names[kernel] for kernel in runtime.kernels)] += (
                runtime.runs or 0
            )
    return counts


@pytest.mark.parametrize("name", LOGS)
def test_runtimes_are_the_launches_between_two_runs(name: str) -> None:
    path = FIXTURES / f"{name}.log.xz"
    report = parse(path)
    wanted: Launched = sum(launched_together(read(path)).values(), Counter())
    unknown = {
        tuple(
            kernel.name for kernel in report.kernels if kernel.id in runtime.kernels
        )
        for group in report.groups
        for runtime in group.runtimes
        if runtime.runs is None
    }
    assert launched_in(report) == Counter(
        {one: n for one, n in wanted.items() if one not in unknown}
    )
    for group in report.groups:
        for runtime in group.runtimes:
            assert set(runtime.kernels) <= set(group.kernels)
            assert set(runtime.instances) <= set(range(group.count))


def test_launches_of_a_shared_kernel_are_those_of_each_group(fusiondoc) -> None:
    path = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"
    report = parse(path)
    (shared,) = [kernel for kernel in report.kernels if len(kernel.groups) > 1]
    times = len(
        re.findall(rb"^%s run in " % shared.name.encode(), read(path), re.MULTILINE)
    )
    assert {one.group for one in shared.launches_of_groups} == set(shared.groups)
    assert (
        sum(one.launches for one in shared.launches_of_groups)
        == times
        == shared.launches
    )
    words = ", ".join(
        f"{one.launches} of {one.group}" for one in shared.launches_of_groups
    )
    for form in ("text", "html", "markdown"):
        shown = fusiondoc("parse", str(path), "-v", "--format", form).stdout
        assert f"{times} launches, {words}" in " ".join(shown.split())
    assert all(
        kernel.launches_of_groups == ()
        for kernel in report.kernels
        if kernel is not shared
    )


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which the last run of the backward launches other kernels, as for
    inputs of another size."""
    log = read(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-dynamic-shapes.log.xz")
    at = log.rindex(b"running GraphCache: ")
    path = tmp_path_factory.mktemp("again") / "run.log"
    path.write_bytes(
        log[:at] + re.sub(rb"\bkernel([234])\b", rb"kernel1\1", log[at:])
    )
    return path


def test_kernels_for_other_inputs_are_no_segments(again: Path, fusiondoc) -> None:
    report = parse(again)
    names = {kernel.id: kernel.name for kernel in report.kernels}
    first, second = next(
        group for group in report.groups if len(group.kernels) > 1
    ).runtimes
    assert [names[kernel] for kernel in first.kernels] == [
        "kernel2",
        "kernel3",
        "kernel4",
    ]
    assert [names[kernel] for kernel in second.kernels] == [
        "kernel12",
        "kernel13",
        "kernel14",
    ]
    assert (first.runs, second.runs) == (5, 1)
    words = "compiled 2 times, for different inputs: K2 + K3 + K4 in 5 runs, K5 + K6 + K7 in 1 run"
    for form in ("text", "html", "markdown"):
        shown = " ".join(
            fusiondoc("parse", str(again), "-v", "--format", form).stdout.split()
        )
        assert words in shown and "each launches K2, K3, K4, its segments" in shown
    assert all(
        f"{part}/3" in fusiondoc("parse", str(again)).stdout for part in (1, 2, 3)
    )


def test_a_run_that_is_cut_off_is_no_runtime(again: Path, tmp_path: Path) -> None:
    log = read(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-dynamic-shapes.log.xz")
    cut = tmp_path / "cut.log"
    cut.write_bytes(log[: log.rindex(b"kernel4 run in ")])
    (group,) = [group for group in parse(cut).groups if len(group.kernels) > 1]
    assert [(len(runtime.kernels), runtime.runs) for runtime in group.runtimes] == [
        (3, 5)
    ]


def test_a_guard_names_the_input_that_it_refused(fusiondoc) -> None:
    path = FIXTURES / "foreign" / "shapes.script.train.nvfuser.log.xz"
    guards = re.findall(
        rb"prim::CudaFusionGuard\[types=\[(Float\([\d, ]+)", read(path)
    )
    sizes = list(
        dict.fromkeys(f"({guard.decode()[6:].rstrip(', ')})" for guard in guards)
    )
    report = parse(path)
    specialised = [group for group in report.groups if group.respecialises]
    assert specialised and all(group.guard_misses for group in specialised)
    assert all(
        not group.guard_misses for group in report.groups if not group.respecialises
    )
    for group in specialised:
        for miss in group.guard_misses:
            assert (miss.group, miss.what) == (group.respecialises, "shape")
            assert [miss.expected, miss.seen] == sizes
    shown = " ".join(fusiondoc("parse", str(path), "-v").stdout.split())
    assert (
        f"that of G1 failed: input 0 with shape {sizes[1]} instead of {sizes[0]}"
        in shown
    )
    saved = json.loads(fusiondoc("parse", str(path), "--format", "json").stdout)[
        "groups"
    ][2]
    assert saved["guard_misses"] == [
        {
            "group": "G1",
            "input": 0,
            "what": "shape",
            "expected": sizes[0],
            "seen": sizes[1],
        }
    ]
