"""What ``fix`` and ``--try`` found in a run is part of its capture: the plan marks
what they proved, and leaves out what they refuted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from running import write
from test_compare_match import report

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.proofs import Proofs
from fusiondoc.model.change_plan import (
    ChangeKind,
    ChangeOutcome,
    Edit,
    Fixes,
    TriedFix,
    Try,
    Version,
)
from fusiondoc.model.remedies import Setting

BLOCK = """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU(inplace=True)

        def forward(self, x, y):
            z = x * 2.0 + 1.0
            z += y
            z = self.act(z) * 3.0
            return torch.square(z * y) + x


    model = Block()
    inputs = (torch.randn(8, 16), torch.randn(8, 16))
"""

TWO_NAMES = """
    import torch

    def model(x, y):
        z = x * 2.0
        kept = torch.einsum("ij->ij", z)  # no product, but a view: nothing shows that
        z += y
        return torch.tanh(z) * kept

    inputs = (torch.randn(4, 4), torch.randn(4, 4))
"""


def plan_of(fusiondoc: Run, folder: Path, *words: object) -> dict[str, Any]:
    """The report of the newest capture, or that of a command."""
    done = fusiondoc(*(words or ("parse",)), "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.torch
def test_what_fix_kept_is_proved_in_the_plan_of_its_capture(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "block.py", BLOCK)
    plan = plan_of(fusiondoc, tmp_path, "diagnose", "block.py", "--runs", 3)["plan"]
    assert plan and all(one["proof"] is None for one in plan)
    done = fusiondoc("fix", "block.py", "--runs", 3, "-f", "json", cwd=tmp_path)
    fixed = json.loads(done.stdout)
    notes = [
        line
        for line in done.stderr.splitlines()
        if line.startswith(("trying", "proved"))
    ]
    assert notes[0].startswith("trying 1 of ") and notes[1].startswith(
        "proved: operators in place"
    )
    kept = [one for one in fixed["tried"] if one["outcome"] == "kept"]
    assert [edit["line"] for edit in kept[0]["edits"]] == [9, 13]
    found = plan_of(fusiondoc, tmp_path)
    assert {one["where"].rpartition(":")[2] for one in found["plan"]} >= {"9", "13"}
    for one in found["plan"]:
        proof = one["proof"]
        assert proof["by"] == "fusiondoc fix" and proof["same_results"] is True
        (tried,) = [other for other in kept if other["change"] == proof["change"]]
        assert (
            proof["ops_fused_before"]
            == tried["before"]["ops_fused"]
            < proof["ops_fused"]
        )
        assert {(edit["line"], edit["after"]) for edit in one["edits"]} <= {
            (edit["line"], edit["after"]) for edit in tried["edits"]
        }
    for form in ("text", "markdown", "html", "sarif"):
        done = fusiondoc(
            "parse", "--format", form, cwd=tmp_path, env={"COLUMNS": "200"}
        )
        assert "proved by fusiondoc fix" in done.stdout, form
    # A bundle without sources has none of their lines.
    for words, there in (((), True), (("--no-source",), False)):
        done = fusiondoc("bundle", "--dry-run", *words, cwd=tmp_path)
        assert ("fixes.json" in done.stdout.split("left out")[0]) is there, (
            done.stdout
        )


@pytest.mark.torch
def test_what_fix_refuted_is_not_in_the_plan_of_its_capture(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """``kept`` is the same tensor: it changes with ``z``, and would not if that
    were written out of place."""
    write(tmp_path, "names.py", TWO_NAMES)
    before = plan_of(fusiondoc, tmp_path, "diagnose", "names.py", "--runs", 3)
    fixed = plan_of(fusiondoc, tmp_path, "fix", "names.py", "--runs", 3)
    assert [one["outcome"] for one in fixed["tried"]] == ["computes something else"]
    after = plan_of(fusiondoc, tmp_path)
    line = fixed["tried"][0]["edits"][0]["after"]
    assert any(
        line in [edit["after"] for edit in one["edits"]] for one in before["plan"]
    )
    assert not any(
        line in [edit["after"] for edit in one["edits"]] for one in after["plan"]
    )
    assert after["plan_note"].endswith("fusiondoc fix tried 1 change and kept none")
    assert after["plan_try"] is None


@pytest.mark.torch
def test_a_setting_that_was_tried_is_proved(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "sums.py",
        """
        import torch

        def model(x):
            return torch.softmax(torch.relu(x) * 2.0, dim=-1) * 3.0

        inputs = (torch.randn(8, 16),)
        """,
    )
    words = ("diagnose", "sums.py", "--runs", 3, "--fuser", "nnc", "--try")
    found = plan_of(fusiondoc, tmp_path, *words)
    (planned,) = [
        one for one in found["plan"] if "nnc_reductions" in one["command"]
    ]
    proof = planned["proof"]
    tries = {one["change"]: one for one in found["tries"]}
    tried = tries["nnc_reductions=on"]
    assert (
        proof["by"] == "fusiondoc diagnose --try" and proof["same_results"] is None
    )
    assert (proof["groups"], proof["ops_fused"]) == (
        tried["groups"],
        tried["ops_fused"],
    )


# -- decisions -----------------------------------------------------------------------------------------------

LINE = Edit("/m.py", 5, "    x += y", "    x = x + y")
OTHER = Edit("/m.py", 6, "    z *= y", "    z = z * y")
OUT_OF_PLACE = Change(ChangeKind.OUT_OF_PLACE, "out of place", lines=(LINE,))
BOTH = replace(OUT_OF_PLACE, lines=(LINE, OTHER))


def tried(
    outcome: ChangeOutcome, *edits: Edit, setting: Setting | None = None
) -> TriedFix:
    made = TriedFix(
        ChangeKind.OUT_OF_PLACE,
        "in place",
        (),
        (),
        outcome,
        Version(1, 2, 3, 0),
        Version(1, 4, 2, 0),
        edits=edits,
    )
    return replace(made, setting=setting) if setting is not None else made


def proofs(*rows: TriedFix) -> Proofs:
    version = Version(1, 2, 3, 0)
    return Proofs(report(), Fixes("m.py", version, version, rows, ""))


@pytest.mark.parametrize(
    "outcome", [one for one in ChangeOutcome if one is not ChangeOutcome.KEPT]
)
def test_a_line_is_refuted_where_no_run_with_it_helped(
    outcome: ChangeOutcome,
) -> None:
    assert proofs(tried(outcome, LINE)).refutes(OUT_OF_PLACE, report())
    assert not proofs(tried(outcome, OTHER)).refutes(OUT_OF_PLACE, report())
    again = proofs(tried(outcome, LINE), tried(ChangeOutcome.KEPT, LINE, OTHER))
    assert (
        not again.refutes(OUT_OF_PLACE, report())
        and again.of(OUT_OF_PLACE, report()) is not None
    )


def test_a_change_of_two_lines_is_proved_where_both_were_kept() -> None:
    one, both = (
        proofs(tried(ChangeOutcome.KEPT, LINE)),
        proofs(tried(ChangeOutcome.KEPT, LINE, OTHER)),
    )
    assert one.of(BOTH, report()) is None and not one.refutes(BOTH, report())
    proof = both.of(BOTH, report())
    assert proof is not None and (proof.ops_fused_before, proof.ops_fused) == (2, 4)
    mixed = proofs(
        tried(ChangeOutcome.KEPT, LINE), tried(ChangeOutcome.WRONG, OTHER)
    )
    assert mixed.of(BOTH, report()) is None and not mixed.refutes(BOTH, report())


def test_what_was_never_run_is_neither_proved_nor_refuted() -> None:
    nothing = Proofs(report(), None)
    knob = Change(
        ChangeKind.KNOB, "a knob", setting=Setting(knobs={"single_node": "on"})
    )
    for change in (OUT_OF_PLACE, knob, Change(ChangeKind.NO_GRAD, "no gradients")):
        assert nothing.of(change, report()) is None and not nothing.refutes(
            change, report()
        )


def test_a_line_that_did_not_help_refutes_no_change_of_the_program() -> None:
    """Lines are tried with the settings as they were requested."""
    no_grad = Change(ChangeKind.NO_GRAD, "no gradients")
    runs = proofs(tried(ChangeOutcome.NO_GAIN, LINE))
    assert runs.refutes(OUT_OF_PLACE, report())
    assert not runs.refutes(no_grad, report())


@pytest.mark.parametrize(("ops_fused", "helps"), [(2, False), (3, True)])
def test_a_setting_is_proved_or_refuted_by_its_try(
    ops_fused: int, helps: bool
) -> None:
    setting = Setting(knobs={"single_node": "on"})
    base = Try("unchanged", (), 1, 2, 3, 0, None, None, 0)
    row = replace(
        base, change="single_node=on", ops_fused=ops_fused, setting=setting
    )
    runs = Proofs(replace(report(), tries=(base, row)), None)
    change = Change(ChangeKind.KNOB, "a knob", setting=setting)
    assert (
        runs.of(change, report()) is not None,
        runs.refutes(change, report()),
    ) == (helps, not helps)
    kept = proofs(tried(ChangeOutcome.KEPT, setting=setting)).of(change, report())
    assert kept is not None and kept.by == "fusiondoc fix"
