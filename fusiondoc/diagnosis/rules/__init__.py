"""What a rule is: what it may look at besides the report, and how it makes a finding of a code."""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

from fusiondoc.captures.capture import Rerun
from fusiondoc.captures.ending import Result
from fusiondoc.captures.frontend_records import GraphBreaks, TeRecords
from fusiondoc.captures.probe_records import Failure, LeftRunning, Redirected
from fusiondoc.captures.request import KeptRequest
from fusiondoc.model.codes import CODES
from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.model.report import Evidence, Finding, Report
from fusiondoc.model.runs import Time
from fusiondoc.parsers.observed import Observed


@dataclass(frozen=True)
class Context:
    observed: Observed
    request: KeptRequest | None = None
    """What was asked for; None for a plain log."""
    own: bool = True
    """The capture was made here by this user: what it names may be offered as a command."""
    result: Result = field(default_factory=Result)
    """How the child ended; nothing is told for a plain log."""
    error: Failure | None = None
    """What the probe told of it, if the user's program failed."""
    rerun: Rerun | None = None
    """What a rerun without fallback showed."""
    left: LeftRunning | None = None
    """What the program left running."""
    left_later: LeftRunning | None = None
    """What further runs of the capture left running."""
    redirected: Redirected = field(default_factory=Redirected)
    """What the program did to the descriptors that are logged."""
    te: TeRecords = field(default_factory=TeRecords)
    """What the probe saw of Transformer Engine's fuser."""
    ended_early: bool = False
    """The program ended its process, as it seems without an error, before all passes were done."""

    graph_breaks: GraphBreaks = field(default_factory=GraphBreaks)
    """Where torch.compile cut the program."""

    @property
    def cut_short(self) -> bool:
        """The run did not come to its end: what is missing from the log says nothing."""
        return self.result.cut_short or self.error is not None or self.ended_early


Rule = Callable[[Report, Context], Iterable[Finding]]
"""A rule: report and context to findings. It never raises and changes nothing."""


def finding(
    code: str,
    message: str,
    *,
    source: str | None = None,
    evidence: Sequence[Evidence] = (),
    advice: str | None = None,
    severity: str | None = None,
    saves_bytes: int | None = None,
    keeps_out: int | None = None,
    recipe: str | None = None,
    ops: Sequence[str] = (),
    time: Time | None = None,
) -> Finding:
    """A finding of ``code`` with its usual severity, unless another is given."""
    severity = severity or CODES[code].severity
    return Finding(
        code, severity, message, source, evidence, advice, saves_bytes, keeps_out, recipe, tuple(ops), time
    )
