"""Merges changes of different operators: those with equal words or lines, and those
that edit the same line: ``torch.maximum(torch.minimum(x, y), z)`` is rewritten
once, with both operators replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.changes.line_edits import lines_behind, together
from fusiondoc.changes.rewrite import Line
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.lines_of_changes import (
    ChangeLines,
    first_written,
    joined_notes,
)
from fusiondoc.diagnosis.rules import Owner, RunFacts
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source, file_of
from fusiondoc.operators import IN_PLACE_ASSIGNS


def joined(
    changes: Iterable[Change], report: Report, run: RunFacts
) -> list[Change]:
    """Return the changes of rows, with those of equal words or lines merged, as
    well as those that edit the same line."""
    found = _Found(report, run)
    for one in changes:
        found.add(one)
    return _LinesChangedTogether(report, ChangeLines(report, run)).joined(
        found.all()
    )


_Words = tuple[ChangeKind, str, bool, bool, str | None]
"""The kind and title of a change, whether it is sure and has its lines, and the
file of a package that has to be changed. A change without lines is not merged
with one that has lines: these lines would not bring the gain that is promised
for both."""


class _Found:
    """The changes found, those of equal words merged: of the user's own lines, or
    of one file of a package."""

    def __init__(self, report: Report, run: RunFacts) -> None:
        self._report = report
        self._run = run
        self._by_words: dict[_Words, Change] = {}
        self._of_lines: dict[tuple[Edit, ...], _Words] = {}
        """Edits that write lines out of place -> the words of the first change with
        these edits: one line may call several operators."""

    def add(self, one: Change) -> None:
        key = (
            one.kind,
            one.title,
            one.sure,
            bool(one.lines),
            self._package_file(one),
        )
        if one.kind is ChangeKind.OUT_OF_PLACE and one.lines:
            key = self._of_lines.setdefault(one.lines, key)
        known = self._by_words.get(key)
        if known is None:
            self._by_words[key] = one
            return
        joined = _joined(known, one)
        if one.title != known.title:
            joined = replace(
                joined, title=self._all_out_of_place(joined.rows) or one.title
            )
        self._by_words[key] = joined

    def _package_file(self, one: Change) -> str | None:
        row = self._report.unfused[one.rows[0]]
        if not one.kind.in_source or self._run.owner(row) is not Owner.PACKAGE:
            return None
        return file_of(next(iter(row.users_lines), None)) or file_of(row.source)

    def all(self) -> list[Change]:
        """Return the merged changes, without those that are only worth a try and
        have the title of a sure one."""
        sure = set()
        for one in self._by_words.values():
            if one.sure:
                sure.add(one.title)
        changes = []
        for one in self._by_words.values():
            if one.sure or one.title not in sure:
                changes.append(one)
        return changes

    def _all_out_of_place(self, rows: Sequence[int]) -> str | None:
        """Return ``Write add_() and floor_() out of place``; None for one
        operator."""
        ops = dict.fromkeys(self._report.unfused[row].op for row in rows)
        names = list(dict.fromkeys(f"{op.rpartition('::')[2]}()" for op in ops))
        if len(names) < 2:
            return None
        return f"Write {', '.join(names[:-1])} and {names[-1]} out of place"


def _joined(one: Change, more: Change) -> Change:
    return replace(
        one,
        rows=(*one.rows, *more.rows),
        lines=together((*one.lines, *more.lines)),
        where=tuple(dict.fromkeys([*one.where, *more.where])),
        note=one.note or more.note,
        folded=one.folded + more.folded,
        python=one.python or more.python,
    )


_REWRITTEN = (ChangeKind.OUT_OF_PLACE, ChangeKind.RECIPE, ChangeKind.DIMENSIONS)
"""Kinds of changes that replace an expression within its line."""


_Where = tuple[str, int]
"""A file and a line number."""


def _takes_away(edit: Edit) -> bool:
    return bool(edit.before) and not edit.after


def _lines_of_one_edit(
    name: str, line: int, edits: Mapping[_Where, Edit], gone: AbstractSet[_Where]
) -> range:
    """Return the lines that one edit changes together with a line: the first of
    them is replaced by the text for all.

    Args:
        gone: lines that an edit removes.
    """
    first, last = line, line
    while (name, first) in gone and (name, first - 1) in edits:
        first -= 1
    while (name, last + 1) in gone:
        last += 1
    return range(first, last + 1)


def _with_edits(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """Return the lines of a file with the edits made; the text that replaces
    several lines is at the first."""
    result = list(lines)
    for edit in sorted(edits, key=lambda edit: -edit.line):
        if _takes_away(edit):
            result[edit.line - 1 : edit.line] = []
        else:
            result[edit.line - 1 : edit.line] = edit.after.split("\n")
    return result


class _LinesChangedTogether:
    """Merges changes that replace parts of the same lines."""

    def __init__(self, report: Report, lines: ChangeLines) -> None:
        self._report = report
        self._lines = lines
        self._kinds: dict[int, ChangeKind] = {}
        """Row -> the kind of the change found for it, before it was merged."""

    def joined(self, found: Sequence[Change]) -> list[Change]:
        """Return the changes, with those that edit the same line merged; they stay
        separate if the line cannot be written with both."""
        self._kinds = {}
        for one in found:
            for row in one.rows:
                self._kinds[row] = one.kind
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
        if (
            one.sure != other.sure
            or one.kind not in _REWRITTEN
            or other.kind not in _REWRITTEN
        ):
            return None
        of_other = {(edit.file, edit.line): edit for edit in other.lines}
        written = {(edit.file, edit.line): edit for edit in one.lines}
        meeting = []
        for where, edit in written.items():
            if of_other.get(where, edit) != edit:
                meeting.append(where)
        if not meeting:
            return None
        every = self._with_both({**of_other, **written}, meeting, one, other)
        if every is None:
            return None
        return self._of_both(one, other, tuple(every.values()))

    def _with_both(
        self,
        edits: dict[_Where, Edit],
        meeting: Sequence[_Where],
        one: Change,
        other: Change,
    ) -> Mapping[_Where, Edit] | None:
        """Return the edits of both changes, with the lines that both edit written
        anew; None if that fails."""
        both = (*one.lines, *other.lines)
        inserted = [edit for edit in both if lines_behind(edit) is not None]
        edits.update(((edit.file, edit.line), edit) for edit in together(inserted))
        gone = set()
        for edit in both:
            if _takes_away(edit):
                gone.add((edit.file, edit.line))
        seen = {(edit.file, edit.line) for edit in inserted}
        seen -= {
            (edit.file, edit.line) for edit in both if lines_behind(edit) is None
        }
        for name, line in meeting:
            if (name, line) in seen:
                continue
            at = _lines_of_one_edit(name, line, edits, gone)
            written = self._written_twice(name, at, one, other)
            if written is None:
                return None
            seen.update((name, number) for number in at)
            edits.update({(name, edit.line): edit for edit in written})
        return edits

    def _written_twice(
        self, name: str, at: range, one: Change, other: Change
    ) -> Sequence[Edit] | None:
        """Return the edits of these lines with the rewrites of both changes, made
        from the last line to the first so that the lines above keep their numbers;
        None if one of the changes no longer fits, or changes other lines
        differently than on its own."""
        texts = self._report.texts
        text = texts.source(name) if texts is not None else None
        if text is None:
            return None
        lines = text.split("\n")
        known = {*one.lines, *other.lines}
        before, behind = lines[at.start - 1 : at.stop - 1], len(lines) - at.stop + 1
        for line in reversed(at):
            before_it = len(lines)  # an insertion before the line moves it
            for row in [
                *self._rows_at(one, (name, line)),
                *self._rows_at(other, (name, line)),
            ]:
                found = self._first_written(
                    row, "\n".join(lines), name, line + len(lines) - before_it
                )
                own = []
                for edit in found or ():
                    if line <= edit.line <= len(lines) - behind:
                        own.append(edit)
                if not own or not known.issuperset(
                    set(found or ()).difference(own)
                ):
                    return None
                lines = _with_edits(lines, own)
        after = "\n".join(lines[at.start - 1 : len(lines) - behind])
        first = Edit(name, at.start, before[0], after)
        return [
            first,
            *(
                Edit(name, line, old, "")
                for line, old in zip(at[1:], before[1:], strict=True)
            ),
        ]

    def _first_written(
        self, row: int, text: str, name: str, line: int
    ) -> Sequence[Edit] | None:
        file = parsed_text(text, name)
        if file is None:
            return None
        at = Line(file, line, shown=self._lines.shown(self._report.unfused[row]))
        found = first_written(self._kinds[row], at, name)
        if found is None:
            return None
        return found.lines

    def _rows_at(self, change: Change, where: tuple[str, int]) -> list[int]:
        """Return the rows of a change on a line, each operator once."""
        by_op: dict[str, int] = {}
        for index in change.rows:
            row = self._report.unfused[index]
            for source in map(Source.parse, row.users_lines):
                if source is not None and (source.file, source.line) == where:
                    by_op.setdefault(row.op, index)
        return list(by_op.values())

    def _of_both(
        self, one: Change, other: Change, lines: tuple[Edit, ...]
    ) -> Change:
        rows = (*one.rows, *other.rows)
        lines = tuple(sorted(lines, key=lambda edit: (edit.file, edit.line)))
        return replace(
            one,
            kind=ChangeKind.RECIPE,
            title=self._title(one, other),
            rows=rows,
            lines=lines,
            where=tuple(
                dict.fromkeys(
                    [f"{lines[0].file}:{lines[0].line}", *one.where, *other.where]
                )
            ),
            note=joined_notes(*dict.fromkeys((one.note, other.note))) or None,
            conditional=one.conditional or other.conditional,
            before=None,
            after=None,
        )

    def _title(self, one: Change, other: Change) -> str:
        """Return ``Write minimum() and maximum() with operators that fuse``."""
        ops = [self._report.unfused[row].op for row in (*one.rows, *other.rows)]
        if not IN_PLACE_ASSIGNS.isdisjoint(ops):  # not named on the line
            return f"{one.title}; {other.title}"
        names = list(dict.fromkeys(op.rpartition("::")[2] for op in ops))
        listed = ", ".join(f"{name}()" for name in names[:-1])
        return f"Write {listed} and {names[-1]}() with operators that fuse"
