"""The rows of TorchScript and those of Transformer Engine, which one report can hold, apart: each kind has
rules, changes and a coverage of its own."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.model.fusers import is_te
from fusiondoc.model.report import Report
from fusiondoc.model.runs import AnyFuser, Coverage


def of_te(report: Report) -> Report:
    """The report with the rows of Transformer Engine alone."""
    return _with_rows(report, True)


def of_torchscript(report: Report) -> Report:
    """The report with the rows of TorchScript alone, as if there were no Transformer Engine."""
    return replace(_with_rows(report, False), te=None) if report.te is not None else report


def has_torchscript(report: Report) -> bool:
    """Whether there are rows that are not of Transformer Engine."""
    rows = [*(one.kind for one in report.groups), *(row.op for row in report.unfused)]
    return report.te is None or not all(map(is_te, rows))


def _with_rows(report: Report, te: bool) -> Report:
    groups = tuple(one for one in report.groups if is_te(one.kind) == te)
    others = {one.id for one in report.groups} - {one.id for one in groups}
    return replace(
        report,
        groups=groups,
        unfused=tuple(row for row in report.unfused if is_te(row.op) == te),
        kernels=tuple(one for one in report.kernels if not others.intersection(one.groups)),
    )


def te_coverage(report: Report) -> Coverage:
    """Operators in groups against those plus the ones that some rule of Transformer Engine takes."""
    fused = report.fused_operators
    total = fused + sum(row.count for row in report.unfused if row.reason.code != "FD246")
    share = fused / total if total else None
    unknown = None if total else "no operator ran that Transformer Engine has a rule for"
    return Coverage(fused, total or None, share, AnyFuser(total or None, share), unknown)
