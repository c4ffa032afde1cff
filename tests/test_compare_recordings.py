"""Each recorded case between torch 1.13.1, 2.0.1 and 2.1.2: what compare says, held
against plain searches of the raw logs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from statistics import median

import pytest
from raw_log import bandwidths, plan_groups, read
from thorough import every

from fusiondoc.comparison import Comparison
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.workflows.load import report_from

PAIRS = (("1.13.1", "2.0.1"), ("2.0.1", "2.1.2"), ("1.13.1", "2.1.2"))


def cases(recordings: Path, a: str, b: str) -> list:
    names = [
        {p.name for p in (recordings / f"torch-{v}").glob("*.seed.log")}
        for v in (a, b)
    ]
    found = sorted(name[: -len(".seed.log")] for name in names[0] & names[1])
    assert len(found) >= 17
    return found


def logs(recordings: Path, version: str, case: str) -> list:
    return [
        recordings / f"torch-{version}" / f"{case}.{part}.log"
        for part in ("seed", "dump")
    ]


def compared(recordings: Path, a: str, b: str, case: str) -> Comparison:
    sides = [
        report_from([str(p) for p in logs(recordings, version, case)])
        for version in (a, b)
    ]
    return compare(sides[0], sides[1])


def plain(types: tuple) -> tuple:
    return tuple(sorted(re.sub(r"requires_grad=[01](, )?", "", t) for t in types))


@pytest.mark.parametrize(("a", "b"), every(3, PAIRS))
def test_groups_of_every_case(recordings: Path, a: str, b: str) -> None:
    """Operators and input types of the fused bodies that the raw logs print decide
    what may be told."""
    different = []
    for case in cases(recordings, a, b):
        raw = [
            plan_groups(read(logs(recordings, version, case)[0]))
            for version in (a, b)
        ]
        ops = [
            Counter(tuple(sorted(op for op, _ in nodes)) for nodes, _, _ in side)
            for side in raw
        ]
        types = [
            Counter(
                (tuple(sorted(op for op, _ in n)), plain(t)) for n, t, _ in side
            )
            for side in raw
        ]
        comparison = compared(recordings, a, b, case)
        told = Counter(
            kind
            for c in comparison.groups
            for kind in c.kinds
            for _ in range(c.count)
        )
        gone, added = (
            sum((ops[0] - ops[1]).values()),
            sum((ops[1] - ops[0]).values()),
        )
        assert (told["gone"], told["added"]) == (gone, added), case
        assert not told["split"] and not told["merged"] and not told["operators"], (
            case
        )
        expected = 0 if gone or added else sum((types[0] - types[1]).values())
        assert told["types"] == expected, case
        if gone or added or expected:
            different.append(case)
        else:
            assert comparison.groups_same + told["slower"] + told["faster"] == sum(
                ops[0].values()
            ), case
    assert different == EXPECTED[a, b]


EXPECTED = {
    ("1.13.1", "2.0.1"): [],
    ("2.0.1", "2.1.2"): ["c06_memory_efficient_fusion", "c09_convnet"],
    ("1.13.1", "2.1.2"): ["c09_convnet"],
}


@pytest.mark.parametrize(("a", "b"), every(3, PAIRS))
def test_times_of_every_case(recordings: Path, a: str, b: str) -> None:
    """Medians and minima of the lines ``kernelN run in``, the first of each kernel
    left out."""
    told = 0
    for case in cases(recordings, a, b):
        raw = [
            bandwidths(read(logs(recordings, version, case)[1]))
            for version in (a, b)
        ]
        for change in compared(recordings, a, b, case).kernels:
            if (
                change.a is None
                or change.b is None
                or not {"slower", "faster"} & set(change.kinds)
            ):
                continue
            told += 1
            times = [
                [ms for ms, _ in side[ref.name]]
                for side, ref in zip(raw, (change.a, change.b))
            ]
            x, y = (one[1:] or one for one in times)
            low, high = (x, y) if "slower" in change.kinds else (y, x)
            assert median(high) >= 1.0999 * median(low) and min(high) > median(
                low
            ), (case, change)
    assert told > 10


def test_no_group_of_a_case_that_was_not_fused(recordings: Path) -> None:
    """Case 6: torch 2.1.2 fused nothing of it."""
    comparison = compared(
        recordings, "2.0.1", "2.1.2", "c06_memory_efficient_fusion"
    )
    raw = [
        read(logs(recordings, v, "c06_memory_efficient_fusion")[0])
        for v in ("2.0.1", "2.1.2")
    ]
    assert b"CudaFusionGroup" in raw[0] and b"CudaFusionGroup" not in raw[1]
    assert [change.kinds for change in comparison.groups] == [("gone",), ("gone",)]
    assert ("came", "FD901") in {
        (f.change, f.finding.code) for f in comparison.findings
    }
    assert comparison.coverage_changed


def test_the_layout_of_a_convolution(recordings: Path) -> None:
    """Case 9: channels last before, contiguous in torch 2.1.2 (which had no
    cuDNN)."""
    raw = [read(logs(recordings, v, "c09_convnet")[0]) for v in ("2.0.1", "2.1.2")]
    last, dense = (
        b"Float(4, 16, 32, 32, strides=[16384, 1, 512, 16]",
        b"Float(4, 16, 32, 32, strides=[16384, 1024, 32, 1]",
    )
    assert last in raw[0] and dense not in raw[0]
    assert last not in raw[1] and dense in raw[1]
    comparison = compared(recordings, "2.0.1", "2.1.2", "c09_convnet")
    assert [change.kinds for change in comparison.groups] == [("types",)] * 3
    for change in comparison.groups:
        assert any("16384, 1, 512, 16" in t for t in change.a[0].inputs)
        assert any("16384, 1024, 32, 1" in t for t in change.b[0].inputs)
    assert not comparison.unfused and not comparison.coverage_changed


def test_a_line_of_the_library_that_moved(recordings: Path) -> None:
    """Case 16: softmax is in line 1841 of functional.py in one version and in 1843
    in the next."""
    raw = [
        read(logs(recordings, v, "c16_encoder_layer")[0])
        for v in ("1.13.1", "2.0.1")
    ]
    lines = [
        set(re.findall(rb"aten::softmax\(.*functional\.py:(\d+):", log))
        for log in raw
    ]
    assert lines == [{b"1841"}, {b"1843"}]
    comparison = compared(recordings, "1.13.1", "2.0.1", "c16_encoder_layer")
    assert not comparison.groups and comparison.groups_same == 8


def test_sources_that_a_version_loses_are_no_change(recordings: Path) -> None:
    """Case 16: torch 2.0.1 prints aten::t without the source that 1.13.1 prints."""
    raw = [
        read(logs(recordings, v, "c16_encoder_layer")[0])
        for v in ("1.13.1", "2.0.1")
    ]
    bare = [
        len(re.findall(rb"\.cpp:2503\].*aten::t\(%[\w.]+\)$", log, flags=re.M))
        for log in raw
    ]
    assert bare[0] == 0 and bare[1] > 0
    comparison = compared(recordings, "1.13.1", "2.0.1", "c16_encoder_layer")
    assert not comparison.unfused and not comparison.findings


def test_the_same_code_under_other_names(recordings: Path) -> None:
    """Case 1: the code of its only kernel is the same in all three; what nvFuser
    counts is not."""
    raw = [
        read(logs(recordings, v, "c01_add_relu")[1]) for v in ("1.13.1", "2.0.1")
    ]
    codes = [
        re.findall(
            rb"(?s)Codegen output for kernel: kernel1 =+\n(.*?)\n={20,}\n", log
        )[0]
        for log in raw
    ]
    assert codes[0] == codes[1]
    counted = [
        {round(ms * gb / 1000, 1) for ms, gb in bandwidths(log)["kernel1"]}
        for log in raw
    ]
    assert [len(one) for one in counted] == [1, 1] and counted[0] != counted[1]
    comparison = compared(recordings, "1.13.1", "2.0.1", "c01_add_relu")
    assert [change.kinds for change in comparison.kernels] == [("bytes",)]


def test_a_kernel_that_got_another_schedule(recordings: Path) -> None:
    """Case 3: kernel2 has other code, grid and shared memory in torch 2.0.1."""
    raw = [
        read(logs(recordings, v, "c03_primitive_ln")[1])
        for v in ("1.13.1", "2.0.1")
    ]
    found = [
        re.search(
            rb"(?s)Codegen output for kernel: kernel2 .*?Launch Parameters: (.*?)\nkernel2 run",
            log,
        )
        for log in raw
    ]
    launch = [one[1] for one in found if one]
    assert (
        b"GridDim.x = 2, GridDim.y = 2048" in launch[0]
        and b"Smem Size = 0" in launch[0]
    )
    assert (
        b"GridDim.x = 2048, GridDim.y = -1" in launch[1]
        and b"Smem Size = 0" not in launch[1]
    )
    changes = compared(recordings, "1.13.1", "2.0.1", "c03_primitive_ln").kernels
    change = next(c for c in changes if c.a is not None and c.a.name == "kernel2")
    assert change.b is not None and change.b.name == "kernel2"
    assert {"code", "launch", "shared memory"} <= set(change.kinds)
    assert (change.a.grid, change.b.grid) == ((2, 2048, 1), (2048, 1, 1))


def test_an_inserted_program_shifts_no_kernel(
    recordings: Path, tmp_path: Path
) -> None:
    """Kernels are numbered by compile order, so another program before it renames
    them all: pairing them by number would compare each with the wrong one."""
    ordered = recordings / "torch-2.1.2" / "ordered"
    before = read(ordered / "c02_ln_block.log")
    first = read(ordered / "c16_encoder_layer.log")
    number = len(set(re.findall(rb"^(kernel\d+) run in", first, flags=re.M)))
    assert number == 11
    moved = re.sub(
        rb"\bkernel(\d+)\b", lambda m: b"kernel%d" % (int(m[1]) + number), before
    )
    (tmp_path / "a.log").write_bytes(before)
    (tmp_path / "b.log").write_bytes(first + moved)
    comparison = compare(
        report_from([str(tmp_path / "a.log")]),
        report_from([str(tmp_path / "b.log")]),
    )
    assert {change.kinds for change in comparison.groups} == {("added",)}
    assert len(comparison.groups) == 8 and comparison.groups_same == 2
    assert (
        not comparison.kernels
        and comparison.kernels_same == comparison.a.kernels == 4
    )
    assert not comparison.fallbacks
    assert {row.change for row in comparison.unfused} == {"came"}


def test_kernels_without_code_are_told_by_what_they_move(
    recordings: Path, tmp_path: Path
) -> None:
    """Bandwidth lines alone: another kernel in front shifts the numbers, and each
    is found all the same."""
    log = read(logs(recordings, "2.1.2", "c03_primitive_ln")[1])
    lines = re.findall(
        rb"(?m)^(?:Launch Parameters: .*|kernel\d+ run in .*)\n", log
    )
    alone = b"".join(lines)
    shifted = re.sub(
        rb"\bkernel(\d+)\b", lambda m: b"kernel%d" % (int(m[1]) + 1), alone
    )
    new = (
        b"Launch Parameters: BlockDim.x = 64, BlockDim.y = 1, BlockDim.z = 1, GridDim.x = 9, GridDim.y = 1, "
        b"GridDim.z = -1, Smem Size = 0\nkernel1 run in 0.5 ms, achieved: 100 GB/s\n"
    )
    (tmp_path / "a.log").write_bytes(alone)
    (tmp_path / "b.log").write_bytes(new + shifted)
    comparison = compare(
        report_from([str(tmp_path / "a.log")]),
        report_from([str(tmp_path / "b.log")]),
    )
    assert [(c.kinds, c.b and c.b.name) for c in comparison.kernels] == [
        (("added",), "kernel1")
    ]
    assert comparison.kernels_same == comparison.a.kernels == 9


def test_a_backward_group_that_another_fuser_cuts_in_two(recordings: Path) -> None:
    """Case 3 under nvFuser and under NNC, which takes no _grad_sum_to_size:
    autodiff formulas alone tell that two of NNC's groups are one of nvFuser's."""
    paths = (
        recordings / "torch-2.1.2" / "c03_primitive_ln.seed.log",
        recordings / "torch-2.11-nnc" / "c03_primitive_ln.nnc.log",
    )
    raw = [
        [[op for op, _ in nodes] for nodes, _, _ in plan_groups(read(path))]
        for path in paths
    ]
    comparison = compare(*(report_from([str(path)]) for path in paths))
    change = next(c for c in comparison.groups if "split" in c.kinds)
    whole = [n.op for n in change.a[0].nodes]
    parts = [[n.op for n in ref.nodes] for ref in change.b]
    assert (
        whole in raw[0]
        and all(part in raw[1] for part in parts)
        and len(parts) == 2
    )
    rest = Counter(whole) - Counter(op for part in parts for op in part)
    assert rest == {"aten::_grad_sum_to_size": 1}
    assert [n.op for n in change.ops_gone] == ["aten::_grad_sum_to_size"]
    assert [(u.op, u.source) for u in change.because] == [
        (n.op, n.source) for n in change.ops_gone
    ]
