"""Operators in place of the run, proposed to be written out of place: at the user's lines, and where the user
makes a module with ``inplace=True``. Whether something else sees the change is for the comparison of the runs
to find.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.changes.out_of_place import modules_in_place, out_of_place
from fusiondoc.changes.source_file import dotted
from fusiondoc.fixes import Program, Proposal
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import is_in_place


def propose(program: Program) -> Iterator[Proposal]:
    """One proposal for each line of the user's, and one for each call that makes a module in place."""
    for site in program.sites:
        edits = out_of_place(site.file, site.line, site.row.op) if is_in_place(site.row.op) else ()
        if edits:
            title, ops = f"{site.row.op} out of place", frozenset([site.row.op])
            yield Proposal(ChangeKind.OUT_OF_PLACE, title, edits, (site.where,), ops=ops)
    ops = frozenset(row.op for row in program.rows if is_in_place(row.op))
    if ops:
        yield from constructors(program, ops)


def constructors(program: Program, ops: frozenset[str]) -> Iterator[Proposal]:
    """One for each call in the files of the run that makes a module with ``inplace=True``."""
    for file in program.files:
        for call, _, edit in modules_in_place(file):
            title, where = f"{dotted(call.func)}(inplace=False)", (file.where(call),)
            yield Proposal(ChangeKind.NOT_INPLACE, title, (edit,), where, ops=ops)
