"""Bytes, share of the peak and bound of kernels, against arithmetic on the raw log;
occupancy against NVIDIA's own."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import median

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.diagnosis.speed_of_light import FLOOR_MS, LIMITS, occupancy
from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_from

LAYER_NORM = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
ENCODER = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"
CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
H200 = 4814.3

SIZES = {"Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Bool": 1, "Long": 8}


def with_peak(path: Path, peak: float | None = H200) -> Report:
    return report_from([str(path)], peak)


def bytes_of(types: str) -> int:
    """Bytes of dense tensors such as ``Float(16, 128, strides=[128, 1], ...)`` in a
    piece of log."""
    total = 0
    for dtype, sizes in re.findall(r"(\w+)\(((?:\d+, )+)strides=", types):
        count = 1
        for size in sizes.split(", ")[:-1]:
            count *= int(size)
        total += count * SIZES[dtype]
    return total


def test_share_of_peak_is_the_median_rate_over_the_peak() -> None:
    rates = raw_log.bandwidths(raw_log.read(LAYER_NORM))
    report = with_peak(LAYER_NORM)
    assert len(report.kernels) == len(rates) == 4
    for kernel in report.kernels:
        assert kernel.gb_per_s is not None and kernel.peak_fraction is not None
        assert kernel.gb_per_s.median in [
            rate for _, rate in rates[kernel.name]
        ] + [median(rate for _, rate in rates[kernel.name])]
        assert kernel.peak_fraction == pytest.approx(kernel.gb_per_s.median / H200)


def test_bytes_of_the_only_kernel_are_those_of_the_types() -> None:
    """The forward group: its header in the raw log has its input types, its body
    the outputs'."""
    log = raw_log.read(LAYER_NORM).decode()
    section = log[log.index("with prim::CudaFusionGroup_0 = graph(") :]
    head = section[: section.index("):")]
    body = section[: section.index("return (")]
    returned = section[section.index("return (") + 8 :].split(")")[0].split(", ")
    outputs = "".join(
        re.findall(rf"{re.escape(name)} : (\w+\((?:\d+, )+strides=)", body)[-1]
        for name in returned
    )
    report = with_peak(LAYER_NORM)
    assert report.kernels[0].bytes_moved == bytes_of(head) + bytes_of(outputs)
    # It is also what nvFuser counted: its rate times its time.
    ms, rate = raw_log.bandwidths(raw_log.read(LAYER_NORM))["kernel1"][0]
    assert report.kernels[0].bytes_moved == pytest.approx(ms * rate * 1e6, rel=1e-3)


def test_bytes_of_one_of_several_kernels_are_what_nvfuser_counted() -> None:
    rates = raw_log.bandwidths(raw_log.read(LAYER_NORM))
    report = with_peak(LAYER_NORM)
    segments = [kernel for kernel in report.kernels if "G2" in kernel.groups]
    assert len(segments) == 3
    for kernel in segments:
        for ms, rate in rates[kernel.name]:
            assert kernel.bytes_moved == pytest.approx(ms * rate * 1e6, rel=0.01)


def test_every_kernel_of_the_recordings(recordings: Path) -> None:
    """Share, bytes and bound of some 200 kernels, from the raw lines alone."""
    seen = {"launch": 0, "bandwidth": 0, "cache": 0, None: 0}
    for path in sorted(
        [*recordings.glob("torch-*/*.log"), *recordings.glob("torch-*/*/*.log")]
    ):
        rates = raw_log.bandwidths(raw_log.read(path))
        if not rates or "ranks" in str(path):
            continue
        for kernel in with_peak(path).kernels:
            if (
                kernel.gb_per_s is None
                or kernel.ms is None
                or len(rates[kernel.name]) != kernel.launches
            ):
                continue
            assert kernel.peak_fraction == pytest.approx(
                kernel.gb_per_s.median / H200, rel=0.03
            )
            moved = [ms * rate * 1e6 for ms, rate in rates[kernel.name]]
            if kernel.bytes_moved is not None:
                assert kernel.bytes_moved == pytest.approx(moved[0], rel=0.03), (
                    path,
                    kernel.id,
                )
            small = median(moved) < H200 * 1e6 * FLOOR_MS
            quick = kernel.ms.median <= 4 * FLOOR_MS
            assert kernel.bound == ("launch" if small and quick else "bandwidth"), (
                path,
                kernel.id,
            )
            seen[kernel.bound] += 1
    assert seen["launch"] > 100 and seen["bandwidth"] > 40 and not seen["cache"]


def test_faster_than_the_memory_is_a_cache() -> None:
    report = with_peak(LAYER_NORM, 700.0)
    shares = {kernel.id: kernel.peak_fraction for kernel in report.kernels}
    for kernel in report.kernels:
        assert (kernel.bound == "cache") == (shares[kernel.id] > 1)
    assert {"cache"} <= {kernel.bound for kernel in report.kernels}


def test_without_a_peak_only_what_is_small_on_every_gpu_is_called_launch_bound() -> (
    None
):
    report = with_peak(ENCODER, None)
    assert report.peak is None and all(
        kernel.peak_fraction is None for kernel in report.kernels
    )
    assert {kernel.bound for kernel in report.kernels} == {"launch", None}
    assert all(
        kernel.bytes_moved < 1.5e6
        for kernel in report.kernels
        if kernel.bound == "launch"
    )
    assert any(
        kernel.bytes_moved > 1.5e6
        for kernel in report.kernels
        if kernel.bound is None
    )


def test_launches_of_several_shapes_have_no_number_of_bytes() -> None:
    """The rates of one kernel times its times differ, because its shapes do."""
    path = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-dynamic-shapes.log.xz"
    rates = raw_log.bandwidths(raw_log.read(path))
    differ = [
        name
        for name, one in rates.items()
        if max(a * b for a, b in one) > 1.05 * min(a * b for a, b in one)
    ]
    assert differ
    for kernel in with_peak(path).kernels:
        assert (kernel.bytes_moved is None) == (kernel.name in differ)


def test_occupancy_is_that_of_nvidias_header() -> None:
    with (FIXTURES / "occupancy.csv").open() as file:
        rows = [
            {name: int(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        ]
    assert len(rows) > 100 and {
        (row["major"], row["minor"]) for row in rows
    } == set(LIMITS)
    for row in rows:
        capability = (row["major"], row["minor"])
        share = row["blocks"] * -(-row["threads"] // 32) / LIMITS[capability].warps
        got = occupancy(
            capability, row["threads"], row["registers"], row["smem_bytes"]
        )
        assert got == (share or None), row


def test_occupancy_is_unknown_rather_than_guessed() -> None:
    assert occupancy((3, 5), 128, 32, 0) is None
    assert occupancy((9, 0), 128, None, 0) is None
    assert occupancy((9, 0), 2048, 32, 0) is None


def test_occupancy_of_a_capture_needs_registers_and_capability() -> None:
    report = report_from([str(CAPTURE)])
    text = raw_log.read(CAPTURE / "log").decode()
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", text)]
    assert [kernel.registers for kernel in report.kernels] == registers
    # 52 and 56 registers leave room for 32 of 64 warps on compute capability 9.0,
    # 30 and 32 for all.
    assert [kernel.occupancy for kernel in report.kernels] == [0.5, 0.5, 1.0, 1.0]
    assert all(kernel.occupancy is None for kernel in with_peak(LAYER_NORM).kernels)
