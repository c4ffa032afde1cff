"""Comparing a log with itself, with all that means nothing changed: nothing must be
told. Then one real change: that one must be told, and nothing else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from conftest import FIXTURES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_transforms import MEANINGLESS, slow_down
from raw_log import read
from thorough import THOROUGH

from fusiondoc.comparison import Comparison
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_from

LOGS = (
    "nvfuser-2.1.2-ordered-layer-norm",
    "nvfuser-2.1.2-ordered-dynamic-shapes",
    "nvfuser-2.1.2-control-flow",
    "nvfuser-2.1.2-rejects-full",
    "nvfuser-2.1.2-fallback-compile",
    "nvfuser-2.1.2-fallback-run",
    "nvfuser-2.1.2-two-ranks",
    "nvfuser-1.13.1-primitive-layer-norm",
    "nvfuser-2.0.1-convnet-dumps",
    "nnc-2.11-rejects",
    "nnc-2.11-add-relu",
)


def raw(name: str) -> bytes:
    return read(FIXTURES / "logs" / f"{name}.log.xz")


def report(log: bytes, folder: Path, name: str = "x.log") -> Report:
    path = folder / name
    path.write_bytes(log)
    return report_from([str(path)])


def told(comparison: Comparison) -> dict:
    """Everything that a comparison tells."""
    return {
        "groups": [
            (c.kinds, [r.id for r in c.a], [r.id for r in c.b])
            for c in comparison.groups
        ],
        "unfused": [
            (c.change, c.op, c.source, c.count) for c in comparison.unfused
        ],
        "fallbacks": list(comparison.fallbacks),
        "kernels": [
            (c.kinds, c.lines_gone, c.lines_added) for c in comparison.kernels
        ],
        "findings": [
            (c.change, c.finding.code, c.finding.message)
            for c in comparison.findings
        ],
        "speed": list(comparison.speed),
        "settings": list(comparison.differences),
        "coverage": comparison.coverage_changed,
    }


NOTHING: dict = {
    "groups": [],
    "unfused": [],
    "fallbacks": [],
    "kernels": [],
    "findings": [],
    "speed": [],
    "settings": [],
    "coverage": False,
}


@pytest.mark.parametrize("name", LOGS)
@settings(
    max_examples=8 if THOROUGH else 3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**32),
    chosen=st.sets(st.sampled_from(MEANINGLESS), min_size=1),
)
def test_what_means_nothing_is_no_change(
    tmp_path: Path, name: str, seed: int, chosen: set
) -> None:
    log = raw(name)
    rng = random.Random(seed)
    changed = log
    for transform in sorted(chosen, key=lambda one: one.__name__):
        changed = transform(changed, rng)
    before, after = report(log, tmp_path), report(changed, tmp_path)
    assert told(compare(before, after)) == NOTHING
    assert told(compare(after, before)) == NOTHING


@pytest.mark.parametrize("transform", MEANINGLESS, ids=lambda one: one.__name__)
def test_every_transform_changes_the_log(transform: object) -> None:
    assert callable(transform)
    assert any(transform(raw(name), random.Random(1)) != raw(name) for name in LOGS)


@settings(
    max_examples=10 if THOROUGH else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    order=st.permutations(
        [
            n
            for n in LOGS
            if "ordered" not in n and "dumps" not in n and "ranks" not in n
        ]
    )
)
def test_the_order_of_the_groups_is_no_change(tmp_path: Path, order: list) -> None:
    paths = {}
    for name in order:
        paths[name] = tmp_path / f"{name}.log"
        paths[name].write_bytes(raw(name))
    before = report_from([str(paths[name]) for name in sorted(order)])
    after = report_from([str(paths[name]) for name in order])
    assert sorted(g.ops for g in before.groups) == sorted(
        g.ops for g in after.groups
    )
    changes = told(compare(before, after))
    # "Small groups in a row" is a finding on the order itself.
    changes["findings"] = [row for row in changes["findings"] if row[1] != "FD406"]
    assert changes == NOTHING


def only(changes: dict, **expected: object) -> None:
    """These parts changed so, and no other part did."""
    assert changes == {**NOTHING, **expected}


def shuffled(log: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    for transform in MEANINGLESS:
        log = transform(log, rng)
    return log


@pytest.mark.parametrize("seed", range(3))
def test_a_kernel_twice_as_slow(tmp_path: Path, seed: int) -> None:
    log = raw("nvfuser-2.1.2-ordered-layer-norm")
    # kernel3 is one of three of the backward group; kernels of the changed log have
    # other numbers.
    slow = shuffled(slow_down(log, b"kernel3", 2.0), seed)
    comparison = compare(report(log, tmp_path), report(slow, tmp_path, "y.log"))
    changes = told(comparison)
    assert [c.kinds for c in comparison.kernels] == [("slower",)]
    assert (
        comparison.kernels[0].a is not None
        and comparison.kernels[0].a.name == "kernel3"
    )
    assert comparison.kernels[0].speed is not None
    assert comparison.kernels[0].speed.ratio == pytest.approx(2, rel=1e-4)
    # Its group is slower with it, though not by as much: its other two kernels are
    # not.
    assert [c.kinds for c in comparison.groups] == [("slower",)]
    ids = [
        row["group"] for row in [{"group": c.b[0].id} for c in comparison.groups]
    ]
    assert (
        comparison.kernels[0].b is not None
        and list(comparison.kernels[0].b.groups) == ids
    )
    only(changes, groups=changes["groups"], kernels=[(("slower",), 0, 0)])
    back = compare(report(slow, tmp_path), report(log, tmp_path, "y.log"))
    assert [c.kinds for c in back.kernels] == [("faster",)]


@pytest.mark.parametrize("factor", [1.0, 1.05, 1.09])
def test_a_kernel_a_little_slower_is_none(tmp_path: Path, factor: float) -> None:
    log = raw("nvfuser-2.1.2-ordered-layer-norm")
    slow = slow_down(log, b"kernel3", factor)
    only(told(compare(report(log, tmp_path), report(slow, tmp_path, "y.log"))))


def test_a_change_within_the_spread_is_no_speed(tmp_path: Path) -> None:
    """One slow launch of five, however slow, moves neither minimum nor median."""
    log = raw("nvfuser-2.1.2-ordered-layer-norm")
    lines = list(
        re.finditer(rb"(?m)^kernel3 run in (\S+) ms, achieved: (\S+) GB/s$", log)
    )
    last = lines[-1]
    ms, rate = float(last[1]), float(last[2])
    slow = b"kernel3 run in %.6g ms, achieved: %.6g GB/s" % (50 * ms, rate / 50)
    changed = log[: last.start()] + slow + log[last.end() :]
    changes = told(
        compare(report(log, tmp_path), report(changed, tmp_path, "y.log"))
    )
    assert changes["kernels"] == changes["groups"] == []


def dropped(log: bytes, op: bytes, line: bytes) -> bytes:
    """The log with one operator (of one output) left out of every fused body: its
    input takes its place."""
    out: list[bytes] = []
    renamed: dict[bytes, bytes] = {}
    fused = False
    for text in log.split(b"\n"):
        if b"with prim::" in text or re.search(rb"\] (graph\(|Before|After)", text):
            fused = b"with prim::CudaFusionGroup" in text
            renamed = {}
        node = re.search(
            rb"(%[\w.]+) : .* = " + op + rb"\((%[\w.]+).*# \S+:" + line + rb":\d+$",
            text,
        )
        if fused and node:
            renamed[node[1]] = node[2]
            continue
        if renamed:
            text = re.sub(rb"%[\w.]+", lambda m: renamed.get(m[0], m[0]), text)  # noqa: B023
        out.append(text)
    return b"\n".join(out)


@pytest.mark.parametrize("seed", range(3))
def test_an_operator_that_left_a_group(tmp_path: Path, seed: int) -> None:
    log = raw("nvfuser-1.13.1-primitive-layer-norm")
    changed = shuffled(dropped(log, b"aten::sqrt", b"11"), seed)
    before, after = report(log, tmp_path), report(changed, tmp_path, "y.log")
    comparison = compare(before, after)
    assert len(comparison.groups) == 1
    change = comparison.groups[0]
    assert change.kinds == ("operators",)
    assert [node.op for node in change.ops_gone] == [
        "aten::sqrt"
    ] and not change.ops_added
    assert change.a[0].nodes[1].op == "aten::sqrt"
    changes = told(comparison)
    only(changes, groups=changes["groups"], coverage=True)
    back = compare(after, before)
    assert [node.op for node in back.groups[0].ops_added] == [
        "aten::sqrt"
    ] and not back.groups[0].ops_gone


@pytest.mark.parametrize("seed", range(3))
def test_another_type(tmp_path: Path, seed: int) -> None:
    log = raw("nvfuser-2.1.2-control-flow")
    changed = re.sub(rb"(?<=: )Float(?=\(256, 1024,)", b"Half", log)
    assert changed != log
    comparison = compare(
        report(log, tmp_path), report(shuffled(changed, seed), tmp_path, "y.log")
    )
    assert {c.kinds for c in comparison.groups} == {("types",)}
    assert (
        sum(change.count for change in comparison.groups)
        == comparison.a.groups
        == 19
    )
    changes = told(comparison)
    only(changes, groups=changes["groups"])


def by_hand(name: str) -> bytes:
    return (FIXTURES / "compare" / f"{name}.log").read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_a_rejected_operator_splits_a_group(tmp_path: Path, seed: int) -> None:
    before = report(by_hand("one-group"), tmp_path)
    after = report(shuffled(by_hand("split"), seed), tmp_path, "y.log")
    assert [g.ops for g in before.groups] == [
        ("aten::add", "aten::mul", "aten::relu", "aten::tanh")
    ]
    comparison = compare(before, after)
    assert len(comparison.groups) == 1
    change = comparison.groups[0]
    assert change.kinds == ("split",)
    assert sorted(tuple(n.op for n in ref.nodes) for ref in change.b) == [
        ("aten::add", "aten::mul"),
        ("aten::relu", "aten::tanh"),
    ]
    assert not change.ops_gone and not change.ops_added
    assert len(change.because) == 1
    assert list(change.because) == list(comparison.unfused)
    assert (
        change.because[0].reason_b is not None
        and change.because[0].reason_b.code == "FD201"
    )
    assert [(u.change, u.op, u.count) for u in comparison.unfused] == [
        ("came", "aten::cumsum", 1)
    ]
    assert {(f.change, f.finding.code) for f in comparison.findings} == {
        ("came", "FD201")
    }
    assert (
        not comparison.kernels
        and not comparison.fallbacks
        and not comparison.differences
    )
    back = compare(after, before)
    assert [c.kinds for c in back.groups] == [("merged",)]
    assert [(u.change, u.op) for u in back.unfused] == [("gone", "aten::cumsum")]
