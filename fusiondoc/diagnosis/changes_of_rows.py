"""Which changes of a program or a run could bring operators into groups: one of each row, and those that are
one change joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.changes.changed_arguments import changes_argument
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.changes_of_operators import change_of
from fusiondoc.diagnosis.lines_changed_together import LinesChangedTogether
from fusiondoc.diagnosis.lines_of_changes import Lines
from fusiondoc.diagnosis.rows_in_plans import RowsInPlans
from fusiondoc.diagnosis.rules import Context, Owner, RunFacts, of_torchscript, run_facts
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source, file_of
from fusiondoc.operators import IN_PLACE_ASSIGNS, is_in_place

ONE_NAME = (
    "only if nothing else refers to this tensor (skip = h, or a slice of h): such a name keeps the old values"
)


class ChangesOfRows:
    """What each operator outside groups suggests, found once for a report: findings say it as advice, and the
    plan ranks it.

    Attributes:
        report: the rows of TorchScript alone.
        run: what is known of its run.
        first: the change of each row of ``report.unfused``; None where none is known.
    """

    def __init__(self, report: Report, run: RunFacts) -> None:
        self.report = report
        self.run = run
        self.first: Sequence[Change | None] = [change_of(row, run) for row in report.unfused]
        self._plans = RowsInPlans(report)

    @classmethod
    def of(cls, report: Report, context: Context) -> ChangesOfRows:
        """Those of a whole report."""
        rows = of_torchscript(report)
        return cls(rows, run_facts(rows, context))

    def at_lines(self) -> list[Change]:
        """The changes that can matter in this run, at the lines that they alter; ``rows`` begins with the
        operator."""
        report, run = self.report, self.run
        lines = Lines(report, run)
        found = []
        for index, (row, change) in enumerate(zip(report.unfused, self.first)):
            if change is None or row.ran is False or run.owner(row) is Owner.FORMULA:
                continue
            if change.kind.in_source and run.of_aot_gradient(row):
                continue
            written = lines.of(change, row)
            one = self._in_the_plan(written, row) if written is not None else None
            if one is not None:
                found.append(replace(one, rows=(index, *_read_with(row, report))))
        return found

    def caller_sees(self, row: Unfused) -> bool:
        """Whether the operator changes a tensor of the caller's in place (the state of an optimiser): out of
        place, the caller would see it unchanged."""
        if not is_in_place(row.op):
            return False
        return _changes_argument(row, self.report) and self._plans.may_come_from_outside(row)

    def _in_the_plan(self, one: Change, row: Unfused) -> Change | None:
        """The change with what the operator's plans show of it; None where they show that it would not
        help."""
        if one.kind is ChangeKind.FREEZE and row.op == "aten::batch_norm":
            return replace(one, folded=self._plans.behind_convolutions(row))
        if not one.lines and (one.kind is ChangeKind.NUMBER or row.op in IN_PLACE_ASSIGNS):
            return None
        if one.kind is ChangeKind.MOVE and one.sure:
            return one if self._plans.before_one_tensor(row) else None
        if one.kind in (ChangeKind.OUT_OF_PLACE, ChangeKind.RECIPE) and self.caller_sees(row):
            return None
        if one.kind is ChangeKind.OUT_OF_PLACE and self._plans.may_be_read_as_it_was(row):
            return replace(one, conditional=True, note=ONE_NAME)
        return one


def joined(changes: Iterable[Change], report: Report, run: RunFacts) -> list[Change]:
    """The changes of rows, those of equal words or lines, and those that meet at a line, as one."""
    found = _Found(report, run)
    for one in changes:
        found.add(one)
    return LinesChangedTogether(report, Lines(report, run)).joined(found.all())


def _read_with(row: Unfused, report: Report) -> list[int]:
    """Rows of the operators that read elements for an assignment by a mask, on its line: they go with it."""
    if row.op != "aten::index_put_" or row.user_source is None:
        return []
    return [
        index
        for index, other in enumerate(report.unfused)
        if other.op == "aten::index" and other.user_source == row.user_source
    ]


def _changes_argument(row: Unfused, report: Report) -> bool:
    """Whether a line of the operator's changes in place a tensor that its function was called with."""
    for source in map(Source.parse, row.users_lines):
        if source is None or report.texts is None:
            continue
        text = report.texts.source(source.file)
        file = parsed_text(text, source.file) if text is not None else None
        if file is not None and changes_argument(file, source.line):
            return True
    return False


_Words = tuple[ChangeKind, str, bool, str | None]
"""The kind and title of a change, whether it is sure, and the file of a package that has to be changed."""


class _Found:
    """The changes found, those of equal words as one: of the user's own lines, or of one file of a
    package."""

    def __init__(self, report: Report, run: RunFacts) -> None:
        self._report = report
        self._run = run
        self._by_words: dict[_Words, Change] = {}
        self._of_lines: dict[tuple[Edit, ...], _Words] = {}
        """The lines that are written out of place -> the first change that does it: several operators may be
        called in one line."""

    def add(self, one: Change) -> None:
        key = one.kind, one.title, one.sure, self._package_file(one)
        if one.kind is ChangeKind.OUT_OF_PLACE and one.lines:
            key = self._of_lines.setdefault(one.lines, key)
        known = self._by_words.get(key)
        if known is None:
            self._by_words[key] = one
            return
        joined = _joined(known, one)
        if one.title != known.title:
            joined = replace(joined, title=self._all_out_of_place(joined.rows) or one.title)
        self._by_words[key] = joined

    def _package_file(self, one: Change) -> str | None:
        row = self._report.unfused[one.rows[0]]
        if not one.kind.in_source or self._run.owner(row) is not Owner.PACKAGE:
            return None
        return file_of(next(iter(row.users_lines), None)) or file_of(row.source)

    def all(self) -> list[Change]:
        """Without those that are only worth a try, and sure elsewhere."""
        sure = {one.title for one in self._by_words.values() if one.sure}
        return [one for one in self._by_words.values() if one.sure or one.title not in sure]

    def _all_out_of_place(self, rows: Sequence[int]) -> str | None:
        """``Write add_() and floor_() out of place``; None of one operator."""
        ops = dict.fromkeys(self._report.unfused[row].op for row in rows)
        names = list(dict.fromkeys(f"{op.rpartition('::')[2]}()" for op in ops))
        if len(names) < 2:
            return None
        return f"Write {', '.join(names[:-1])} and {names[-1]} out of place"


def _joined(one: Change, more: Change) -> Change:
    return replace(
        one,
        rows=(*one.rows, *more.rows),
        lines=tuple(dict.fromkeys([*one.lines, *more.lines])),
        where=tuple(dict.fromkeys([*one.where, *more.where])),
        note=one.note or more.note,
        folded=one.folded + more.folded,
        joins=one.joins and more.joins,
        python=one.python or more.python,
    )
