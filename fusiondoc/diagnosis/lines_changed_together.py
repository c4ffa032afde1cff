"""Changes of different operators that meet at one line, as one change: ``torch.maximum(torch.minimum(x, y),
z)`` is written once with both operators replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.changes.rewrite import Line
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.lines_of_changes import Lines, first_written, joined_notes
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.operators import IN_PLACE_ASSIGNS

_REWRITTEN = (ChangeKind.OUT_OF_PLACE, ChangeKind.RECIPE, ChangeKind.DIMENSIONS)
"""Kinds of changes that replace an expression at its own line."""


class LinesChangedTogether:
    """Joins changes that replace parts of the same lines."""

    def __init__(self, report: Report, lines: Lines) -> None:
        self._report = report
        self._lines = lines

    def joined(self, found: Sequence[Change]) -> list[Change]:
        """The changes, with those that meet at a line as one; where the line cannot be written with both,
        they stay apart."""
        result: list[Change] = []
        for one in found:
            for at, other in enumerate(result):
                both = self._both(other, one)
                if both is not None:
                    result[at] = both
                    break
            else:
                result.append(one)
        return result

    def _both(self, one: Change, other: Change) -> Change | None:
        if one.sure != other.sure or one.kind not in _REWRITTEN or other.kind not in _REWRITTEN:
            return None
        of_other = {(edit.file, edit.line): edit for edit in other.lines}
        written = {(edit.file, edit.line): edit for edit in one.lines}
        meeting = [where for where, edit in written.items() if of_other.get(where, edit) != edit]
        if not meeting:
            return None
        for where in meeting:
            edit = self._written_twice(where, one, other)
            if edit is None:
                return None
            written[where] = edit
        return self._of_both(one, other, tuple({**of_other, **written}.values()))

    def _written_twice(self, where: tuple[str, int], one: Change, other: Change) -> Edit | None:
        """A line with the rewrites of both changes; None where one of them no longer fits, or changes other
        lines too."""
        name, line = where
        texts = self._report.texts
        text = texts.source(name) if texts is not None else None
        if text is None:
            return None
        lines = text.split("\n")
        before, last = lines[line - 1], line
        for change in (one, other):
            for row in self._rows_at(change, where):
                file = parsed_text("\n".join(lines), name)
                if file is None:
                    return None
                at = Line(file, last, shown=self._lines.shown(row))
                found = first_written(change.kind, at, name)
                if found is None or [edit.line for edit in found.lines] != [last]:
                    return None
                after = found.lines[0].after.split("\n")
                lines[last - 1 : last] = after
                last += len(after) - 1
        return Edit(name, line, before, "\n".join(lines[line - 1 : last]))

    def _rows_at(self, change: Change, where: tuple[str, int]) -> list[Unfused]:
        """The operators of a change on a line, each kind once."""
        by_op: dict[str, Unfused] = {}
        for row in (self._report.unfused[index] for index in change.rows):
            for source in map(Source.parse, row.users_lines):
                if source is not None and (source.file, source.line) == where:
                    by_op.setdefault(row.op, row)
        return list(by_op.values())

    def _of_both(self, one: Change, other: Change, lines: tuple[Edit, ...]) -> Change:
        rows = (*one.rows, *other.rows)
        return replace(
            one,
            kind=ChangeKind.RECIPE,
            title=self._title(one, other),
            rows=rows,
            lines=tuple(sorted(lines, key=lambda edit: (edit.file, edit.line))),
            note=joined_notes(*dict.fromkeys((one.note, other.note))) or None,
            conditional=one.conditional or other.conditional,
            before=None,
            after=None,
        )

    def _title(self, one: Change, other: Change) -> str:
        """``Write minimum() and maximum() with operators that fuse``"""
        ops = [self._report.unfused[row].op for row in (*one.rows, *other.rows)]
        if not IN_PLACE_ASSIGNS.isdisjoint(ops):  # no operator that the line names
            return f"{one.title}; {other.title}"
        names = list(dict.fromkeys(op.rpartition("::")[2] for op in ops))
        listed = ", ".join(f"{name}()" for name in names[:-1])
        return f"Write {listed} and {names[-1]}() with operators that fuse"
