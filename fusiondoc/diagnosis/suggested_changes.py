"""Changes of a program or a run that could bring operators into groups: for a log
those of its rows; for a program that ran also those that only a run can judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from fusiondoc.changes.change import Change
from fusiondoc.changes.changed_arguments import (
    changes_argument,
    changes_result_of,
    changes_result_under_its_name,
    changes_what_a_call_gave,
    changes_what_has_another_name,
    is_in_a_container,
)
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.advice_on_surroundings import operator_between
from fusiondoc.diagnosis.changes_of_operators import change_of
from fusiondoc.diagnosis.lines_of_changes import ChangeLines, joined_notes
from fusiondoc.diagnosis.rows_in_plans import RowsInPlans
from fusiondoc.diagnosis.rules import (
    Context,
    Owner,
    RunFacts,
    of_torchscript,
    run_facts,
)
from fusiondoc.fusers import facts_of
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import WriteBetween
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.operators import IN_PLACE_ASSIGNS, is_in_place, plain_name
from fusiondoc.parsers.observed import Observed

if TYPE_CHECKING:
    from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram

_OUT_OF_PLACE = (ChangeKind.OUT_OF_PLACE, ChangeKind.RECIPE)
ONE_NAME = "only if nothing else refers to this tensor (skip = h, or a slice of h): such a name keeps the old values"


class SuggestedChanges:
    """The changes for a report, each list computed when it is first read: findings
    state ``first`` as advice, the plan ranks ``at_lines``, ``--try`` runs
    ``of_run``, and ``fix`` tries ``in_files``.

    Attributes: report: only the rows of TorchScript. run: the facts that are known
    of its run.
    """

    def __init__(
        self, report: Report, run: RunFacts, program: UserProgram | None = None
    ) -> None:
        self.report = report
        self.run = run
        self._program = program

    @cached_property
    def first(self) -> Sequence[Change | None]:
        """The change for each row of ``report.unfused``; None if none is known."""
        return [change_of(row, self.run) for row in self.report.unfused]

    @cached_property
    def _plans(self) -> RowsInPlans:
        return RowsInPlans(self.report)

    @classmethod
    def of(cls, report: Report, context: Context) -> SuggestedChanges:
        """Return the changes for a whole report."""
        rows = of_torchscript(report)
        return cls(rows, run_facts(rows, context))

    @classmethod
    def of_program(cls, program: UserProgram) -> SuggestedChanges:
        """Return the changes for a program that ran."""
        rows = of_torchscript(program.report)
        return cls(
            rows, program.run or run_facts(rows, Context(Observed())), program
        )

    @property
    def program(self) -> UserProgram:
        """The program; a log has none."""
        assert self._program is not None
        return self._program

    @cached_property
    def of_run(self) -> list[Change]:
        """The settings that the findings suggest, those of the worst finding
        first."""
        from fusiondoc.diagnosis.suggested_settings import suggested

        program = self.program
        return suggested(
            program.report, program.options, program.target.kind, program.training
        )

    @cached_property
    def in_files(self) -> list[Change]:
        """Settings, rewrites at the lines of operators outside groups, and changes
        where the model is made, all as edits of the program's files, in no order.
        Whether one helps, a run of it shows."""
        from fusiondoc.diagnosis.changes_to_try import (
            at_compilation,
            at_lines,
            at_model,
            settings,
        )

        program = self.program
        if program.is_compiled:
            return [
                *at_compilation.propose(program),
                *settings.written(program, self.of_run),
            ]
        of_settings = settings.propose(program, self.of_run)
        return [
            *at_lines.propose(program),
            *of_settings,
            *at_model.propose(program),
        ]

    @cached_property
    def at_lines(self) -> Sequence[Change]:
        """Return the changes that can matter in this run, at the lines that they
        edit; ``rows`` begins with the operator's own row."""
        report, run = self.report, self.run
        lines = ChangeLines(report, run)
        found = []
        for index, (row, change) in enumerate(zip(report.unfused, self.first)):
            if (
                change is None
                or row.ran is False
                or run.owner(row) is Owner.FORMULA
            ):
                continue
            if change.kind.in_source and run.of_aot_gradient(row):
                continue
            written = lines.of(change, row)
            one = self._in_the_plan(written, row) if written is not None else None
            if one is not None:
                found.append(replace(one, rows=(index, *_read_with(row, report))))
        return found

    def out_of_place(self, row: Unfused) -> Change | None:
        """Return the change at lines that writes the operator out of place, or the
        one in between that keeps it out: an assignment to a part of a tensor, or
        another operator past which nothing is moved."""
        if row.op in IN_PLACE_ASSIGNS:
            return self._out_of_place.get((row.op, row.source))
        between = operator_between(row)
        if between is None:
            return None
        is_write = isinstance(row.reason.detail, WriteBetween)
        if is_write or between.op in IN_PLACE_ASSIGNS:
            return self._out_of_place.get((between.op, between.source))
        return None

    @cached_property
    def _out_of_place(self) -> Mapping[tuple[str, str | None], Change]:
        """The operator and position of a row -> its change at lines, if that writes
        it out of place."""
        rows = self.report.unfused
        changes = {}
        for one in self.at_lines:
            if one.kind is ChangeKind.OUT_OF_PLACE and one.lines:
                changes[(rows[one.rows[0]].op, rows[one.rows[0]].source)] = one
        return changes

    def caller_sees(self, row: Unfused) -> bool:
        """True if the operator changes the caller's tensor in place (the state of
        an optimiser): with an out-of-place version the caller would see it
        unchanged."""
        if not is_in_place(row.op):
            return False
        return _on_a_line(
            row, self.report, changes_argument
        ) and self._plans.may_come_from_outside(row)

    def another_name_sees(self, row: Unfused) -> bool:
        """True if another name of the program refers, or may refer, to the tensor
        that the operator changes in place, and is read."""
        if not is_in_place(row.op):
            return False
        if _on_a_line(row, self.report, is_in_a_container):
            return True
        if self._plans.is_read_of_one_result(row) and _on_a_line(
            row, self.report, changes_result_under_its_name
        ):
            return True
        branch = self._plans.comes_through_a_branch(row)
        return (branch or self._plans.is_read_beside(row)) and (
            _on_a_line(
                row, self.report, partial(changes_argument, through_calls=branch)
            )
            or _on_a_line(
                row,
                self.report,
                partial(changes_what_has_another_name, through_modules=branch),
            )
        )

    def keeps_its_type(self, row: Unfused) -> bool:
        """True if an in-place operator keeps an element type that its result out of
        place would not have."""
        return is_in_place(row.op) and self._plans.is_promoted(row)

    def would_fail_out_of_place(self, row: Unfused) -> bool:
        """True if the fuser would fail in training at the group that the operator
        joins when it is out of place.

        It computes the size of a reduction before the group that makes the reduced
        tensor (FD307), by ``prim::ReductionSizes``, which removes the reduced
        dimensions from the list of sizes itself: the gradient of the reduction
        reads the same list (torch/csrc/jit/runtime/register_prim_ops.cpp).
        """
        reductions = facts_of(self.run.fuser).operators.sized_reductions
        if not (self.run.gradients and reductions and is_in_place(row.op)):
            return False
        names = frozenset(map(plain_name, reductions))
        by_text = _on_a_line(
            row, self.report, partial(changes_result_of, functions=names)
        )
        if not by_text and self.report.texts is not None:
            return False
        return self._plans.takes_reduction(row, reductions, known=by_text)

    def would_take_wrong_size(self, row: Unfused) -> bool:
        """True if the operator would be in a group, in training, for which the
        fuser computes a wrong size: it takes that of a matrix product for a
        broadcast if a gradient reads only the size of the following result."""
        products = facts_of(self.run.fuser).operators.sized_by_broadcast
        return bool(
            self.run.gradients and products
        ) and self._plans.follows_product(row, products)

    def _must_stay_in_place(self, one: Change, row: Unfused) -> bool:
        """True if the change would remove an update that the caller or another name
        sees, that the fuser needs or that keeps an element type."""
        if one.kind not in (*_OUT_OF_PLACE, ChangeKind.NOT_INPLACE):
            return False
        if self.caller_sees(row) or self.another_name_sees(row):
            return True
        return one.kind in _OUT_OF_PLACE and (
            self.would_fail_out_of_place(row) or self.keeps_its_type(row)
        )

    def _in_the_plan(self, one: Change, row: Unfused) -> Change | None:
        """Return the change with the facts that the operator's plans show; None if
        they show that it would not help."""
        if one.kind is ChangeKind.FREEZE and row.op == "aten::batch_norm":
            return replace(one, folded=self._plans.behind_convolutions(row))
        if not one.lines and (
            one.kind is ChangeKind.NUMBER or row.op in IN_PLACE_ASSIGNS
        ):
            return None
        if one.kind is ChangeKind.MOVE and one.sure:
            if self._plans.before_one_tensor(row):
                return one
            return None
        if self._must_stay_in_place(one, row):
            return None
        if one.kind in _OUT_OF_PLACE and self.would_take_wrong_size(row):
            return None
        if (
            one.kind in _OUT_OF_PLACE
            and is_in_place(row.op)
            and self._may_be_read_beside(row)
        ):
            return replace(
                one, conditional=True, note=joined_notes(one.note, ONE_NAME)
            )
        return one

    def _may_be_read_beside(self, row: Unfused) -> bool:
        """True if a node of the plan may read the tensor under another name, and no
        text shows that the program has no such name."""
        if not self._plans.is_read_beside(row):
            return False
        return not _has_text(row, self.report) or _on_a_line(
            row, self.report, changes_what_a_call_gave
        )


def _read_with(row: Unfused, report: Report) -> list[int]:
    """Return the rows of the operators on its line that read elements for an
    assignment by a mask: the change removes them, too."""
    if row.op != "aten::index_put_" or row.user_source is None:
        return []
    indexes = []
    for index, other in enumerate(report.unfused):
        if other.op == "aten::index" and other.user_source == row.user_source:
            indexes.append(index)
    return indexes


def _has_text(row: Unfused, report: Report) -> bool:
    """True if the files of all its lines are available."""
    sources = []
    for source in map(Source.parse, row.users_lines):
        if source is not None:
            sources.append(source)
    texts = report.texts
    return (
        bool(sources)
        and texts is not None
        and all(texts.source(one.file) for one in sources)
    )


def _on_a_line(row: Unfused, report: Report, holds: Callable[..., bool]) -> bool:
    """True if ``holds`` is true for one of the operator's lines, by the text of its
    file."""
    for source in map(Source.parse, row.users_lines):
        if source is None or report.texts is None:
            continue
        text = report.texts.source(source.file)
        file = parsed_text(text, source.file) if text is not None else None
        if file is not None and holds(file, source.line, op=row.op):
            return True
    return False
