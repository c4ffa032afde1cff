"""fusiondoc beside an interpreter that is too old for fusiondoc itself, as the
README shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ROOT, Run
from old_pythons import python_of

OLD = ("3.7", "3.8", "3.9")

pytestmark = pytest.mark.xdist_group("old_torch")
OPERATORS = (
    "aten::add",
    *["aten::mul"] * 3,
    "aten::add",
    *["aten::mul"] * 2,
    "aten::tanh",
    "aten::add",
    "aten::mul",
)
"""Of the group that examples/bias_gelu.py makes: one chain."""


@pytest.fixture
def old_python() -> Path:
    """Looked for when a test runs: every worker of the tests imports this file."""
    found = next(
        filter(None, (python_of(version, "torch") for version in OLD)), None
    )
    if found is None:
        pytest.skip(f"needs a Python {' or '.join(OLD)} with torch")
    return found


def test_a_model_is_diagnosed_in_an_older_interpreter(
    fusiondoc_process: Run, old_python: Path
) -> None:
    """The report is of that Python and its torch, with the group and every pass
    equal to an eager one."""
    done = fusiondoc_process(
        *("diagnose", ROOT / "examples" / "bias_gelu.py", "--python", old_python),
        *("--fuser", "nnc", "--verify", "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["environment"]["python"].startswith(OLD)
    assert [tuple(group["ops"]) for group in report["groups"]] == [OPERATORS]
    assert report["coverage"]["fraction"] == 1.0
    assert not [
        finding for finding in report["findings"] if finding["code"] == "FD501"
    ]


def test_its_facts_and_knobs_are_of_its_torch(
    fusiondoc_process: Run, old_python: Path
) -> None:
    done = fusiondoc_process("env", "--python", old_python, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert '"python": "3.' in done.stdout and str(old_python) in done.stdout
