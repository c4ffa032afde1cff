"""The report of a capture made on a GPU, on a machine that has neither torch nor a
GPU for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from conftest import FIXTURES, Run

CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"


def test_the_report_of_a_gpu_capture(fusiondoc: Run) -> None:
    done = fusiondoc("parse", CAPTURE, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["environment"]["torch"] == "2.1.2+cu121"
    assert report["environment"]["gpu"] == "NVIDIA H200"
    assert (
        report["fuser"]["effective"] == "nvfuser"
        and report["fuser"]["live"] is True
    )
    assert [g["phase"] for g in report["groups"]] == ["forward", "backward"]
    assert [g["kernels"] for g in report["groups"]] == [["K1"], ["K2", "K3", "K4"]]
    assert all(
        k["registers"] and k["code"].startswith("__global__ void kernel")
        for k in report["kernels"]
    )
    assert all(0.2 < k["peak_fraction"] < 1 for k in report["kernels"])
    assert [(i["index"], i["phase"], i["stage"]) for i in report["iterations"]][
        :5
    ] == [
        (1, "forward", "profiling"),
        (1, "backward", "profiling"),
        (2, "forward", "compiling"),
        (2, "backward", "profiling"),
        (3, "forward", "compiling"),
    ]
    assert report["timing"]["child"] > 0
    assert report["unfused"] == []


def test_a_capture_without_argument_is_the_newest(
    fusiondoc: Run, tmp_path: Path
) -> None:
    shutil.copytree(CAPTURE, tmp_path / ".fusiondoc" / "20260102-101500-composite")
    done = fusiondoc("parse")
    assert done.returncode == 0, done.stderr
    assert "NVIDIA H200" in done.stdout and "K4" in done.stdout


def test_a_capture_of_a_newer_version(fusiondoc: Run, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    shutil.copytree(CAPTURE, newer)
    request = json.loads((newer / "request.json").read_text())
    request["schema"] = "fusiondoc.capture/7"
    (newer / "request.json").write_text(json.dumps(request))
    done = fusiondoc("parse", newer)
    assert done.returncode == 2
    assert "Upgrade" in done.stderr and "Traceback" not in done.stderr


def test_a_capture_whose_records_are_cut_off(
    fusiondoc: Run, tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(CAPTURE, cut)
    records = (cut / "records.jsonl").read_bytes()
    (cut / "records.jsonl").write_bytes(records[: len(records) // 2])
    (cut / "result.json").unlink()
    done = fusiondoc("parse", cut)
    assert done.returncode == 0, done.stderr
    assert "G2" in done.stdout
