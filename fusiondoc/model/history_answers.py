"""The history of models (``fusiondoc.history/1``): their runs, the groups that they
lost, and changes of coverage and step time."""

from __future__ import annotations

from fusiondoc.model import dataclass, field
from fusiondoc.model.run_lines import RunLine

SCHEMA = "fusiondoc.history/1"


@dataclass(frozen=True)
class LostGroup:
    """A group that a run no longer has, although the run before had it: its
    operators are outside groups now, or the program no longer has them. Groups that
    were joined, split or moved are not lost."""

    ops: tuple[str, ...]
    phase: str | None
    at: str | None
    """``model.py:12``: its first line before it was lost, without folders."""
    count: int
    """Number of such groups."""
    date: str
    """Date of the first run without it."""
    commit: str | None
    """Commit of that run."""
    last_date: str
    """Date of the last run with it."""
    last_commit: str | None
    why: tuple[str, ...]
    """Why its operators are outside now: ``silu FD201``. Empty: the program no
    longer has them."""
    changed: tuple[str, ...] = ()
    """Other differences between the two runs: ``torch 2.1.2 to 2.2.0``."""
    back_date: str | None = None
    """Date of the first run that has it again; null while it is lost."""
    back_commit: str | None = None


@dataclass(frozen=True)
class Move:
    """A lasting change of coverage or of step time."""

    what: str
    """"coverage" or "ms"."""
    before: float
    after: float
    date: str
    """Date of the first run after it."""
    commit: str | None
    last_date: str
    """Date of the last run before it."""
    last_commit: str | None
    changed: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        """True if less is covered, or a step takes longer."""
        if self.what == "coverage":
            return self.after < self.before
        return self.after > self.before


@dataclass(frozen=True)
class ModelHistory:
    """The runs of a model on one device, by one fuser with one setting, oldest
    first."""

    model: str | None
    device: str | None
    fuser: str | None
    settings: str | None
    runs: tuple[RunLine, ...]
    lost: tuple[LostGroup, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class NotRead:
    """A line or file that contains no run."""

    source: str
    """``history.jsonl:12``, or the path of a report."""
    why: str


@dataclass(frozen=True)
class History:
    """The histories of models, by name."""

    models: tuple[ModelHistory, ...]
    unreadable: tuple[NotRead, ...] = ()
    since: str | None = None
    """``lost`` and ``moves`` are those of this day and later; null: all. "base":
    those of the runs that are compared with a base."""
    schema: str = field(default=SCHEMA)

    @property
    def still_lost(self) -> tuple[LostGroup, ...]:
        """The losses whose group has not come back."""
        groups = []
        for model in self.models:
            for lost in model.lost:
                if lost.back_date is None:
                    groups.append(lost)
        return tuple(groups)
