"""Rewrites of a program that torch.compile compiles, as changes to try: at the
lines where it ended a graph, of operators that it leaves to eager code, and where
it compiled a function again for other sizes."""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.changes import any_size, branch_on_value
from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.changes_to_try import at_lines
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.diagnosis.of_fusers import compiled_rewrites
from fusiondoc.diagnosis.of_fusers.compiled_layouts import layout_lines
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.compiled import CompiledReport
from fusiondoc.model.source import Source


def propose(program: UserProgram) -> Iterator[Change]:
    """Yield changes of prints, reads of numbers and branches on values at graph
    breaks; other operators for calls of eager code; ``dynamic=True`` for each call
    of torch.compile."""
    compiled = program.report.compiled
    if compiled is None:
        return
    breaks = _lines_of_breaks(program, compiled)
    for change in _of_breaks(program):
        if breaks.intersection(change.where):
            yield change
    yield from _with_other_operators(program)
    yield from _with_other_layouts(program)
    if compiled.recompiles and not program.options.dynamic:
        yield from _any_size(program)


def _of_breaks(program: UserProgram) -> Iterator[Change]:
    yield from at_lines.prints(program)
    for file in program.files:
        yield from at_lines.numbers_read(program, file)
        for node, found in branch_on_value.without_branches(file):
            where = (file.where(node),)
            yield Change(
                ChangeKind.BRANCH,
                found.title,
                found.edits,
                where=where,
                note=found.note,
            )


def _lines_of_breaks(program: UserProgram, compiled: CompiledReport) -> set[str]:
    """Return ``file:line`` of each graph break in the user's files."""
    found = set()
    for row in compiled.breaks:
        source = Source.parse(row.user_source)
        file = program.file(source.file) if source is not None else None
        if source is not None and file is not None:
            found.add(f"{file.source.path}:{source.line}")
    return found


def _with_other_operators(program: UserProgram) -> Iterator[Change]:
    for site in program.sites:
        yield from compiled_rewrites.of_call(site.row, site.file, site.line)


def _with_other_layouts(program: UserProgram) -> Iterator[Change]:
    for one in layout_lines(program.report):
        source = Source.parse(one.source)
        file = program.file(source.file) if source is not None else None
        if source is not None and file is not None:
            yield from compiled_rewrites.of_layout(one.copies, file, source.line)


def _any_size(program: UserProgram) -> Iterator[Change]:
    for file in program.files:
        for call, edit in any_size.compiled_for_any_size(file):
            title = "torch.compile(..., dynamic=True)"
            yield Change(
                ChangeKind.DYNAMIC_SHAPES, title, (edit,), where=(file.where(call),)
            )
