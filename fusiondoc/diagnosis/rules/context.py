"""What the rules may look at besides the report: the log's other facts, and how the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping

from fusiondoc.model.report import Finding, Report
from fusiondoc.parsers.observed import Observed


@dataclass(frozen=True)
class Context:
    observed: Observed
    result: Mapping[str, Any] = field(default_factory=dict)
    """How the child ended (result.json of the capture); empty for a plain log."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for (request.json of the capture); empty for a plain log."""
    error: Mapping[str, Any] | None = None
    """The probe's error record, if the user's program failed."""
    rerun: Mapping[str, Any] | None = None
    """What a rerun without fallback showed (``rerun.json`` of the capture)."""

    @property
    def cut_short(self) -> bool:
        """The run did not come to its end: what is missing from the log says nothing."""
        ended = self.result.get("signal") or self.result.get("timed_out") or self.result.get("interrupted")
        return bool(ended) or self.error is not None


Rule = Callable[[Report, Context], Iterable[Finding]]
"""A rule: report and context to findings. It never raises and changes nothing."""
