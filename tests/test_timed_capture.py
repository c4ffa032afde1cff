"""A run with --time on a GPU: its times, its measured peak, and how they look at
each width."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest
from conftest import FIXTURES, Run


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    with tarfile.open(
        FIXTURES / "captures" / "encoder-layer-nvfuser-2.1.2.tar.xz"
    ) as tar:
        tar.extractall(tmp_path)
    return tmp_path / "encoder-layer"


def test_the_times_are_those_that_the_probe_took(
    encoder: Path, fusiondoc: Run
) -> None:
    report = json.loads(fusiondoc("parse", str(encoder), "--format", "json").stdout)
    records = [
        json.loads(line)
        for line in (encoder / "timing" / "records.jsonl").read_text().splitlines()
    ]
    taken = [record for record in records if record["record"] == "speed"]
    assert len(taken) == 4
    assert [
        (r["way"], r["phase"], r["ms"]["median"], r["memory_bytes"])
        for r in report["speed"]
    ] == [(r["way"], r["phase"], r["ms"][1], r["memory_bytes"]) for r in taken]
    assert report["peak"] == {"gb_per_s": 4221.2, "source": "measured"}
    # Kernels that ran in the log, by its own lines.
    log = (encoder / "log").read_bytes()
    ran = re.findall(rb"(?m)^(kernel\d+) run in", log)
    assert {k["name"]: k["launches"] for k in report["kernels"]} == {
        name.decode(): ran.count(name) for name in set(ran)
    }
    assert all(k["groups"] and k["peak_fraction"] for k in report["kernels"])


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_the_speed_section_is_whole_at_every_width(
    width: int, encoder: Path, fusiondoc: Run
) -> None:
    text = fusiondoc("parse", str(encoder), env={"COLUMNS": str(width)}).stdout
    section = text.split("\nSpeed\n")[1].split("\n\n")[0]
    assert "…" not in section and "5.48" in section and "GB" in section
    assert ("(5.47 to " in section) == (width >= 100)
    assert max(map(len, text.splitlines())) <= width
