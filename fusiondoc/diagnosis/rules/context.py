"""What the rules may look at besides the report: the log's other facts, and how the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable

from fusiondoc.captures.ending import Result
from fusiondoc.captures.follow_ups import Rerun
from fusiondoc.captures.probe_records import Failure
from fusiondoc.captures.request import KeptRequest
from fusiondoc.model.report import Finding, Report
from fusiondoc.parsers.observed import Observed


@dataclass(frozen=True)
class Context:
    observed: Observed
    request: KeptRequest | None = None
    """What was asked for; None for a plain log."""
    result: Result = field(default_factory=Result)
    """How the child ended; nothing is told for a plain log."""
    error: Failure | None = None
    """What the probe told of it, if the user's program failed."""
    rerun: Rerun | None = None
    """What a rerun without fallback showed."""

    @property
    def cut_short(self) -> bool:
        """The run did not come to its end: what is missing from the log says nothing."""
        return self.result.cut_short or self.error is not None


Rule = Callable[[Report, Context], Iterable[Finding]]
"""A rule: report and context to findings. It never raises and changes nothing."""
