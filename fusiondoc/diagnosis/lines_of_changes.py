"""The user's lines that a change of an operator edits, if the program's files are
available: the edits that ``fix`` would write. For a line that is not the user's:
where else the change is made.

Nothing is run or imported, and the changed file is parsed again. The general form
of a change is never shown as if it were the line: for a line that looks different
it would be misleading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from shlex import quote

from fusiondoc.changes import final_attributes, read_numbers
from fusiondoc.changes.change import Change
from fusiondoc.changes.line_edits import line_edits, shown_lines, together
from fusiondoc.changes.line_rewrites import UNITS, changes_at
from fusiondoc.changes.out_of_place import functions_in_place, modules_in_place
from fusiondoc.changes.recipes import ALL_DIMENSIONS
from fusiondoc.changes.rewrite import Line, Shown
from fusiondoc.changes.source_file import ParsedFile, parsed_text
from fusiondoc.diagnosis.recipes_of_rows import recipe_of, recipes_of, takes_numbers
from fusiondoc.diagnosis.rules import Owner, RunFacts, in_torch
from fusiondoc.diagnosis.shown_operators import ShownOperators, column_of
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source, from_package
from fusiondoc.operators import CALLED_BY, IN_PLACE_ASSIGNS, plain_name, sign_of

IN_A_PACKAGE = (
    "the line is in a package: change a copy of its module, or override its forward"
)

PART_CHANGED = "Join the parts with torch.cat instead of changing slices in place"

ALL_OUT_OF_PLACE = """\
# or from outside, before torch.jit.script: a scripted module refuses it
for module in model.modules():
    if hasattr(module, "inplace"):
        module.inplace = False"""
"""For modules that a package makes. Set on a scripted module it raises
RuntimeError, "Can't set constant" (torch 2.13)."""


class ChangeLines:
    """Finds the lines of changes of a report's operators."""

    def __init__(self, report: Report, run: RunFacts) -> None:
        self._report = report
        self._run = run
        self._operators = ShownOperators(report)
        self._files = _files(report)

    def of(self, one: Change, row: Unfused) -> Change | None:
        """Return the change with the lines that it edits; None if no rewrite of
        these lines is known."""
        if not one.kind.in_source:
            return one
        made = self._at_its_line(one, row)
        if made is None:
            return None
        if made.kind is ChangeKind.NOT_INPLACE and not made.lines:
            made = self._where_modules_are_made(made, row.op)
        if made.lines:
            return made
        return self._outside_project(_in_general(made, row), row)

    def _outside_project(self, one: Change, row: Unfused) -> Change:
        """Add the option that shows the lines, if the file belongs to another
        project."""
        texts = self._report.texts
        source = Source.parse(next(iter(row.users_lines), None))
        if texts is None or source is None or not texts.is_elsewhere(source.file):
            return one
        folder = PurePath(source.file).parent
        return replace(
            one,
            note=joined_notes(
                one.note, f"--source-root {quote(str(folder))} shows its lines"
            ),
        )

    def _at_its_line(self, one: Change, row: Unfused) -> Change | None:
        """Return the change at the user's line that calls the operator; if several
        lines do, at each of them."""
        owner = self._run.owner(row)
        sources = []
        for source in map(Source.parse, row.users_lines):
            if source is not None:
                sources.append(source)
        if not sources or owner is Owner.PACKAGE:
            return _elsewhere(one, row, owner, self._run)
        made = []
        for source in sources:
            written = self._at_line(one, row, source)
            if written is None:
                return None
            made.append(written)
        if len(made) == 1:
            return made[0]
        return _at_all_lines(made)

    def _at_line(self, one: Change, row: Unfused, source: Source) -> Change | None:
        text = self._text(source.file)
        file = parsed_text(text, source.file) if text is not None else None
        if file is not None:
            line = Line(
                file, source.line, column_of(row, source.line), self.shown(row)
            )
            written = _written(one, row, line, source.file, self._run)
            if (
                written is not None
                and not written.lines
                and self._is_of_torch(one, row)
            ):
                return None
            if written is None:
                return None
            one = written
        return replace(one, where=(_first_line(one) or source.at_line,))

    def _is_of_torch(self, one: Change, row: Unfused) -> bool:
        """True if a function of torch calls it, and no module that could be
        replaced: the user's line shows another name, ``F.normalize(x)`` for
        aten::clamp_min."""
        if one.kind not in _BY_RECIPE or not in_torch(row.source):
            return False
        return all(recipe.module is None for recipe in recipes_of(row, self._run))

    def shown(self, row: Unfused) -> Shown:
        """Return the facts that the run shows about an operator."""
        return self._operators.known(row, self._run)

    def _where_modules_are_made(self, one: Change, op: str) -> Change:
        """Return the change at the lines where the user makes the modules: the
        operators of torch.nn modules are called in torch's own files."""
        edits: list[Edit] = []
        for name in self._files:
            text = self._text(name)
            file = parsed_text(text, name) if text is not None else None
            if file is not None:
                edits += lines_of_modules(file, name, op)
        if not edits:
            return one
        where = f"{edits[0].file}:{edits[0].line}"
        return replace(
            one, lines=tuple(edits), where=(where,), note=None, python=None
        )

    def _text(self, file: str) -> str | None:
        if self._report.texts is None:
            return None
        return self._report.texts.source(file)


def _at_all_lines(made: Sequence[Change]) -> Change:
    """Return one change for several of the user's lines; it is sure if it is sure
    at each line, and not if only some of the lines could be written."""
    shown = next((one for one in made if one.lines), made[0])
    return replace(
        shown,
        sure=all(one.sure and bool(one.lines) == bool(shown.lines) for one in made),
        conditional=any(one.conditional for one in made),
        joins=all(one.joins for one in made),
        lines=together(line for one in made for line in one.lines),
        where=tuple(dict.fromkeys(where for one in made for where in one.where)),
    )


def _in_general(one: Change, row: Unfused) -> Change:
    """Return a change whose lines are not known, without text that would look like
    them."""
    if one.kind is ChangeKind.OUT_OF_PLACE and row.op not in IN_PLACE_ASSIGNS:
        name = row.op.rpartition("::")[2]
        one = replace(one, title=f"Write {name[:-1]}() instead of {name}()")
    if one.kind in _BY_RECIPE and one.before and one.after:
        one = replace(
            one,
            note=joined_notes(
                f"in general {one.after} instead of {one.before}", one.note
            ),
        )
    return replace(one, before=None, after=None)


def _first_line(one: Change) -> str | None:
    """Return ``file:line`` of the first line that changes."""
    if one.lines:
        return f"{one.lines[0].file}:{one.lines[0].line}"
    return None


# -- a change written at its line ----------------------------------------------------------------------------


def lines_written(kind: ChangeKind, line: Line, name: str) -> Change | None:
    """Return the first rewrite of a kind at a line that is sure to do no harm, with
    the whole lines that it changes.

    Args:
        name: of the file, in the report.
    """
    units = []
    for unit in (*UNITS, read_numbers.REWRITE, final_attributes.REWRITE):
        if unit.kind is kind:
            units.append(unit)
    for made in changes_at(line, units):
        if made.sure:
            lines = line_edits(line.file, name, made.edits, line.number)
        else:
            lines = ()
        if lines:
            return replace(made, lines=lines)
    return None


def lines_of_modules(file: ParsedFile, name: str, op: str) -> tuple[Edit, ...]:
    """Return the edits that add ``inplace=False`` to every line of the file that
    makes a module which calls the operator in place, or calls the function of
    torch.nn.functional in place: in a log both show the same line of torch."""
    kinds = CALLED_BY.get(plain_name(op), ())
    edits = [edit for _, kind, edit in modules_in_place(file) if kind in kinds]
    return line_edits(file, name, [*edits, *functions_in_place(file, op)])


_IN_PLACE = (ChangeKind.OUT_OF_PLACE, ChangeKind.NOT_INPLACE)


_SHOWN_WITH_LINES = (*_IN_PLACE, ChangeKind.MOVE, ChangeKind.MOVE_VIEW)
"""Kinds that are of no use without the lines."""
_BY_RECIPE = (ChangeKind.RECIPE, ChangeKind.DIMENSIONS)


def _written(
    one: Change, row: Unfused, line: Line, name: str, run: RunFacts
) -> Change | None:
    """Return the change with its lines and words that fit them; None if it cannot
    be made there."""
    found = first_written(one.kind, line, name)
    if found is None:
        if one.kind in _IN_PLACE:
            lines = lines_of_modules(line.file, name, row.op)
        else:
            lines = ()
        if lines:
            return replace(one, lines=lines)
        return _without_lines(one, line)
    one = replace(one, edits=found.edits, lines=found.lines, joins=found.joins)
    if one.joins:
        one = replace(one, title=PART_CHANGED)
    if row.op in IN_PLACE_ASSIGNS:
        return replace(one, note=found.note)
    if one.kind is ChangeKind.NUMBER:
        return replace(one, title=f"Write {found.after} instead of {found.before}")
    if one.kind in (ChangeKind.MOVE, ChangeKind.MOVE_VIEW):
        return _with_lines_shown(one, line.file)
    if one.kind is ChangeKind.OUT_OF_PLACE and not one.joins:
        return _named_as_called(one, row.op)
    if one.kind is ChangeKind.RECIPE and any(
        recipe.numbers_too for recipe in line.shown.recipes
    ):
        if takes_numbers(run):
            note = None
        else:
            note = "for tensors of a floating-point type"
        return replace(one, note=note, conditional=False)
    return one


def first_written(kind: ChangeKind, line: Line, name: str) -> Change | None:
    """Return the first rewrite of a kind at a line."""
    if kind in _IN_PLACE:
        return lines_written(ChangeKind.OUT_OF_PLACE, line, name)
    found = lines_written(kind, line, name)
    if found is None and line.shown.op == "aten::to":
        return lines_written(
            ChangeKind.DTYPE, line, name
        )  # this recipe is for a cast in a product
    return found


def _without_lines(one: Change, line: Line) -> Change | None:
    """Return the change for a line that no rewrite fits: another way to write the
    operator is worth a try; one that lists all dimensions lacks only their number,
    and is kept as it is."""
    if one.kind in _SHOWN_WITH_LINES:
        return None
    shown = line.shown
    if shown.rank is None and any(
        ALL_DIMENSIONS in recipe.after for recipe in shown.recipes
    ):
        return one
    if one.kind in _BY_RECIPE:
        return replace(one, sure=False, before=None, after=None)
    return one


def _with_lines_shown(one: Change, file: ParsedFile) -> Change:
    """Return a change that moves lines, showing all lines from the first to the
    last that changes."""
    numbers = [edit.line for edit in one.lines]
    before, after = shown_lines(file, one.lines, min(numbers), max(numbers))
    return replace(one, before=before, after=after, conditional=False, note=None)


def _named_as_called(one: Change, op: str) -> Change:
    """Name the method in the title if the line calls a method instead of using a
    sign."""
    sign, name = sign_of(op), op.rpartition("::")[2]
    if sign is None or f"{sign}=" in one.lines[0].before:
        return one
    return replace(one, title=f"Write {name[:-1]}() instead of {name}()")


# -- a line that is not the user's ---------------------------------------------------------------------------


def _elsewhere(one: Change, row: Unfused, owner: Owner, run: RunFacts) -> Change:
    """Return the change for a line that is in a package, or not known."""
    source = Source.parse(next(iter(row.users_lines), None)) or Source.parse(
        row.source
    )
    if source is None or not source.has_file:
        return one
    line = from_package(source.at_line)
    if owner is Owner.PACKAGE:
        return replace(
            one, where=(line,), note=joined_notes(one.note, IN_A_PACKAGE)
        )
    if owner is not Owner.TORCH:
        return replace(one, where=(line,))
    if one.kind is ChangeKind.NOT_INPLACE:
        return replace(
            one, note="where the module is made", python=ALL_OUT_OF_PLACE
        )
    recipe = recipe_of(row, run)
    how = f"it is called in {line}"
    if recipe is not None and recipe.module is not None:
        name = row.op.rpartition("::")[2].rstrip("_")
        how = f"{recipe.module} calls it: fusiondoc explain {name} has the lines that replace it from outside"
    return replace(one, note=joined_notes(one.note, how))


def joined_notes(*notes: str | None) -> str:
    """Join notes, without those that are empty."""
    return "; ".join(note for note in notes if note)


def _files(report: Report) -> Sequence[str]:
    """Return the user's files that the report names, else the target's file."""
    nodes = []
    for group in report.groups:
        for node in group.nodes:
            nodes.append(node.user_source)
    sources = map(
        Source.parse,
        [*(line for row in report.unfused for line in row.users_lines), *nodes],
    )
    named = []
    for source in sources:
        if source is not None and source.has_file and not in_torch(source.file):
            named.append(source.file)
    if named:
        return tuple(dict.fromkeys(named))
    file, suffix, _ = (report.target.name or "").partition(".py:")
    return (f"{file}.py" if suffix else file,)
