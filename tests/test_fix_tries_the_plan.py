"""What the plan shows at a line is among what ``fix`` tries there: both read one
list of rewrites."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT

from fusiondoc import parse
from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.changes.line_edits import line_edits
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.diagnosis.rules import Context, of_torchscript, run_facts
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.model.change_plan import Edit
from fusiondoc.parsers.observed import Observed

CAPTURES = FIXTURES / "captures" / "why-not-nvfuser-2.1.2.tar.xz"


def lines_of(edits: Iterable[Edit]) -> frozenset[tuple[int, str, str]]:
    return frozenset((edit.line, edit.before, edit.after) for edit in edits)


@pytest.mark.parametrize("name", ["data_branch", "view_in_training"])
def test_fix_tries_the_lines_that_the_plan_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is on the disk as it was when the run was recorded."""
    monkeypatch.chdir(ROOT)
    with tarfile.open(CAPTURES) as tar:
        tar.extractall(
            tmp_path, [one for one in tar if one.name.startswith(f"{name}/")]
        )
    report = parse(tmp_path / name)
    target = parse_target(f"examples/why_not/{name}.py", ROOT)
    options = RunRequest(target=target, python=Path("python"), cwd=ROOT).options()
    program = UserProgram(
        report, target, options, ROOT, training=None, is_module=False
    )
    rows = of_torchscript(report)
    program.run = run_facts(rows, Context(Observed()))
    shown = [
        one
        for one in SuggestedChanges(rows, program.run).at_lines
        if one.lines and one.sure
    ]
    assert shown
    tried = []
    for change in SuggestedChanges.of_program(program).in_files:
        for file in program.files:
            own = [edit for edit in change.edits if edit.path == file.source.path]
            tried.append(lines_of(line_edits(file, "m.py", own)))
    assert [one.title for one in shown if lines_of(one.lines) not in tried] == []
