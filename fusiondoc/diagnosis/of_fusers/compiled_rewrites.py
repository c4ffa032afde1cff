"""Rewrites of lines that torch.compile compiles: ``fix`` tries them and the plan
shows them.

Whether a change helps, a run of the changed program shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.changes.by_composition import by_composition
from fusiondoc.changes.change import Change
from fusiondoc.changes.layouts import with_copies, without_copies
from fusiondoc.changes.rewrite import Rewritten
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.fusers.inductor.compositions import compositions_of
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.compiled import FALLBACKS
from fusiondoc.model.report import Unfused


def of_call(row: Unfused, file: ParsedFile, line: int) -> Iterator[Change]:
    """Yield rewrites of an operator that the compiler leaves to eager code, with
    operators that it compiles."""
    if row.reason.code in FALLBACKS:
        for found in by_composition(file, line, compositions_of(row.op)):
            yield _change(ChangeKind.COMPOSITION, found, file, line, row.op)


def of_layout(copies: bool, file: ParsedFile, line: int) -> Iterator[Change]:
    """Yield rewrites of a line: without its copy to another layout, or with a copy
    of its view."""
    for found in (without_copies if copies else with_copies)(file, line):
        yield _change(ChangeKind.LAYOUT, found, file, line)


def _change(
    kind: ChangeKind, found: Rewritten, file: ParsedFile, line: int, *ops: str
) -> Change:
    return Change(
        kind,
        found.title,
        found.edits,
        where=(f"{file.source.path}:{line}",),
        ops=frozenset(ops),
        note=found.note,
        before=found.before,
        after=found.after,
        sure=False,
    )
