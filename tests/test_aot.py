"""AOTAutograd in a report: graphs, what partitions save, TorchScript groups, findings; on live programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run, runs_in_this_process

PROGRAMS = (
    *("gelu_bias", "dropout_add", "layer_norm", "rms_norm", "attention"),
    *("reshaped", "two_results", "swiglu", "long_chain", "normalised"),
)


def report_of(run: Run, *args: object, **options: Any) -> dict[str, Any]:
    done = run("diagnose", *args, "--format", "json", **options)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def partitions(
    cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of ten programs, and what torch's own partition functions made of them."""
    folder = tmp_path_factory.mktemp("aot")
    out = folder / "oracle.json"
    run = runs_in_this_process(folder, cache)
    report = report_of(run, ROOT / "tests/live/aot_programs.py", env={"OUT": str(out)})
    return report, json.loads(out.read_text("utf-8"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_partition_saves_and_computes_again_what_torch_says(
    name: str, partitions: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    report, oracle = partitions
    rows = {row["how"]: row for row in report["aot"] if row["name"] == name}
    for how, kind in (("memory_efficient_fusion", "min-cut"), ("aot_function", "default")):
        row, expected = rows[how], oracle[f"{name} {kind}"]
        for found, wanted in ((row["partition"], expected["made"]), (row["default"], expected["default"])):
            assert sorted(one["name"] for one in found["saved"]) == wanted["saved"]
            assert sorted(one["name"] for one in found["saved_inputs"]) == wanted["inputs"]
            assert sorted(one["name"] for one in found["recomputed"]) == wanted["recomputed"]
            assert found["saved_bytes"] == wanted["bytes"]


def test_ten_programs_save_and_compute_again_at_all(
    partitions: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    _, oracle = partitions
    cut = [one["made"] for name, one in oracle.items() if name.endswith("min-cut")]
    assert len(cut) == 10
    assert sum(bool(one["recomputed"]) for one in cut) >= 4
    assert sum(one["bytes"] > 0 for one in cut) >= 4


def test_every_operator_has_the_users_line(partitions: tuple[dict[str, Any], dict[str, Any]]) -> None:
    report, _ = partitions
    lines = (ROOT / "tests/live/aot_programs.py").read_text("utf-8").splitlines()
    for row in report["aot"]:
        first = next(n for n, line in enumerate(lines, 1) if line.startswith(f"def {row['name']}("))
        last = first + next(n for n, line in enumerate(lines[first:]) if not line)
        nodes = [node for graph in row["graphs"] for node in graph["nodes"] if node["op"]]
        placed = [int(node["user_source"].rpartition(":")[2]) for node in nodes if node["user_source"]]
        assert all(first < line <= last for line in placed), row["name"]
        assert len(placed) >= 0.9 * len(nodes), row["name"]
