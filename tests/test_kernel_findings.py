"""FD401 to FD408 on real logs, against figures from the raw text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, Run
from running import write

from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.rules.fd4_speed import slow_kernels
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import Steps
from fusiondoc.parsers.observed import Observed
from fusiondoc.workflows.load import report_from

LOGS = FIXTURES / "logs"
LAYER_NORM = LOGS / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
ENCODER = LOGS / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"
PTXAS = LOGS / "nvfuser-2.1.2-ptxas-verbose.log.xz"
H200 = 4814.3


def findings(report: Report, code: str) -> list[Finding]:
    return [one for one in report.findings if one.code == code]


def test_fd401_names_the_slow_kernels_alone() -> None:
    report = report_from([str(LAYER_NORM)], H200)
    slow = []
    for name, one in raw_log.bandwidths(raw_log.read(LAYER_NORM)).items():
        moved = one[0][0] * one[0][1] * 1e6
        times = next(kernel.ms for kernel in report.kernels if kernel.name == name)
        if moved > H200 * 5e3 and times.median > 2 * (0.005 + moved / (H200 * 1e6)):
            slow.append(name)
    assert slow and len(slow) < 4
    found = findings(report, "FD401")
    assert [re.match(r"Kernel K(\d+)", one.message).group(1) for one in found] == [
        name[len("kernel") :] for name in slow
    ]
    assert all(
        "4,814 GB/s, given with --peak" in one.message and one.evidence
        for one in found
    )
    assert not findings(report_from([str(LAYER_NORM)]), "FD401")


def test_fd402_is_one_note_for_all_small_kernels() -> None:
    (found,) = findings(report_from([str(ENCODER)], H200), "FD402")
    sizes = {
        name: max(ms * rate * 1e6 for ms, rate in one)
        for name, one in raw_log.bandwidths(raw_log.read(ENCODER)).items()
    }
    assert max(sizes.values()) < H200 * 5e3
    assert found.severity == "note"
    assert re.match(r"(\d+) of 11 kernels", found.message)
    assert not findings(
        report_from([str(LOGS / "nnc-2.11-add-relu.log.xz")], H200), "FD402"
    )


def test_fd403_counts_kernels_and_bytes_between_them() -> None:
    log = raw_log.read(LAYER_NORM)
    pointers = raw_log.kernels_by_pointer(log)
    (names,) = [names for names in pointers.values() if len(names) > 1]
    counted = sum(
        ms * rate * 1e6
        for name in names
        for ms, rate in raw_log.bandwidths(log)[name][:1]
    )
    report = report_from([str(LAYER_NORM)])
    (found,) = findings(report, "FD403")
    assert f"runs as {len(names)} kernels" in found.message
    group = next(group for group in report.groups if len(group.kernels) > 1)
    assert found.saves_bytes == pytest.approx(
        counted - group.bytes_in - group.bytes_out, rel=0.01
    )
    assert found.saves_bytes > 30e6


def test_fd403_leaves_groups_with_one_kernel_a_run_alone(recordings: Path) -> None:
    """Every group of the ordered recordings whose GraphCache launches one kernel,
    by the raw log."""
    for path in sorted(recordings.glob("torch-2.1.2/ordered/*.log")):
        several = sum(
            len(names) > 1
            for names in raw_log.kernels_by_pointer(raw_log.read(path)).values()
        )
        assert len(findings(report_from([str(path)]), "FD403")) == several


def test_fd404_needs_spills(tmp_path: Path) -> None:
    """No recording spills, so figures of one kernel are put into a real report of
    ptxas."""
    assert not findings(report_from([str(PTXAS)]), "FD404")
    text = raw_log.read(PTXAS)
    assert text.count(b"0 bytes spill stores, 0 bytes spill loads") > 1
    edited = text.replace(
        b"0 bytes spill stores, 0 bytes spill loads",
        b"24 bytes spill stores, 36 bytes spill loads",
        1,
    )
    (tmp_path / "spills.log").write_bytes(edited)
    (found,) = findings(report_from([str(tmp_path / "spills.log")]), "FD404")
    assert (
        "60 bytes" in found.message
        and found.severity == "warning"
        and found.evidence
    )


def test_fd405_needs_a_slow_kernel_with_few_warps(tmp_path: Path) -> None:
    """The capture of an H200, its compute capability changed to that of a GPU with
    the same registers and half the kernels' share: 52 registers and 512 threads
    leave 50 % there, which is not few."""
    capture = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
    assert not findings(report_from([str(capture)]), "FD405")
    copy = tmp_path / "capture"
    copy.mkdir()
    for file in capture.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    log = (copy / "log").read_bytes()
    (copy / "log").write_bytes(
        log.replace(b"Used 52 registers", b"Used 96 registers")
    )
    report = report_from([str(copy)])
    # 96 * 32 = 3072 registers a warp: 5 warps in each quarter of 16384, one block
    # of 16 warps, of 64.
    assert report.kernels[0].occupancy == 16 / 64
    (found,) = findings(report, "FD405")
    assert (
        "K1" in found.message
        and "25%" in found.message
        and "96 registers" in found.message
    )


def test_fd406_counts_groups_of_one_phase() -> None:
    report = report_from([str(ENCODER)], H200)
    small = {
        kernel.id for kernel in report.kernels if kernel.ms.median <= 0.02
    }  # all move little: see FD402
    rows = {
        phase: [group for group in report.groups if group.phase == phase]
        for phase in ("forward", "backward")
    }
    expected = [
        (str(len(groups)), phase)
        for phase, groups in rows.items()
        if all(small.issuperset(group.kernels) for group in groups)
    ]
    found = findings(report, "FD406")
    assert [
        re.findall(r"^(\d+) small groups in a row of the (\w+)", one.message)[0]
        for one in found
    ] == expected
    assert ("4", "forward") in expected
    assert not findings(report_from([str(LAYER_NORM)], H200), "FD406")


@pytest.mark.torch
def test_fd407_when_every_shape_compiles(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "shapes.py",
        """
        import torch

        def model(x):
            return (x * 2.0 + 1.0).tanh() * x

        inputs = [(torch.randn(n, 64),) for n in (4, 5, 6)]
        """,
    )

    def codes(strategy: str) -> set:
        done = fusiondoc(
            *("diagnose", "shapes.py", "--fuser", "nnc", "--format", "json"),
            *("--knob", f"fusion_strategy={strategy}"),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return {one["code"] for one in json.loads(done.stdout)["findings"]}

    assert "FD407" in codes("STATIC:10")
    assert "FD407" not in codes("DYNAMIC:10")


def test_fd408_is_the_reshape_that_copies(recordings: Path) -> None:
    path = recordings / "torch-2.1.2" / "c16_encoder_layer.optimized.log"
    text = raw_log.read(path).decode()
    line = "models/c16_encoder_layer.py:19:12"
    shape = re.search(
        rf": Float\((\d+), (\d+), (\d+), strides.* = aten::reshape\(.* # {line}",
        text,
    )
    assert shape and re.search(rf"aten::transpose\(.* # {line}", text)
    (found,) = findings(report_from([str(path)]), "FD408")
    sizes = [int(n) for n in shape.groups()]
    assert found.saves_bytes == 2 * 4 * sizes[0] * sizes[1] * sizes[2]
    assert found.source == "models/c16_encoder_layer.py:19"


@pytest.mark.nightly
def test_how_often_they_fire(recordings: Path) -> None:
    """A finding on everything says nothing: over all recordings, with the peak of
    their GPU."""
    files: dict = {}
    paths = sorted(
        [*recordings.glob("torch-*/*.log"), *recordings.glob("torch-*/*/*.log")]
    )
    for path in paths:
        report = report_from([str(path)], H200)
        for one in report.findings:
            if one.code.startswith("FD4"):
                files.setdefault(one.code, set()).add(path)
        small = {
            kernel.id
            for kernel in report.kernels
            if (kernel.bytes_moved or 0) < H200 * 5e3
        }
        for one in findings(report, "FD401"):
            kernel = re.match(r"Kernel (K\d+)", one.message).group(1)
            assert one.severity == ("note" if kernel in small else "warning")
    assert len(paths) >= 225
    assert set(files) == {"FD401", "FD402", "FD403", "FD406", "FD408"}
    assert len(files["FD401"]) < 30 and len(files["FD402"]) < 60
    assert all(len(files[code]) < 20 for code in ("FD403", "FD406", "FD408"))


def test_fd401_is_a_note_where_it_is_little_of_a_profiled_step() -> None:
    report = report_from([str(LAYER_NORM)], H200)
    assert {one.severity for one in findings(report, "FD401")} == {"warning"}
    for ms, severity in ((1.0, "warning"), (1e4, "note")):
        timed = replace(report, steps=Steps(ms, None, None, (), 3))
        assert {
            one.severity for one in slow_kernels(timed, Context(Observed()))
        } == {severity}
