"""The text format of OpenMetrics, read back by the parser of Prometheus' own
client."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Run

import fusiondoc

LOG = ROOT / "fixtures" / "compare" / "after.log.xz"


def read_back(text: str) -> dict[str, tuple[float, dict[str, str]]]:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = list(parser.text_string_to_metric_families(text))
    assert all(
        family.type == "gauge" and family.documentation for family in families
    )
    return {
        sample.name.removeprefix("fusiondoc_"): (sample.value, sample.labels)
        for family in families
        for sample in family.samples
    }


def test_prometheus_reads_every_figure(fusiondoc: Run, tmp_path: Path) -> None:
    assert (
        fusiondoc("parse", LOG, "--output", tmp_path / "fusion.prom").returncode
        == 0
    )
    found = read_back((tmp_path / "fusion.prom").read_text(encoding="utf-8"))
    report = json.loads(fusiondoc("parse", LOG, "--format", "json").stdout)
    groups = sum(len(group["instances"]) for group in report["groups"])
    assert groups
    assert found["groups"][0] == groups
    assert found["groups_forward"][0] + found["groups_backward"][0] == groups
    assert found["operators_unfused"][0] == sum(
        row["count"] for row in report["unfused"]
    )
    assert found["kernels"][0] == len(report["kernels"])
    assert found["coverage"][0] == pytest.approx(
        report["coverage"]["fraction"], rel=1e-5
    )
    assert found["findings_warning"][0] == sum(
        f["severity"] == "warning" for f in report["findings"]
    )
    assert found["groups"][1]["fuser"] == "nnc"
    assert "step_ms" not in found and "expectations_broken" not in found


def test_a_label_may_hold_any_text() -> None:
    report = fusiondoc.parse(LOG)
    name = 'a "model"\nwith \\ in it'
    found = read_back(
        fusiondoc.render(
            replace(report, target=replace(report.target, model=name)),
            "openmetrics",
        )
    )
    assert found["groups"][1]["model"] == name


def test_large_figures_keep_their_digits() -> None:
    report = fusiondoc.parse(LOG)
    row = replace(report.unfused[0], bytes_moved=123_456_789_012)
    found = read_back(
        fusiondoc.render(replace(report, unfused=(row,)), "openmetrics")
    )
    assert found["unfused_bytes"][0] == 123_456_789_012


def test_broken_expectations_are_a_figure(fusiondoc: Run, tmp_path: Path) -> None:
    expectations = tmp_path / "fusions.yaml"
    expectations.write_text(
        "groups:\n  - [sin, cos]\nnumber_of_groups: {at_least: 1}\n"
    )
    done = fusiondoc(
        "check", LOG, "--expect", expectations, "--format", "openmetrics"
    )
    assert done.returncode == 1
    assert read_back(done.stdout)["expectations_broken"][0] == 1
