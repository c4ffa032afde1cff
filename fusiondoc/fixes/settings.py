"""Settings of torch that a finding suggests, as lines after the imports of the target's file; another fuser;
and inputs that ask for gradients which no backward pass uses."""

from __future__ import annotations

import contextlib
import shlex
from typing import Iterator, Mapping

from fusiondoc.diagnosis.advice import NEEDS_SHAPES
from fusiondoc.diagnosis.changes_for_findings import suggested
from fusiondoc.fixes.edits import Edit, Proposal
from fusiondoc.fixes.fixable import Program
from fusiondoc.fixes.syntax import ParsedFile, walk
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.runner.variables import knob_lines

with contextlib.suppress(ImportError):
    import libcst as cst


def propose(program: Program) -> Iterator[Proposal]:
    """One for each knob and fuser, and one for the inputs."""
    file = program.target_file
    for change in suggested(program.report, program.options, program.target.kind):
        ops = frozenset(row.op for row in program.rows if row.reason.code in change.codes)
        if change.fuser is not None:
            yield _another_fuser(program, change.fuser, ops)
        elif file is not None:
            yield from _setting(program, file, change.knobs, ops, ChangeKind.KNOB)
    if file is None:
        return
    yield from _static_shapes(program, file)
    if not program.backward:
        yield from _without_grad(program)


def _another_fuser(program: Program, fuser: str, ops: frozenset[str]) -> Proposal:
    """No line of a file: which fuser runs is for the launcher to say, or for each place with a context."""
    target = shlex.quote(program.target.text)
    note = "a setting of the run, not in the diff; its lines for your own program:\n"
    note += f"fusiondoc env --export {target} --fuser {fuser}"
    return Proposal(ChangeKind.FUSER, f"--fuser {fuser}", (), (), note, fuser=fuser, ops=ops, fewer=True)


def _setting(
    program: Program, file: ParsedFile, knobs: Mapping[str, str], ops: frozenset[str], kind: ChangeKind
) -> Iterator[Proposal]:
    lines = knob_lines(knobs)
    if not lines or any(line.startswith("#") for line in lines):
        return
    name, imports = file.spelled("torch")
    lines = [
        line.replace("torch._C._jit_set_fusion_strategy", "torch.jit.set_fusion_strategy") for line in lines
    ]
    written = [f"{name}{line[len('torch') :]}" if line.startswith("torch.") else line for line in lines]
    edit = file.lines_at(file.after_imports, written, "", rank=-8)
    where = (f"{file.source.path}:{file.source.text.count(chr(10), 0, edit.start) + 1}",)
    note, edits = "for the whole process", (*imports, edit)
    yield Proposal(kind, written[0], edits, where, note, knobs=knobs, ops=ops, fewer=True)


def _static_shapes(program: Program, file: ParsedFile) -> Iterator[Proposal]:
    """Plans for the shapes that come, one each, where a group for any shape was refused or none was left."""
    rows = [row for row in program.rows if row.reason.code == "FD304" or row.reason.text in NEEDS_SHAPES]
    asked = program.options.knobs.get("fusion_strategy", "")
    if rows and "STATIC:20" not in asked:
        ops = frozenset(row.op for row in rows)
        yield from _setting(program, file, {"fusion_strategy": "STATIC:20"}, ops, ChangeKind.STATIC_SHAPES)


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
