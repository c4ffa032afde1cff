"""What the parsers read off real logs, against plain string searches of the same
logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median

import pytest
import raw_log
from conftest import FIXTURES
from thorough import every, least

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.read import read_logs

LOGS = sorted((FIXTURES / "logs").glob("*.xz"))


@lru_cache(maxsize=64)
def parse(path: Path) -> tuple[Report, Observed]:
    return read_logs(find_logs([str(path)]))


def every_log(recordings: Path) -> Sequence[Path]:
    return every(
        8,
        sorted(
            [*recordings.glob("torch-*/*.log"), *recordings.glob("torch-*/*/*.log")]
        ),
    )


def check_groups(path: Path) -> int:
    expected = raw_log.plan_groups(raw_log.read(path))
    report, _ = parse(path)
    found: Counter = Counter()
    for group in report.groups:
        key = (tuple((n.op, n.source) for n in group.nodes), group.inputs)
        found[key] += len(group.instances)
    printed = Counter((ops, types) for ops, types, _ in expected)
    # A group that did not compile falls back to a function of its own, for the same
    # types: not another node. Nor is that of a gradient's second plan, made for
    # other gradients that are defined.
    again = b"hits fallback" in raw_log.read(path) or "other-gradients" in path.name
    assert found == printed or (again and found < printed), path
    order = list(dict.fromkeys((ops, types) for ops, types, _ in expected))
    assert list(found) == order, path
    return sum(found.values())


@pytest.mark.parametrize(
    "path",
    [p for p in LOGS if raw_log.plan_groups(raw_log.read(p))],
    ids=lambda p: p.name,
)
def test_groups_are_those_of_the_printed_plans(path: Path) -> None:
    assert check_groups(path)


def test_groups_of_every_recording(recordings: Path) -> None:
    counts = [
        check_groups(p)
        for p in every_log(recordings)
        if raw_log.plan_groups(raw_log.read(p))
    ]
    assert len(counts) >= least(60)
    assert sum(counts) > least(250)


def check_rejections(path: Path) -> int:
    log = raw_log.read(path)
    lines = log.split(b"\n")
    report, _ = parse(path)
    fused = {(n.op, n.source) for g in report.groups for n in g.nodes}
    stated = [row for row in report.unfused if row.reason.code.startswith("FD20")]
    for row in stated:
        for evidence in row.evidence:
            text = lines[evidence.line - 1].decode()
            assert "rejecting node" in text
            assert row.op.split("::")[1] in text
            assert row.source is None or text.endswith(f"# {row.source}")
        assert row.count >= 1
        assert len({e.line for e in row.evidence}) == len(row.evidence)
    rows = {(row.op, row.source) for row in report.unfused}
    for (op, source, _), _ in raw_log.rejections(log).items():
        of_sizes = (
            op == "aten::floor_divide" and "torch/_tensor.py" in source
        )  # x.shape[-1] // 2, traced
        if not op.endswith("_copy") and not of_sizes:
            assert (op, source) in rows or (op, source) in fused, (path, op, source)
    return len(stated)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.name)
def test_every_stated_rejection_is_a_row_with_its_lines(path: Path) -> None:
    check_rejections(path)


def test_rejections_of_every_recording(recordings: Path) -> None:
    assert sum(check_rejections(p) for p in every_log(recordings)) > least(100)


def check_kernels(path: Path) -> int:
    expected = raw_log.bandwidths(raw_log.read(path))
    report, observed = parse(path)
    if observed.disordered:
        return 0
    found = {k.name: k for k in report.kernels if k.gb_per_s is not None}
    assert found.keys() == expected.keys()
    for name, launches in expected.items():
        kernel = found[name]
        assert kernel.launches == len(launches)
        first, rest = raw_log.first_and_rest(raw_log.read(path), name)
        assert len(first) + len(rest) == len(launches)
        assert kernel.first_ms == median(ms for ms, _ in first)
        times, rates = zip(*(rest or first))
        assert kernel.ms is not None and kernel.gb_per_s is not None
        assert (kernel.ms.min, kernel.ms.median, kernel.ms.max) == (
            min(times),
            median(times),
            max(times),
        )
        assert (kernel.gb_per_s.min, kernel.gb_per_s.max) == (
            min(rates),
            max(rates),
        )
    return len(found)


def test_kernel_figures_of_every_recording(recordings: Path) -> None:
    paths = [
        p for p in every_log(recordings) if raw_log.bandwidths(raw_log.read(p))
    ]
    assert sum(check_kernels(p) for p in paths) > least(150)


@pytest.mark.parametrize(
    "path", [p for p in LOGS if "-ordered-" in p.name], ids=lambda p: p.name
)
def test_kernels_belong_to_the_group_that_ran_them(path: Path) -> None:
    """The pointer sequence of the raw log: kernels of one GraphCache are those of
    one set of equal groups."""
    report, _ = parse(path)
    expected = sorted(
        map(sorted, raw_log.kernels_by_pointer(raw_log.read(path)).values())
    )
    by_groups: dict = {}
    for kernel in report.kernels:
        assert kernel.groups, kernel.name
        by_groups.setdefault(kernel.groups, set()).add(kernel.name)
    assert sorted(map(sorted, by_groups.values())) == expected
    for kernel in report.kernels:
        for group in report.groups:
            assert (group.id in kernel.groups) == (kernel.id in group.kernels)


def check_kernels_of_graphs(path: Path) -> int:
    """Every kernel has just the groups whose graph its GraphCache was made for, by
    the raw log alone."""
    log = raw_log.read(path)
    graphs = raw_log.graphs_by_pointer(log)
    expected: dict = {}
    for pointer, names in raw_log.kernels_by_pointer(log).items():
        for name in names:
            expected.setdefault(name, set()).add(graphs[pointer])
    report, _ = parse(path)
    groups = {
        g.id: (tuple((n.op, n.source) for n in g.nodes), g.inputs)
        for g in report.groups
    }
    assert {k.name for k in report.kernels} == expected.keys()
    for kernel in report.kernels:
        assert kernel.groups, kernel.name
        assert len(expected[kernel.name]) == 1
        ((ops, inputs),) = expected[kernel.name]
        for group in kernel.groups:
            found, types = groups[group]
            # Equal graphs of other lines of the program share the GraphCache of the
            # first.
            assert [op for op, _ in found] == [op for op, _ in ops]
            assert types == inputs
        assert any(groups[group][0] == ops for group in kernel.groups)
    return len(expected)


@pytest.mark.parametrize(
    "path", [p for p in LOGS if "-ordered-" in p.name], ids=lambda p: p.name
)
def test_kernels_are_of_the_graph_of_their_pointer(path: Path) -> None:
    assert check_kernels_of_graphs(path)


def test_kernels_are_of_the_graph_of_their_pointer_in_every_ordered_recording(
    recordings: Path,
) -> None:
    paths = sorted(recordings.glob("torch-*/ordered/*.log"))
    assert sum(check_kernels_of_graphs(path) for path in paths) >= 19


def test_every_line_of_every_recording_is_accounted_for(recordings: Path) -> None:
    lines = recognised = 0
    for path in every_log(recordings):
        stats = parse(path)[0].parse
        assert (
            stats.recognised + stats.user_output + stats.unrecognised == stats.lines
        ), path
        assert stats.lines == raw_log.read(path).count(b"\n"), path
        assert not stats.unrecognised, path
        assert not stats.truncated, path
        lines += stats.lines
        recognised += stats.recognised
    assert recognised / lines > 0.999


def test_only_the_optimized_graphs_give_the_same_groups_as_the_pass(
    recordings: Path,
) -> None:
    """Two logs of the same program: one of the fusion pass, one of the executors
    alone."""
    compared = 0
    for seed in every(5, sorted(recordings.glob("torch-*/*.seed.log"))):
        optimized = seed.with_name(seed.name.replace(".seed.", ".optimized."))
        if not optimized.exists():
            continue
        one, other = parse(seed)[0], parse(optimized)[0]
        if "torch-1.12.1" in str(seed):  # died at another place
            continue

        def key(report: Report) -> list:
            return sorted(
                (str(g.nodes), g.inputs, str(g.phase)) for g in report.groups
            )

        assert [k[:2] for k in key(one)] == [k[:2] for k in key(other)], seed
        for (*_, phase), (*_, other_phase) in zip(key(one), key(other)):
            assert phase == other_phase or "None" in (phase, other_phase), seed
        compared += 1
    assert compared > least(40)
