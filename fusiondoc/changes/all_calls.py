"""Rewrite all calls of a line that fit, as one rewrite: a report has them in one
row, and a promise counts all of them. If a call is nested in another, the outer one
is written with the rewritten inner one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fusiondoc.changes.edits import TextEdit, is_within
from fusiondoc.changes.rewrite import Line, Rewritten


def in_all_calls(
    write: Callable[[Line, ast.AST], Iterable[Rewritten]], line: Line
) -> Iterator[Rewritten]:
    """Yield the rewrites of all calls of a line as one, first those that are sure,
    then the others.

    Args:
        write: yields the rewrites of one node of the line.
    """
    for sure in (True, False):
        outer: list[Rewritten] = []
        edits: list[TextEdit] = []
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


def _holds(outer: Rewritten, edits: Iterable[TextEdit]) -> bool:
    """Whether a rewrite replaces text that one of the edits changes."""
    for one in outer.edits:
        for edit in edits:
            if one != edit and is_within(edit, one.start, one.end):
                return True
    return False
