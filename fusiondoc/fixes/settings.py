"""Settings of torch that a finding suggests, as lines after the imports of the target's file; and inputs that
ask for gradients which no backward pass uses."""

from __future__ import annotations

import contextlib
from typing import Iterator

from fusiondoc.diagnosis.changes import suggested
from fusiondoc.fixes.edits import Edit, Proposal
from fusiondoc.fixes.fixable import Program
from fusiondoc.fixes.syntax import walk
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.runner.variables import knob_lines

with contextlib.suppress(ImportError):
    import libcst as cst


def propose(program: Program) -> Iterator[Proposal]:
    """One for each knob, and one for the inputs."""
    file = program.target_file
    if file is None:
        return
    for change in suggested(program.report, program.options, program.target.kind):
        lines = knob_lines(change.knobs)
        if lines and not any(line.startswith("#") for line in lines) and change.fuser is None:
            name, imports = file.spelled("torch")
            written = [
                f"{name}{line[len('torch') :]}" if line.startswith("torch.") else line for line in lines
            ]
            edit = file.lines_at(file.after_imports, written, "", rank=-8)
            where = (f"{file.source.path}:{file.source.text.count(chr(10), 0, edit.start) + 1}",)
            ops = frozenset(row.op for row in program.rows if row.reason.code in change.codes)
            note, edits = "for the whole process", (*imports, edit)
            yield Proposal(
                ChangeKind.KNOB, written[0], edits, where, note, knobs=change.knobs, ops=ops, fewer=True
            )
    if not program.backward:
        yield from _without_grad(program)


def _without_grad(program: Program) -> Iterator[Proposal]:
    """``requires_grad=True`` of the inputs, where nothing is differentiated."""
    file = program.target_file
    assert file is not None
    edits: list[Edit] = []
    for line in file.module.body:
        for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(one, cst.Assign) and _names_inputs(one):
                edits += [
                    file.replaced(node.value, "False")
                    for node in walk(one.value)
                    if isinstance(node, cst.Arg)
                    and node.keyword is not None
                    and node.keyword.value == "requires_grad"
                    and isinstance(node.value, cst.Name)
                    and node.value.value == "True"
                ]
    if edits:
        note = "for inference only; where gradients are recorded elsewhere, run it under torch.no_grad()"
        yield Proposal(ChangeKind.NO_GRAD, "inputs that record no gradients", tuple(edits), (), note)


def _names_inputs(node: cst.Assign) -> bool:
    return any(isinstance(one.target, cst.Name) and one.target.value == "inputs" for one in node.targets)
