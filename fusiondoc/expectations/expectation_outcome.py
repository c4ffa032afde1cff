"""What came of one expectation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusiondoc.expectations.expectation import Path, Position
from fusiondoc.expectations.near_miss import NearMiss
from fusiondoc.model.report import Expectation


@dataclass(frozen=True)
class Outcome:
    """An expectation held against a report."""

    section: str
    path: Path
    """Its place in the file: ``("groups", 1)``, ``("max_fallbacks",)``."""
    holds: bool
    expected: str
    found: str
    why: str | None = None
    """What parts the two; None where the two say it all."""
    at: Position | None = None
    groups: tuple[str, ...] = ()
    """The groups that fulfil it, each first specialisation once."""
    near: NearMiss | None = None
    value: Any = None
    """What was measured, for --update."""

    @property
    def text(self) -> str:
        """``expected X; found Y: why``, one line."""
        return f"expected {self.expected}; found {self.found}" + (f": {self.why}" if self.why else "")

    def in_report(self, file: str) -> Expectation:
        """The same as a row of the report model."""
        line, column = (self.at.line, self.at.column) if self.at else (None, None)
        return Expectation(
            self.section, self.holds, self.expected, self.found, self.why, file, line, column, self.groups
        )
