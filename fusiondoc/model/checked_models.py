"""The result of ``check`` over many models (``fusiondoc.check/1``)."""

from __future__ import annotations

from enum import Enum

from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Expectation

SCHEMA = "fusiondoc.check/1"


class CheckOutcome(Enum):
    """How the check of a section ended."""

    HOLDS = "holds"
    BROKEN = "broken"
    """An expectation is broken."""
    FAILED = "failed"
    """The model could not be run, or its run failed."""
    NOT_RUN = "not run"
    """The section is for another machine, torch or fuser, or names no target."""
    UNCHANGED = "unchanged"
    """Left out by ``--changed-since``: nothing in the repository that its result
    depends on changed."""


@dataclass(frozen=True)
class CheckedModel:
    """A section of the file of expectations, and the result of its check."""

    section: str
    target: str | None
    outcome: CheckOutcome
    exit_status: int
    """The exit status of ``check`` for this section alone."""
    held: int = 0
    """Number of expectations that hold, those of ``all`` among them."""
    lost: int = 0
    """Number of broken expectations."""
    groups: int | None = None
    """Number of fusion nodes: instances of the groups."""
    coverage: float | None = None
    """From 0 to 1: operators in groups, over the operators that ran and that the
    fuser takes."""
    fallbacks: int | None = None
    step_ms: float | None = None
    """Time of a step of the profiled run, in milliseconds; null without a
    profile."""
    fuser: str | None = None
    torch: str | None = None
    seconds: float | None = None
    """Wall time of the run with its follow-ups and its report."""
    cached_from: str | None = None
    """The model was not run: its result is that of a run at this time (ISO 8601,
    UTC)."""
    not_cached: str | None = None
    """Why the result is not kept for the next check."""
    why: str | None = None
    """The error of a failed run, or why the model was not run."""
    changed: str | None = None
    """With ``--changed-since``: why it was run."""
    hint: str | None = None
    """The next step after such an error."""
    capture: str | None = None
    """The folder of its capture."""
    expectations: tuple[Expectation, ...] = ()
    report: Report | None = field(default=None, metadata={"json": False})
    """The report that the expectations were checked against."""


@dataclass(frozen=True)
class CheckedModels:
    """All sections of a file, in its order."""

    schema: str
    file: str
    date: str
    """When the check began: ISO 8601, UTC."""
    commit: str | None
    """The first 12 digits of the commit of the folder that it ran in."""
    seconds: float
    workers: int
    changed_since: str | None
    """The first 12 digits of the commit of ``--changed-since``."""
    models: tuple[CheckedModel, ...]
    notes: tuple[str, ...] = ()
    """Remarks on the file: an exception that has ended, or that no model needs."""

    @property
    def exit_status(self) -> int:
        """The highest of its sections: a model that cannot run (4) or fails (3)
        before a wrong file (2) and a broken expectation (1)."""
        return max((model.exit_status for model in self.models), default=0)

    @property
    def ran_any(self) -> bool:
        """True if any section was for this machine."""
        return any(
            model.outcome is not CheckOutcome.NOT_RUN for model in self.models
        )

    def number(self, outcome: CheckOutcome) -> int:
        """Return the number of sections with this outcome."""
        return sum(model.outcome is outcome for model in self.models)
