"""The user's lines that a change of an operator alters, where the files of the program are at hand; of a line
that is not the user's, where else the change is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.lines_of_changes import (
    lines_by_recipe,
    lines_moved,
    lines_of_kept_tensor,
    lines_of_modules,
    lines_out_of_place,
    ranks_of,
)
from fusiondoc.diagnosis.recipes_of_rows import recipe_of, takes_numbers
from fusiondoc.diagnosis.rules import Owner, RunFacts, in_torch
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source, from_package
from fusiondoc.operators import sign_of

IN_A_PACKAGE = "the line is in a package: change a copy of its module, or override its forward"

ALL_OUT_OF_PLACE = """\
# or from outside, before torch.jit.script: a scripted module refuses it
for module in model.modules():
    if hasattr(module, "inplace"):
        module.inplace = False"""
"""For modules that a package makes. Set on a scripted module it is a RuntimeError, "Can't set constant"
(torch 2.13)."""


@dataclass(frozen=True)
class _Line:
    """The user's line that makes an operator."""

    row: Unfused
    run: RunFacts
    text: str
    """Of the whole file."""
    file: str
    number: int
    rank: int | None
    """Dimensions of the operator's first input, where they are known."""


class Lines:
    """Finds the lines of changes of a report's operators."""

    def __init__(self, report: Report, run: RunFacts) -> None:
        self._report = report
        self._run = run
        self._ranks = ranks_of(report.programs)
        self._files = _files(report)

    def of(self, one: Change, row: Unfused) -> Change:
        """The change with the lines that it alters."""
        if not one.kind.in_source:
            return one
        made = self._at_its_line(one, row)
        if made.kind is ChangeKind.NOT_INPLACE and not made.lines:
            return self._where_modules_are_made(made, row.op)
        return made

    def _at_its_line(self, one: Change, row: Unfused) -> Change:
        owner = self._run.owner(row)
        source = Source.parse(row.user_source)
        if source is None or owner is Owner.PACKAGE:
            return _elsewhere(one, row, owner, self._run)
        text = self._text(source.file)
        writer = _WRITERS.get(one.kind)
        if text is not None and writer is not None:
            rank = self._ranks.get(row.index)
            one = writer(one, _Line(row, self._run, text, source.file, source.line, rank))
        return replace(one, where=(_first_line(one) or source.at_line,))

    def _where_modules_are_made(self, one: Change, op: str) -> Change:
        """Modules of torch.nn are called in torch's files; what is changed is where the user makes them."""
        edits: list[Edit] = []
        for file in self._files:
            text = self._text(file)
            if text is not None:
                edits += lines_of_modules(text, file, op)
        if not edits:
            return one
        where = f"{edits[0].file}:{edits[0].line}"
        return replace(one, lines=tuple(edits), where=(where,), note=None, python=None)

    def _text(self, file: str) -> str | None:
        return self._report.texts.source(file) if self._report.texts is not None else None


def _first_line(one: Change) -> str | None:
    """``file:line`` of the first line that changes."""
    return f"{one.lines[0].file}:{one.lines[0].line}" if one.lines else None


# -- a change written at its line ----------------------------------------------------------------------------


def _keep_tensor(one: Change, line: _Line) -> Change:
    detached = line.run.gradients is not False
    kept = lines_of_kept_tensor(line.text, line.file, line.number, detached)
    if kept is None:
        return one
    return replace(one, title=f"Write {kept.after} instead of {kept.before}", lines=kept.edits)


def _move(one: Change, line: _Line) -> Change:
    moved = lines_moved(line.text, line.file, line.number)
    if moved is None:
        return one
    return replace(
        one, before=moved.before, after=moved.after, lines=moved.edits, conditional=False, note=None
    )


def _write_out_of_place(one: Change, line: _Line) -> Change:
    op = line.row.op
    edits = lines_out_of_place(line.text, line.file, line.number, op)
    sign = sign_of(op)
    is_called = sign is not None and bool(edits) and f"{sign}=" not in edits[0].before
    if is_called and one.kind is ChangeKind.OUT_OF_PLACE:
        name = op.rpartition("::")[2]
        one = replace(one, title=f"Write x = x.{name[:-1]}(y) instead of x.{name}(y)")
    return replace(one, lines=edits)


def _write_by_recipe(one: Change, line: _Line) -> Change:
    run, row = line.run, line.row
    recipe = recipe_of(row, run) if run.fuser is not None else None
    if recipe is None:
        return one
    module = row.layers[0].rpartition(".")[2] if row.layers else None
    numbers = takes_numbers(run)
    edits = lines_by_recipe(
        line.text, line.file, line.number, recipe, line.rank, module, as_tensor=not numbers
    )
    if recipe.numbers_too and edits:
        note = None if numbers else "for tensors of a floating-point type"
        one = replace(one, note=note, conditional=False)
    return replace(one, lines=edits)


_WRITERS: Mapping[ChangeKind, Callable[[Change, _Line], Change]] = {
    ChangeKind.NUMBER: _keep_tensor,
    ChangeKind.MOVE: _move,
    ChangeKind.MOVE_VIEW: _move,
    ChangeKind.OUT_OF_PLACE: _write_out_of_place,
    ChangeKind.NOT_INPLACE: _write_out_of_place,
    ChangeKind.RECIPE: _write_by_recipe,
    ChangeKind.DIMENSIONS: _write_by_recipe,
}


# -- a line that is not the user's ---------------------------------------------------------------------------


def _elsewhere(one: Change, row: Unfused, owner: Owner, run: RunFacts) -> Change:
    """The line is of a package, or not known."""
    source = Source.parse(row.user_source) or Source.parse(row.source)
    if source is None or not source.has_file:
        return one
    line = from_package(source.at_line)
    if owner is Owner.PACKAGE:
        return replace(one, where=(line,), note=joined_notes(one.note, IN_A_PACKAGE))
    if owner is not Owner.TORCH:
        return replace(one, where=(line,))
    if one.kind is ChangeKind.NOT_INPLACE:
        return replace(one, note="where the module is made", python=ALL_OUT_OF_PLACE)
    recipe = recipe_of(row, run)
    how = f"it is called in {line}"
    if recipe is not None and recipe.module is not None:
        name = row.op.rpartition("::")[2].rstrip("_")
        how = f"{recipe.module} calls it: fusiondoc explain {name} has the lines that replace it from outside"
    return replace(one, note=joined_notes(one.note, how))


def joined_notes(*notes: str | None) -> str:
    """Notes as one, without those that are empty."""
    return "; ".join(note for note in notes if note)


def _files(report: Report) -> Sequence[str]:
    """The files of the user's that the report names, else its target's."""
    nodes = [node.user_source for group in report.groups for node in group.nodes]
    sources = map(Source.parse, [*(row.user_source for row in report.unfused), *nodes])
    named = [
        source.file
        for source in sources
        if source is not None and source.has_file and not in_torch(source.file)
    ]
    if named:
        return tuple(dict.fromkeys(named))
    file, suffix, _ = (report.target.name or "").partition(".py:")
    return (f"{file}.py" if suffix else file,)
