"""The memory bandwidth that kernels are held against: where it comes from, and what
is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import FIXTURES, Run

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import Environment
from fusiondoc.fuser_knobs.catalogue import SLOWEST, TABLE, bandwidth_of
from fusiondoc.model.runs import Peak
from fusiondoc.runner import Cache, keep_peak, peak_of
from fusiondoc.runner.interpreter import CopyBandwidth

CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
LAYER_NORM = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
NAME = "NVIDIA H200"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CopyBandwidth:
    """A measurement of an H200 as ``env --measure`` leaves it."""
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "measured"))
    Cache("bandwidth").put(
        [NAME],
        [],
        {"gb_per_s": 4100.5, "copied_bytes": 1 << 30, "python": "python"},
    )
    return CopyBandwidth(NAME, 4100.5, 1 << 30)


@pytest.fixture
def nothing_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "empty"))


def test_the_order_is_given_measured_driver_table(measured: CopyBandwidth) -> None:
    everything = Environment(NAME, 4814.3)
    assert peak_of(everything, None, 5000.0) == Peak(5000.0, "given")
    assert peak_of(everything, None, None) == Peak(4100.5, "measured")
    other = Environment("NVIDIA A100-SXM4-40GB", 1555.2)
    assert peak_of(other, None, None) == Peak(1555.2, "driver")
    assert peak_of(Environment(other.gpu), None, None) == Peak(1555, "table")
    assert peak_of(Environment("NVIDIA Imaginary 9000"), None, None) is None
    assert peak_of(Environment(), None, None) is None


def test_what_a_capture_keeps_counts_before_this_machines_own(
    measured: CopyBandwidth,
) -> None:
    everything = Environment(NAME, 4814.3)
    assert peak_of(everything, Peak(4200.0, "measured"), None) == Peak(
        4200.0, "measured"
    )


@pytest.mark.parametrize(
    ("rate", "source"),
    [('"many"', "given"), ("-1", "given"), ("1e999", "measured"), ("5", "x")],
)
def test_a_damaged_peak_is_none(rate: str, source: str, tmp_path: Path) -> None:
    copy = tmp_path / "capture"
    shutil.copytree(CAPTURE, copy)
    (copy / "peak.json").write_text(f'{{"gb_per_s": {rate}, "source": "{source}"}}')
    assert Capture(copy).peak is None


def test_a_measured_peak_travels_with_the_capture(
    measured: CopyBandwidth,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fusiondoc: Run,
) -> None:
    copy = tmp_path / "capture"
    shutil.copytree(CAPTURE, copy)
    keep_peak(Capture(copy), None)
    done = fusiondoc(
        "parse",
        copy,
        "--format",
        "json",
        env={"FUSIONDOC_CACHE": str(tmp_path / "elsewhere")},
    )
    assert json.loads(done.stdout)["peak"] == {
        "gb_per_s": 4100.5,
        "source": "measured",
    }


@pytest.mark.usefixtures("nothing_measured")
def test_a_log_has_no_peak_unless_it_is_given(fusiondoc: Run) -> None:
    bare = json.loads(fusiondoc("parse", LAYER_NORM, "--format", "json").stdout)
    given = json.loads(
        fusiondoc("parse", LAYER_NORM, "--peak", 4814.3, "--format", "json").stdout
    )
    assert bare["peak"] is None and given["peak"] == {
        "gb_per_s": 4814.3,
        "source": "given",
    }
    assert all(kernel["peak_fraction"] is None for kernel in bare["kernels"])
    assert all(
        kernel["peak_fraction"]
        == pytest.approx(kernel["gb_per_s"]["median"] / 4814.3)
        for kernel in given["kernels"]
    )


def test_the_drivers_figure_is_in_the_capture(fusiondoc: Run) -> None:
    report = json.loads(fusiondoc("parse", CAPTURE, "--format", "json").stdout)
    assert report["peak"] == {"gb_per_s": 4814.3, "source": "driver"}


@pytest.mark.parametrize("value", ["0", "-3", "nan", "inf", "1e9"])
def test_a_peak_that_is_none_is_refused(fusiondoc: Run, value: str) -> None:
    for command in (("parse", LAYER_NORM), ("diagnose", "model.py")):
        done = fusiondoc(*command, "--peak", value)
        assert done.returncode == 2
        assert (
            "GB/s" in done.stderr
            and "next:" in done.stderr
            and "Traceback" not in done.stderr
        )


def test_names_as_drivers_give_them() -> None:
    """Those of ``nvidia-smi -L`` and ``torch.cuda.get_device_name``."""
    assert bandwidth_of("NVIDIA H200") == 4800
    assert bandwidth_of("NVIDIA H100 80GB HBM3") == 3350
    assert bandwidth_of("NVIDIA A100-SXM4-80GB") == 2039
    assert bandwidth_of("NVIDIA A100 80GB PCIe") == 1935
    assert (
        bandwidth_of("Tesla V100-SXM2-16GB")
        == bandwidth_of("Tesla V100-PCIE-32GB")
        == 900
    )
    assert bandwidth_of("Tesla T4") == 320
    assert bandwidth_of("NVIDIA GeForce RTX 4090") == 1008


def test_a_similar_name_is_another_gpu() -> None:
    for name in (
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 3080 Ti",
        "NVIDIA A1000",
        "",
        None,
    ):
        assert bandwidth_of(name) is None


def test_every_figure_has_its_source() -> None:
    assert all(row.source and 100 < row.gb_per_s < 10_000 for row in TABLE)
    assert min(row.gb_per_s for row in TABLE) == SLOWEST


@pytest.mark.torch
def test_measuring_without_a_gpu_says_what_would_do_it(fusiondoc: Run) -> None:
    done = fusiondoc("env", "--measure", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 4
    assert (
        "no GPU to measure" in done.stderr
        and "--peak" in done.stderr
        and not done.stdout
    )


def test_measuring_and_exporting_are_two_things(fusiondoc: Run) -> None:
    done = fusiondoc("env", "--measure", "--export", "model.py")
    assert done.returncode == 2 and "next:" in done.stderr
