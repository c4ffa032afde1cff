"""The outcome of comparing an expectation with a report, and the cases in which a
report cannot decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fusiondoc.expectations import ExpectationSection, FilePosition, Path
from fusiondoc.expectations.near_miss import NearMiss
from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Expectation


@dataclass(frozen=True)
class ExpectationOutcome:
    """An expectation compared with a report."""

    section: str
    path: Path
    """Its path in the file: ``("groups", 1)``, ``("max_fallbacks",)``."""
    holds: bool
    expected: str
    found: str
    why: str | None = None
    """The differences between the two; None if no explanation is needed."""
    at: FilePosition | None = None
    groups: tuple[str, ...] = ()
    """The groups that fulfil it, each represented by its first specialisation,
    without duplicates."""
    near: NearMiss | None = None
    value: Any = None
    """The measured value, for --update."""
    note: str | None = None
    """A difference from the file that breaks nothing: another name, additional
    groups."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Key of the expectation -> its values now, if these are other names."""

    def too_few(self, section: ExpectationSection) -> bool:
        """For the number of groups: True if there are fewer than the section
        requires."""
        least = None
        if section.number_of_groups is not None:
            least = section.number_of_groups.at_least
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
        """The same as a row of the report."""
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


Make = Callable[..., ExpectationOutcome]


def new_name(old: Iterable[object], new: Iterable[object]) -> str:
    """The note for an expectation that holds under another name."""
    return f"{', '.join(map(str, old))} is {', '.join(map(str, new))} now; --update writes the new name"


def nothing_fused(report: Report) -> str | None:
    """Why there is no group at all, if a finding states it."""
    if report.groups:
        return None
    causes = (
        f
        for f in report.findings
        if f.code[:3] in ("FD0", "FD1", "FD9") and not f.in_header
    )
    cause = next(causes, None)
    if cause:
        return f"{cause.message} ({cause.code})"
    return None


_NO_PLAN = ("FD101", "FD104", "FD901", "FD921")
"""Findings of a run without groups in which no plan was made with a fuser, so that
absence proves nothing."""


def without_plan(report: Report) -> str | None:
    """Why the absence of groups, fallbacks and unfused operators proves nothing: no
    plan was made that could have contained any. None if one was made."""
    if report.groups or report.kernels:
        return None
    cause = None
    for f in report.findings:
        if f.code in _NO_PLAN and not f.ops:
            cause = f
            break
    if cause is None:
        return None
    return f"{cause.message} ({cause.code})"


def unknown_without_plan(report: Report) -> str | None:
    """The text for a value that cannot be known without a plan; None if it can be
    known."""
    cause = without_plan(report)
    if cause is None:
        return None
    return f"unknown: {cause}"
