"""The outcome of an expectation that was compared with a report, and when a report
cannot decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fusiondoc.expectations import Path, Position, Section
from fusiondoc.expectations.near_miss import NearMiss
from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Expectation


@dataclass(frozen=True)
class Outcome:
    """An expectation held against a report."""

    section: str
    path: Path
    """Its path in the file: ``("groups", 1)``, ``("max_fallbacks",)``."""
    holds: bool
    expected: str
    found: str
    why: str | None = None
    """The differences between the two; None where the two need no explanation."""
    at: Position | None = None
    groups: tuple[str, ...] = ()
    """The groups that fulfil it, each first specialisation once."""
    near: NearMiss | None = None
    value: Any = None
    """The measured value, for --update."""
    note: str | None = None
    """A difference from the file that breaks nothing: another name, more of the
    same."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Key of the expectation -> its values now, where these are other names."""

    def too_few(self, section: Section) -> bool:
        """Whether, for the number of groups, there are fewer than the section
        wants."""
        least = (
            section.number_of_groups.at_least
            if section.number_of_groups is not None
            else None
        )
        return (
            least is not None and isinstance(self.value, int) and self.value < least
        )

    @property
    def text(self) -> str:
        """``expected X; found Y: why``, one line."""
        return f"expected {self.expected}; found {self.found}" + (
            f": {self.why}" if self.why else ""
        )

    def in_report(self, file: str) -> Expectation:
        """The same as a row of the report model."""
        line, column = (self.at.line, self.at.column) if self.at else (None, None)
        return Expectation(
            self.section,
            self.holds,
            self.expected,
            self.found,
            self.why,
            file,
            line,
            column,
            self.groups,
            self.note,
        )


Make = Callable[..., Outcome]


def new_name(old: Iterable[object], new: Iterable[object]) -> str:
    """The note on an expectation that holds under another name."""
    return f"{', '.join(map(str, old))} is {', '.join(map(str, new))} now; --update writes the new name"


def nothing_fused(report: Report) -> str | None:
    """Why there is no group at all, where a finding names it."""
    if report.groups:
        return None
    causes = (
        f
        for f in report.findings
        if f.code[:3] in ("FD0", "FD1", "FD9") and not f.in_header
    )
    cause = next(causes, None)
    return f"{cause.message} ({cause.code})" if cause else None


_NO_PLAN = ("FD101", "FD104", "FD901", "FD921")
"""Findings of a run without groups that made no plan with a fuser, so that absence
proves nothing."""


def without_plan(report: Report) -> str | None:
    """Why the absence of groups, fallbacks and unfused operators proves nothing: no
    plan was made that could have had any."""
    if report.groups or report.kernels:
        return None
    cause = next(
        (f for f in report.findings if f.code in _NO_PLAN and not f.ops), None
    )
    return f"{cause.message} ({cause.code})" if cause is not None else None


def unknown_without_plan(report: Report) -> str | None:
    """The value found where there can be none; None where there can be one."""
    cause = without_plan(report)
    return f"unknown: {cause}" if cause is not None else None
