"""The rewrites of ``fusiondoc/changes`` at the lines of a run, as changes to try:
at each user's line that makes an operator outside groups, and those that search
whole files. The comparison of the runs shows whether a rewrite helps, and whether
other code sees the change."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes import (
    declared_constants,
    moved_views,
    out_of_place,
    printed_later,
    read_numbers,
)
from fusiondoc.changes.change import Change
from fusiondoc.changes.line_rewrites import UNITS, changes_at
from fusiondoc.changes.rewrite import Line, Rewrite, Shown
from fusiondoc.changes.source_file import ParsedFile, dotted
from fusiondoc.diagnosis.changes_to_try.user_program import UnfusedSite, UserProgram
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import is_in_place


def propose(program: UserProgram) -> Iterator[Change]:
    """Yield a change for each line and rewrite, and one for each class whose
    attributes are declared constant."""
    for site in program.sites:
        yield from _of_operator(program, site, UNITS)
    for site in program.idle_sites:
        yield from _of_operator(program, site, moved_views.REWRITES)
    yield from constants_of_classes(program)
    for file in program.files:
        yield from numbers_read(program, file)
    yield from modules_in_place(program)
    yield from prints(program)


def _of_operator(
    program: UserProgram, site: UnfusedSite, units: Sequence[Rewrite]
) -> Iterator[Change]:
    """Yield the rewrites of which the plan shows the first sure one, and those that
    only a run can judge."""
    likely = program.line_of(site)
    known = program.known_line_of(site) or likely
    for change in changes_at(known, units, likely):
        if not change.conditional:
            yield change


def constants_of_classes(program: UserProgram) -> Iterator[Change]:
    """Yield changes that declare constant the attributes that lines of a class
    read, all of a class together."""
    classes: dict[tuple[ParsedFile, ast.ClassDef], dict[str, UnfusedSite]] = {}
    for site in program.sites:
        line = program.line_of(site)
        if declared_constants.REWRITE.fits(line):
            for owner, name in declared_constants.attributes_at(line):
                classes.setdefault((site.file, owner), {}).setdefault(name, site)
    for (file, owner), names in classes.items():
        found = declared_constants.declared_constant(file, owner, list(names))
        lines = tuple(site.where for site in names.values())
        yield Change(ChangeKind.CONSTANT, found.title, found.edits, where=lines)


# -- in whole files ------------------------------------------------------------------------------------------


def numbers_read(program: UserProgram, file: ParsedFile) -> Iterator[Change]:
    """Yield changes of numbers that are read from tensors in functions that ran."""
    for node in read_numbers.numbers_read(file):
        if program.ran(file, node):
            found = read_numbers.tensor_instead(file, node, program.backward)
            where = (file.where(node),)
            yield Change(
                ChangeKind.NUMBER,
                found.title,
                found.edits,
                where=where,
                note=found.note,
            )


def modules_in_place(program: UserProgram) -> Iterator[Change]:
    """Yield a change for each call that makes a module with ``inplace=True``, if
    in-place operators ran."""
    ops = frozenset(row.op for row in program.rows if is_in_place(row.op))
    for file in program.files if ops else ():
        for call, _, edit in out_of_place.modules_in_place(file):
            title, where = (
                f"{dotted(call.func)}(inplace=False)",
                (file.where(call),),
            )
            yield Change(
                ChangeKind.NOT_INPLACE, title, (edit,), where=where, ops=ops
            )


def prints(program: UserProgram) -> Iterator[Change]:
    """Yield changes that move a print, a warning or an assignment to an
    attribute among operators that ran to the end of its block. Tracing records
    none of them."""
    if program.options.trace:
        return
    for file in program.files:
        line = Line(
            file, 1, shown=Shown(lines_that_ran=program.lines_of_file(file))
        )
        for found in printed_later.REWRITE.write(line):
            where = tuple(f"{file.source.path}:{number}" for number in found.lines)
            yield Change(ChangeKind.SPLIT, found.title, found.edits, where=where)
