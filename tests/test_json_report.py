"""The JSON report against its published schema, on real logs and on the command
line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from conftest import FIXTURES, ROOT, Run
from thorough import every
from valid_json import validate

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))


@pytest.mark.parametrize("log", every(4, LOGS), ids=lambda p: p.name)
def test_every_log_gives_a_valid_report(log: Path, fusiondoc: Run) -> None:
    done = fusiondoc("parse", log, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report = json.loads(done.stdout)
    validate(report, SCHEMA)
    ids = {g["id"] for g in report["groups"]}
    assert [g["id"] for g in report["groups"]] == [
        f"G{i + 1}" for i in range(len(ids))
    ]
    for row in report["groups"]:
        assert row["ops"] == [n["op"] for n in row["nodes"]]
        assert row["respecialises"] is None or row["respecialises"] in ids
    for row in report["kernels"]:
        assert set(row["groups"]) <= ids
    for row in report["fallbacks"]:
        assert row["group"] is None or row["group"] in ids
    order = ["error", "warning", "note"]
    severities = [order.index(f["severity"]) for f in report["findings"]]
    assert severities == sorted(severities)


def test_the_schema_refuses_what_is_not_a_report() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate({"schema": "fusiondoc.report/1"}, SCHEMA)


def test_output_goes_to_the_file_and_its_ending_gives_the_format(
    fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc("parse", LOGS[0], "--output", "report.json")
    assert (done.returncode, done.stdout) == (0, "")
    validate(json.loads((tmp_path / "report.json").read_text()), SCHEMA)
    fusiondoc("parse", LOGS[0], "--output", "report.txt")
    assert (tmp_path / "report.txt").read_text().startswith("Target")


def test_a_report_that_cannot_be_written(fusiondoc: Run) -> None:
    done = fusiondoc("parse", LOGS[0], "--output", "no/such/folder/report.json")
    assert done.returncode == 2
    assert "cannot write" in done.stderr and "Traceback" not in done.stderr
    full = fusiondoc("parse", LOGS[0], "--output", "/dev/full", "--format", "text")
    assert full.returncode == 2
    assert "No space left" in full.stderr and "Traceback" not in full.stderr


def test_a_full_disk_behind_stdout(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fusiondoc", "parse", str(LOGS[0])],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left" in done.stderr and "Traceback" not in done.stderr
