"""All calls of a line that a rewrite fits, written together: a report has them in
one row, and a promise counts all of them. Of a call inside another one, the outer is
written with what the inner one becomes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fusiondoc.changes.edits import Edit, is_within
from fusiondoc.changes.rewrite import Line, Rewritten


def in_all_calls(
    write: Callable[[Line, ast.AST], Iterable[Rewritten]], line: Line
) -> Iterator[Rewritten]:
    """The rewrites of the calls of a line as one, those that are sure and the
    others.

    Args:
        write: what a rewrite makes of one node of the line.
    """
    for sure in (True, False):
        outer: list[Rewritten] = []
        edits: list[Edit] = []
        for node in line.file.inner_first(line.number):
            inside = replace(line, file=line.file.with_edits(edits))
            for one in write(inside, node):
                if one.sure is sure:
                    outer = [
                        *(each for each in outer if not _holds(one, each.edits)),
                        one,
                    ]
                    edits = [
                        *(each for each in edits if not _holds(one, [each])),
                        *one.edits,
                    ]
        if outer:
            title = "; ".join(dict.fromkeys(one.title for one in outer))
            yield replace(outer[0], title=title, edits=tuple(dict.fromkeys(edits)))


def _holds(outer: Rewritten, edits: Iterable[Edit]) -> bool:
    """Whether a rewrite replaces text that one of the edits changes."""
    return any(
        one != edit and is_within(edit, one.start, one.end)
        for one in outer.edits
        for edit in edits
    )
