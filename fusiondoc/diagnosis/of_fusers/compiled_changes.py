"""What to change in a program so that torch.compile fuses more of it (for the plan).

By the findings on breaks, recompiles, calls and boundaries that something of the program causes. What a
change saves is known after it alone; the sentences have the bytes that go through memory now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.changes.line_edits import line_edits
from fusiondoc.changes.source_file import ParsedFile, parsed_text
from fusiondoc.diagnosis.changes_for_findings import step_of
from fusiondoc.diagnosis.commands import run_again
from fusiondoc.diagnosis.of_fusers import compiled_rewrites
from fusiondoc.diagnosis.planned_changes import Step, can_be_fixed, without_indents
from fusiondoc.diagnosis.proofs import Proofs
from fusiondoc.diagnosis.rules import Context
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.rows_by_index import rows_by_index
from fusiondoc.model.source import Source

_KINDS: Mapping[str, ChangeKind] = {
    "FD121": ChangeKind.MOVE,
    "FD122": ChangeKind.DYNAMIC_SHAPES,
    "FD252": ChangeKind.RECIPE,
    "FD254": ChangeKind.RECIPE,
    "FD262": ChangeKind.MOVE_VIEW,
    "FD263": ChangeKind.MOVE_VIEW,
    "FD264": ChangeKind.MOVE_VIEW,
    "FD267": ChangeKind.DIMENSIONS,
    "FD271": ChangeKind.OUT_OF_PLACE,
    "FD272": ChangeKind.DEVICE,
}
"""Code of a finding -> what is changed. A code that is not here has no change of the program."""

_FIRST = ("FD121", "FD122")
"""Before all others: what they bring is not known in bytes."""


def compiled_changes(report: Report, context: Context) -> list[Step]:
    """The changes: breaks and recompiles first, then what moves most bytes."""
    proofs = Proofs(report, context.fixes)
    steps: dict[object, Step] = {}
    for finding in sorted(report.findings, key=_rank):
        written = _written(finding, report)
        for one in written:
            if not proofs.refutes(one, report):
                steps.setdefault(one.lines, _as_written(one, finding, report, context, proofs))
        if not written and finding.code in _KINDS and finding.severity == "warning":
            step = step_of(finding, report, context)
            change = replace(step.change, kind=_KINDS[finding.code])
            steps[len(steps)] = replace(step, change=change, ops=finding.ops, bytes=None)
    return list(steps.values())


def _written(finding: Finding, report: Report) -> list[Change]:
    """The changes of lines that are about a finding, with the whole lines; the first of each line."""
    found: dict[str, Change] = {}
    rows = rows_by_index(report)
    for row in [rows[index] for index in finding.rows if index in rows]:
        for source in filter(None, map(Source.parse, row.users_lines)):
            file = _file(source, report)
            if file is None:
                continue
            for one in compiled_rewrites.of_call(row, file, source.line):
                lines = line_edits(file, source.file, one.edits, source.line)
                if lines:
                    found.setdefault(source.at_line, replace(one, where=(source.at_line,), lines=lines))
    return list(found.values())


def _file(source: Source, report: Report) -> ParsedFile | None:
    text = report.texts.source(source.file) if report.texts is not None else None
    return parsed_text(text, source.file) if text is not None else None


def _as_written(one: Change, finding: Finding, report: Report, context: Context, proofs: Proofs) -> Step:
    """A change whose lines are known: ``fix`` makes it and proves it."""
    step = step_of(finding, report, context)
    first = one.lines[0]
    change = replace(
        one,
        title=f"Write {one.after} instead of {one.before}",
        codes=(finding.code,),
        before=first.before.strip(),
        after=without_indents(first.after),
    )
    fixes = context.request is not None and can_be_fixed(context)
    command = run_again(context.request, command="fix") if fixes and context.request is not None else None
    return replace(
        step, change=change, ops=finding.ops, bytes=None, command=command, proof=proofs.of(one, report)
    )


def _rank(finding: Finding) -> tuple[int, int]:
    order = _FIRST.index(finding.code) if finding.code in _FIRST else len(_FIRST)
    return order, -(finding.saves_bytes or 0)
