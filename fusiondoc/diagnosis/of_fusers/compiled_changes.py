"""Changes of a program that let torch.compile fuse more of it (for the plan).

They are made for findings on breaks, recompiles, calls and boundaries that the
program causes. The saving of a change is known only after it was run; the sentences
quote the bytes that go through memory now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from fusiondoc.changes.change import Change
from fusiondoc.changes.line_edits import line_edits
from fusiondoc.changes.source_file import ParsedFile, parsed_text
from fusiondoc.diagnosis.changes_for_findings import step_of
from fusiondoc.diagnosis.of_fusers import compiled_rewrites
from fusiondoc.diagnosis.of_fusers.compiled_layouts import LayoutLine, layout_lines
from fusiondoc.diagnosis.planned_changes import (
    SuggestedChange,
    command_of_fix,
    without_indents,
)
from fusiondoc.diagnosis.proofs import Proofs
from fusiondoc.diagnosis.rules import Context
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Finding, Report, Unfused
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
"""Code of a finding -> kind of its change. For other codes the program need not
change."""

_FIRST = ("FD121", "FD122")
"""Codes that come before all others: their gain is not known in bytes."""


def compiled_changes(report: Report, context: Context) -> list[SuggestedChange]:
    """Return the changes: breaks and recompiles first, then those that move most
    bytes."""
    proofs = Proofs(report, context.fixes)
    rows = rows_by_index(report)
    found: dict[object, tuple[tuple[int, int], SuggestedChange]] = {}
    boundaries: set[tuple[str, str | None]] = set()
    for layout, one in _of_layouts(report):
        if not proofs.refutes(one, report):
            step = SuggestedChange(one, layout.brings)
            made = _as_written(step, report, context, proofs)
            found.setdefault(one.lines, ((len(_FIRST), -layout.bytes), made))
            boundaries.update(
                [layout.boundary] if layout.boundary is not None else []
            )
    for finding in report.findings:
        written = _of_calls(finding, rows, report)
        for one in written:
            if not proofs.refutes(one, report):
                step = replace(
                    step_of(finding, report, context),
                    change=one,
                    bytes=None,
                    ops=finding.ops,
                )
                made = _as_written(step, report, context, proofs)
                found.setdefault(one.lines, (_rank(finding), made))
        advised = finding.code in _KINDS and finding.severity == "warning"
        if (
            advised
            and not written
            and (finding.code, finding.source) not in boundaries
        ):
            step = step_of(finding, report, context)
            change = replace(step.change, kind=_KINDS[finding.code])
            advice = replace(step, change=change, ops=finding.ops, bytes=None)
            found[len(found)] = (_rank(finding), advice)
    return [step for _, step in sorted(found.values(), key=lambda one: one[0])]


def _of_calls(
    finding: Finding, rows: Mapping[int | None, Unfused], report: Report
) -> list[Change]:
    """Return the changes of the lines of a finding's calls, with the whole lines;
    the first change of each line."""
    found: dict[str, Change] = {}
    for row in [rows[index] for index in finding.rows if index in rows]:
        for name in row.users_lines:
            for one in _with_lines(
                name, report, partial(compiled_rewrites.of_call, row)
            ):
                found.setdefault(name, replace(one, codes=(finding.code,)))
    return list(found.values())


def _of_layouts(report: Report) -> Iterator[tuple[LayoutLine, Change]]:
    for layout in layout_lines(report):
        for one in _with_lines(
            layout.source,
            report,
            partial(compiled_rewrites.of_layout, layout.copies),
        ):
            yield (
                layout,
                replace(
                    one,
                    codes=(layout.boundary[0],)
                    if layout.boundary is not None
                    else (),
                ),
            )


def _with_lines(
    name: str,
    report: Report,
    rewrites: Callable[[ParsedFile, int], Iterable[Change]],
) -> Iterator[Change]:
    """Yield the rewrites of a line (``file:line``) with the whole lines that they
    change, if its file is available."""
    source = Source.parse(name)
    text = None
    if report.texts is not None and source is not None:
        text = report.texts.source(source.file)
    file = None
    if text is not None and source is not None:
        file = parsed_text(text, source.file)
    if source is None or file is None:
        return
    for one in rewrites(file, source.line):
        lines = line_edits(file, source.file, one.edits, source.line)
        if lines:
            yield replace(one, where=(source.at_line,), lines=lines)


def _as_written(
    step: SuggestedChange, report: Report, context: Context, proofs: Proofs
) -> SuggestedChange:
    """Return a step whose change has its lines: ``fix`` makes it and proves it."""
    one = step.change
    first = one.lines[0]
    change = replace(
        one,
        title=f"Write {one.after} instead of {one.before}",
        before=first.before.strip(),
        after=without_indents(first.after),
        python=_definitions(one),
    )
    return replace(
        step,
        change=change,
        command=command_of_fix(report, context),
        proof=proofs.of(one, report),
    )


def _definitions(one: Change) -> str | None:
    """Return the functions that the changed line calls and that are added to its
    file."""
    texts = []
    for edit in one.edits:
        if edit.text.lstrip().startswith("def "):
            texts.append(edit.text.strip())
    if texts:
        return "\n".join(["# in the same file", *texts])
    return None


def _rank(finding: Finding) -> tuple[int, int]:
    order = _FIRST.index(finding.code) if finding.code in _FIRST else len(_FIRST)
    return order, -(finding.saves_bytes or 0)
