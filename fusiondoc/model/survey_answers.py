"""What ``fusiondoc survey`` found, as ``fusiondoc.survey/1`` has it: a row for each
run, and the answers; and what of a saved report it reads for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusiondoc.model import dataclass, field
from fusiondoc.model.groups import OpNode

SCHEMA = "fusiondoc.survey/1"

DIMENSIONS = (
    "torch",
    "cuda",
    "driver",
    "gpu",
    "fusiondoc",
    "settings",
    "commit",
    "lines",
    "date",
)
"""What a group can have gone with: of two that explain a loss alike the first is
named first. ``lines`` is the program itself, recognised by its lines; ``date`` is a
day on which nothing changed that runs record."""

NAMES: Mapping[str, str] = {
    **{name: name for name in DIMENSIONS},
    "cuda": "CUDA",
    "gpu": "GPU",
    "lines": "program of",
}
"""How sentences name them."""

MOST_SLOWEST = 20
"""Slowest runs of a kernel that are listed."""


def is_since(day: str | None, since: str | None) -> bool:
    """Whether a day (``YYYY-MM-DD``) is ``since`` or later; any day if ``since`` is
    None."""
    return since is None or (day is not None and day >= since)


@dataclass(frozen=True)
class RunRow:
    """A run: a saved report, a capture or a log. What it does not state is null."""

    run: str
    """Path or address."""
    kind: str
    """"report", "capture" or "log"."""
    digest: str
    """Of its content, unpacked (BLAKE2b of 128 bits)."""
    model: str | None
    """Which model it is: what ``--model-from`` takes from its path, else the label
    of its capture, else its project and path with what is run of it; of a bare log
    the folders below what was named, days left out; null without any."""
    date: str | None
    """Day of the run: of its capture (its folder's name, else when it was made),
    else one that its path names."""
    torch: str | None
    cuda: str | None
    gpu: str | None
    driver: str | None
    fuser: str | None
    groups: int
    """Fusion nodes: instances of its groups."""
    operators: int
    """Operators in them."""
    unfused: int
    fallbacks: int
    coverage: float | None
    """Operators in groups against all that the run's fuser can take."""
    kernels: int
    kernel_ms: float | None
    """Sum over its kernels of the median time of a launch, in milliseconds."""
    unfused_bytes: int
    """Memory traffic of operators in no group, in bytes."""
    unfused_ms: float | None
    """What they take of a profiled step, in milliseconds."""
    errors: int
    """Findings of severity error."""
    fusiondoc: str | None = None
    """Its version."""
    commit: str | None = None
    """Of the program."""
    settings: str | None = None
    """The settings of the fuser, such as ``fuser=none, knob inlining=off``."""
    host: str | None = None
    """Name of the machine that ran it."""
    step_ms: float | None = None
    """Of a step without the profiler, else of a profiled step, in milliseconds."""


@dataclass(frozen=True)
class GroupShare:
    """Groups of the same model, phase, operators and lines (file names without
    folders)."""

    id: str
    model: str | None
    phase: str | None
    ops: tuple[str, ...]
    places: tuple[str, ...]
    kinds: tuple[str, ...]
    runs: int
    """Runs that have it."""
    runs_of_model: int
    share: float
    """Of the runs of its model."""
    nodes: int
    """Fusion nodes in all runs."""
    fell_back: int
    """Runs in which it fell back."""


@dataclass(frozen=True)
class Gone:
    """A loss: from some day on a smaller share of the runs of a model has a group,
    or so many instances of it, and the last runs still lack it. Groups that were
    lost at one time by one cause are one loss. Groups at other lines, in larger
    groups, or split into groups with all their operators are not lost."""

    group: str
    """Id in ``groups``; of several the first."""
    text: str
    model: str | None
    by: str
    """What explains best which runs lack it: "torch", "cuda", "driver", "gpu",
    "fusiondoc", "settings" (those of the fuser), "commit", "lines" (the program has
    other lines) or "date" (nothing that runs record)."""
    last: str
    """The last value with it; of what has no order all of them."""
    since: str
    """The first value without it; of what has no order all of them."""
    share_before: float
    """Of the runs of the scope before the loss."""
    runs_before: int
    runs_since: int
    why: tuple[str, ...] = ()
    """Why its operators are in no group in runs without it, most frequent first:
    ``FD211 in 12 runs``."""
    groups: tuple[str, ...] = ()
    """Ids of all groups that were lost."""
    texts: tuple[str, ...] = ()
    share_since: float = 0.0
    """Of the runs of the scope after the loss."""
    instances: int = 1
    """More than 1: runs after it have fewer instances than that, and may have
    some."""
    date: str | None = None
    """Day of the first run without it; null if the runs have no dates."""
    date_from: str | None = None
    date_to: str | None = None
    """The loss came between these days (95 % by the likelihood of the runs)."""
    until: str | None = None
    """The last day of a run that still had it, where the loss came step by step."""
    scope: str | None = None
    """The runs that lost it, if not all: ``GPU NVIDIA H200``."""
    together: tuple[str, ...] = ()
    """What changed with the cause and explains the loss as well: ``CUDA 11.8 to
    12.1``."""


@dataclass(frozen=True)
class ReasonShare:
    """Why operators are in no group, over all runs."""

    code: str
    op: str
    text: str
    runs: int
    nodes: int
    bytes: int
    """Memory traffic of their results, written and read again, in bytes; 0 where no
    log tells."""
    ms: float
    """What they take of profiled steps, in milliseconds; 0 where nothing was
    profiled."""
    keeps_out: int
    """Operators that are in no group because of them."""


@dataclass(frozen=True)
class Outlier:
    """A kernel of one run that is much slower than in the other runs of its model
    and GPU."""

    run: str
    kernel: str
    model: str | None
    gpu: str | None
    ms: float
    median_ms: float
    ratio: float
    runs: int
    """Runs with that kernel."""
    left_out: int = 0
    """More runs in which it is much slower: the slowest 20 are listed."""


@dataclass(frozen=True)
class Unreadable:
    """A file that gives no row."""

    run: str
    why: str


@dataclass(frozen=True)
class Duplicate:
    """A file with the content of another, compressed or not; it has no row."""

    run: str
    same_as: str


@dataclass(frozen=True)
class Work:
    """How the survey was made; everything else is the same for any engine and any
    order."""

    engine: str
    workers: int | None
    """Processes of the local engine, CPUs of a Ray cluster; of Dask the workers
    that read anything."""
    seconds: float
    lost_workers: int
    """Workers that died; what they had was read again by others, or is in
    ``unreadable``."""


@dataclass(frozen=True)
class Survey:
    """Many runs at once."""

    runs: tuple[RunRow, ...]
    groups: tuple[GroupShare, ...]
    gone: tuple[Gone, ...]
    reasons: tuple[ReasonShare, ...]
    outliers: tuple[Outlier, ...]
    unreadable: tuple[Unreadable, ...]
    duplicates: tuple[Duplicate, ...]
    outliers_left_out: int
    """Slow kernels beyond the 20 slowest runs of each."""
    ignored: int
    """Files that are neither reports nor logs by their names."""
    work: Work
    moved: int = 0
    """Groups that were at several lines in turn, as their programs changed; that is
    no loss."""
    since: str | None = None
    """``gone`` and ``outliers`` are those of this day and later; null: all."""
    schema: str = field(default=SCHEMA)

    def counts(self, row: RunRow) -> bool:
        """Whether a run is of the day ``since`` or later. With ``since`` a run
        without a date does not count."""
        return is_since(row.date, self.since)

    @property
    def fell_back(self) -> tuple[RunRow, ...]:
        """The runs that count in which a group fell back."""
        return tuple(row for row in self.runs if row.fallbacks and self.counts(row))

    @property
    def models(self) -> tuple[str | None, ...]:
        """Their models, each once, in order."""
        return tuple(
            sorted(
                {row.model for row in self.runs},
                key=lambda model: (model is None, model or ""),
            )
        )


@dataclass(frozen=True)
class SavedGroup:
    """A group in a saved report; its instances count, whatever they hold. These
    classes have of a report what a survey takes, under the names of the report
    model, so that both are read alike; whole reports take ten times as long to
    read."""

    kind: str
    phase: str | None
    specialisation: int
    fallback: bool
    nodes: tuple[OpNode, ...]
    instances: tuple[Any, ...]
    kernels: tuple[str, ...]
    nodes_left_out: int = 0
    instances_left_out: int = 0


@dataclass(frozen=True)
class SavedReason:
    """Why operators are in no group."""

    code: str
    text: str


@dataclass(frozen=True)
class SavedTime:
    """Of a step."""

    ms: float | None = None


@dataclass(frozen=True)
class SavedUnfused:
    """Operators in no group."""

    op: str
    count: int
    reason: SavedReason
    source: str | None = None
    user_source: str | None = None
    phase: str | None = None
    ran: bool | None = None
    time: SavedTime | None = None
    bytes_moved: int | None = None
    keeps_out: int | None = None


@dataclass(frozen=True)
class SavedSpread:
    """Of a kernel's launches."""

    median: float


@dataclass(frozen=True)
class SavedKernel:
    """A kernel that may have run."""

    id: str
    name: str
    ms: SavedSpread | None


@dataclass(frozen=True)
class SavedFallbacks:
    """Fallbacks of one kind."""

    count: int


@dataclass(frozen=True)
class SavedFinding:
    """A finding counts by its severity; its code may say that the run ended
    early."""

    severity: str
    code: str = ""


@dataclass(frozen=True)
class SavedFuser:
    """The fuser that made groups."""

    effective: str | None = None


@dataclass(frozen=True)
class SavedCoverage:
    """The share of what can be fused."""

    fraction: float | None = None


@dataclass(frozen=True)
class SavedTarget:
    """What the report is of; of a log alone no options and no capture."""

    name: str | None = None
    capture: str | None = None
    options: Mapping[str, Any] | None = None
    folder: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class SavedSteps:
    """Of the profiled run."""

    ms: float
    unprofiled_ms: float | None = None


@dataclass(frozen=True)
class SavedReport:
    """A saved report."""

    target: SavedTarget = SavedTarget()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    fuser: SavedFuser = SavedFuser()
    coverage: SavedCoverage = SavedCoverage()
    groups: tuple[SavedGroup, ...] = ()
    unfused: tuple[SavedUnfused, ...] = ()
    fallbacks: tuple[SavedFallbacks, ...] = ()
    kernels: tuple[SavedKernel, ...] = ()
    findings: tuple[SavedFinding, ...] = ()
    steps: SavedSteps | None = None
