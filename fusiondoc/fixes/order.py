"""Operators moved out of the middle: views, permutations and concatenations behind the operators that compute
each element of them, and statements that do something beside computing (a print) behind all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.changes.moved_views import MOVABLE, MOVED_ELEMENTS, moved_in_expression, moved_over_lines
from fusiondoc.changes.printed_later import prints_among
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import plain_name


def propose(program: Program) -> Iterator[Proposal]:
    """One for each line where such an operator is outside every group, and one for each such statement."""
    for site in (*program.sites, *program.idle_sites):
        name = plain_name(site.row.op)
        if name in MOVABLE:
            yield from _moved(site, ChangeKind.MOVE if name in MOVED_ELEMENTS else ChangeKind.MOVE_VIEW)
    yield from statements(program)


def _moved(site: Site, kind: ChangeKind) -> Iterator[Proposal]:
    file = site.file
    for found in moved_over_lines(file, site.line):
        texts = "; ".join(map(file.text, found.statements))
        title = " ".join(f"{texts} after what is computed of its elements".split())
        yield Proposal(kind, title, found.edits, tuple(map(file.where, found.statements)), fewer=True)
    for node in file.on_line(site.line):
        edits = moved_in_expression(file, node)
        if edits:
            title = " ".join(f"{file.text(node)}: {site.row.op} after it".split())
            yield Proposal(kind, title, edits, (site.where,), fewer=True)
            break


def statements(program: Program) -> Iterator[Proposal]:
    """A print, a warning or an assignment to an attribute among operators that ran goes to the end of its
    block. Tracing records none."""
    if program.options.trace:
        return
    for file in program.files:
        ran = [line for path, line in program.lines_that_ran if path == file.source.path]
        for found in prints_among(file, ran):
            title = f"{'; '.join(found.texts(file))} after what is computed"
            where = tuple(map(file.where, found.statements))
            yield Proposal(ChangeKind.SPLIT, title, found.edits, where)
