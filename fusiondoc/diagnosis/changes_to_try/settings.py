"""Settings of torch written into the target's file, after its imports; another
fuser, which is no line of a file; and inputs with ``requires_grad`` that no
backward pass uses."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeGuard

from fusiondoc.changes import any_size
from fusiondoc.changes.change import Change
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import after_imports, lines_at, spelled
from fusiondoc.changes.source_file import ParsedFile, walk
from fusiondoc.diagnosis.advice import NEEDS_SHAPES
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.fuser_knobs.catalogue import knob_line
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.remedies import Setting


def propose(program: UserProgram, of_run: Iterable[Change]) -> Iterator[Change]:
    """Yield a change for each knob and fuser, and one for the inputs.

    Args:
        of_run: the settings of its run.
    """
    yield from written(program, of_run)
    file = program.target_file
    if file is None:
        return
    yield from static_shapes(program, file)
    if not program.backward:
        yield from without_gradients(file)


def written(program: UserProgram, of_run: Iterable[Change]) -> Iterator[Change]:
    """Yield the settings of its run: knobs as lines of the target's file, others as
    they are."""
    file = program.target_file
    for change in of_run:
        ops = frozenset(
            row.op for row in program.rows if row.reason.code in change.codes
        )
        if change.kind is ChangeKind.FUSER:
            yield _with_own_lines(program, change, ops)
        elif change.kind is ChangeKind.DYNAMIC_SHAPES:
            if not any(map(any_size.calls_compile, program.files)):
                yield replace(
                    change,
                    note="torch.compile(model, dynamic=True) in your own program",
                )
        elif file is not None:
            yield from _written(file, change.setting, ops, ChangeKind.KNOB)


def _with_own_lines(
    program: UserProgram, change: Change, ops: frozenset[str]
) -> Change:
    """Return the change with a note instead of a line of a file: the launcher
    chooses the fuser, or a context at each position does."""
    target = shlex.quote(program.target.text)
    note = (
        "a setting of the run, not in the diff; its lines for your own program:\n"
    )
    note += f"fusiondoc env --export {target} {change.title}"
    return replace(change, note=note, ops=ops)


def _written(
    file: ParsedFile, setting: Setting, ops: frozenset[str], kind: ChangeKind
) -> Iterator[Change]:
    """Yield the knobs of a setting as lines after the imports of a file."""
    if not setting.knobs:
        return
    torch, imports = spelled(file, "torch")
    lines = []
    for knob in setting.knobs.items():
        lines.append(torch + knob_line(*knob).removeprefix("torch"))
    edit = lines_at(file, after_imports(file), lines, "", rank=-8)
    where = (f"{file.source.path}:{file.line_at(edit.start)}",)
    note, edits = "for the whole process", (*imports, edit)
    yield Change(
        kind, lines[0], edits, setting=setting, where=where, note=note, ops=ops
    )


_STATIC = Setting(knobs={"fusion_strategy": "STATIC:20"})


def static_shapes(program: UserProgram, file: ParsedFile) -> Iterator[Change]:
    """Yield the change to one plan for each shape, if a group for any shape was
    refused or none was left."""
    rows = []
    for row in program.rows:
        if row.reason.code == "FD304" or row.reason.detail == NEEDS_SHAPES:
            rows.append(row)
    requested = program.options.knobs.get("fusion_strategy", "")
    if rows and "STATIC:20" not in requested:
        ops = frozenset(row.op for row in rows)
        yield from _written(file, _STATIC, ops, ChangeKind.STATIC_SHAPES)


def without_gradients(file: ParsedFile) -> Iterator[Change]:
    """Yield the change of ``requires_grad=True`` of the inputs, if nothing is
    differentiated."""
    edits: list[TextEdit] = []
    for statement in file.tree.body:
        if isinstance(statement, ast.Assign) and _names_inputs(statement):
            flags = []
            for given in walk(statement.value):
                if _asks_for_gradients(given):
                    flags.append(given.value)
            edits += [file.replaced(flag, "False") for flag in flags]
    if edits:
        note = "for inference only; where gradients are recorded elsewhere, run it under torch.no_grad()"
        yield Change(
            ChangeKind.NO_GRAD,
            "inputs that record no gradients",
            tuple(edits),
            note=note,
        )


def _names_inputs(node: ast.Assign) -> bool:
    return any(
        isinstance(target, ast.Name) and target.id == "inputs"
        for target in node.targets
    )


def _asks_for_gradients(node: ast.AST) -> TypeGuard[ast.keyword]:
    """True for ``requires_grad=True``."""
    if not isinstance(node, ast.keyword) or node.arg != "requires_grad":
        return False
    return isinstance(node.value, ast.Constant) and node.value.value is True
