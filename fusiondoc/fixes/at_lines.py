"""The rewrites of ``fusiondoc/changes`` at the lines of a run, as changes: at each line of the user's that
makes an operator outside groups, and what is looked for in whole files. Whether a rewrite helps, and whether
something else sees the change, is for the comparison of the runs to find.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from fusiondoc.changes import (
    cast_operands,
    declared_constants,
    default_arguments,
    literal_numbers,
    moved_views,
    optional_types,
    out_of_place,
    read_numbers,
    type_as,
)
from fusiondoc.changes.change import Change
from fusiondoc.changes.optional_types import branch_if_given, tests_for_none
from fusiondoc.changes.printed_later import prints_among
from fusiondoc.changes.rewrite import Rewrite, Rewritten
from fusiondoc.changes.source_file import ParsedFile, dotted
from fusiondoc.fixes import Program, Site
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import ControlFlow
from fusiondoc.model.reasons.lacking_constants import lacks_constant
from fusiondoc.operators import is_in_place, plain_name

_DTYPE_CODES = frozenset(["FD202", "FD203", "FD215", "FD223"])
"""Reasons that are of the dtype of an operand."""


def propose(program: Program) -> Iterator[Change]:
    """One change for each line and rewrite, one for each class whose attributes are declared constant."""
    for site in program.sites:
        yield from _at(program, site)
    yield from constants_of_classes(program)
    for site in (*program.sites, *program.idle_sites):
        yield from moved(program, site)
    for file in program.files:
        yield from numbers_read(program, file)
    yield from modules_in_place(program)
    yield from prints(program)


def _at(program: Program, site: Site) -> Iterator[Change]:
    """What is written otherwise at the line of an operator outside groups."""
    line = program.line_of(site)
    ops = frozenset([site.row.op])
    for rewrite in _rewrites_of(site):
        for found in rewrite.write(line):
            yield change_at(rewrite.kind, site, found, ops)
    if _tests_for_none(site):
        given = all(_ran_if_given(program, site.file, test) for test in tests_for_none(line))
        for found in optional_types.write(replace(line, given=given)):
            yield change_at(ChangeKind.ANNOTATION, site, found, frozenset(["prim::If"]))
    elif _needs_constant(site):
        for found in default_arguments.write(line):
            yield change_at(ChangeKind.CONSTANT, site, found)


def _rewrites_of(site: Site) -> Iterator[Rewrite]:
    """The rewrites that an operator can have, by its kind and its reason."""
    op = site.row.op
    if is_in_place(op):
        yield out_of_place.REWRITE
    if site.row.reason.code in _DTYPE_CODES:
        yield cast_operands.REWRITE
    if op == "aten::to":
        yield type_as.REWRITE
    if op in ("aten::tensor", "aten::scalar_tensor"):
        yield literal_numbers.REWRITE


def change_at(kind: ChangeKind, site: Site, found: Rewritten, ops: frozenset[str] = frozenset()) -> Change:
    """A rewrite at the line of an operator, to be tried."""
    lines = tuple(f"{site.file.source.path}:{line}" for line in found.lines) or (site.where,)
    return Change(kind, found.title, found.edits, where=lines, note=found.note, ops=ops)


def moved(program: Program, site: Site) -> Iterator[Change]:
    """Views, permutations and concatenations behind what computes each element of them."""
    name = plain_name(site.row.op)
    if name in moved_views.MOVABLE:
        kind = ChangeKind.MOVE if name in moved_views.MOVED_ELEMENTS else ChangeKind.MOVE_VIEW
        for found in moved_views.write(program.line_of(site)):
            yield change_at(kind, site, found)


# -- what a fuser has to know when it compiles ---------------------------------------------------------------


def _needs_constant(site: Site) -> bool:
    return lacks_constant(site.row.reason.detail) or site.row.op.startswith("prim::")


def _tests_for_none(site: Site) -> bool:
    detail = site.row.reason.detail
    return isinstance(detail, ControlFlow) and detail.condition.on == "test_for_none"


def _ran_if_given(program: Program, file: ParsedFile, test: ast.Compare) -> bool:
    """Whether operators of the branch for what is not None are in groups, or ran; so too where it has no
    lines of its own."""
    lines = branch_if_given(file, test)
    return lines is None or any(
        path == file.source.path and line in lines for path, line in program.lines_that_ran
    )


def constants_of_classes(program: Program) -> Iterator[Change]:
    """The attributes that lines of a class read, declared constant together."""
    classes: dict[tuple[ParsedFile, ast.ClassDef], dict[str, Site]] = {}
    for site in program.sites:
        if _needs_constant(site) and not _tests_for_none(site):
            for owner, name in declared_constants.attributes_at(program.line_of(site)):
                classes.setdefault((site.file, owner), {}).setdefault(name, site)
    for (file, owner), names in classes.items():
        found = declared_constants.declared_constant(file, owner, list(names))
        lines = tuple(site.where for site in names.values())
        yield Change(ChangeKind.CONSTANT, found.title, found.edits, where=lines)


# -- in whole files ------------------------------------------------------------------------------------------


def numbers_read(program: Program, file: ParsedFile) -> Iterator[Change]:
    """Numbers that are read from tensors in functions that ran."""
    for node in read_numbers.numbers_read(file):
        if program.ran(file, node):
            found = read_numbers.without_reading(file, node)
            where = (file.where(node),)
            yield Change(ChangeKind.NUMBER, found.title, found.edits, where=where, note=found.note)


def modules_in_place(program: Program) -> Iterator[Change]:
    """Each call that makes a module with ``inplace=True``, where operators in place ran."""
    ops = frozenset(row.op for row in program.rows if is_in_place(row.op))
    for file in program.files if ops else ():
        for call, _, edit in out_of_place.modules_in_place(file):
            title, where = f"{dotted(call.func)}(inplace=False)", (file.where(call),)
            yield Change(ChangeKind.NOT_INPLACE, title, (edit,), where=where, ops=ops)


def prints(program: Program) -> Iterator[Change]:
    """A print, a warning or an assignment to an attribute among operators that ran goes to the end of its
    block. Tracing records none."""
    if program.options.trace:
        return
    for file in program.files:
        ran = [line for path, line in program.lines_that_ran if path == file.source.path]
        for found in prints_among(file, ran):
            title = f"{'; '.join(found.texts(file))} after what is computed"
            where = tuple(map(file.where, found.statements))
            yield Change(ChangeKind.SPLIT, title, found.edits, where=where)
