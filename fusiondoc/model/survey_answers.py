"""The result of ``fusiondoc survey`` (``fusiondoc.survey/1``): a row for each run,
and the answers; and the part of a saved report that the survey reads."""

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
"""Possible explanations of a loss: of two that explain it equally well, the first
in this order is named first. ``lines`` is the program itself, recognised by its
lines; ``date`` is a day on which nothing changed that runs record."""

NAMES: Mapping[str, str] = {
    **{name: name for name in DIMENSIONS},
    "cuda": "CUDA",
    "gpu": "GPU",
    "lines": "program of",
}
"""How sentences name them."""

MOST_SLOWEST = 20
"""Most runs of a kernel that are listed, the slowest first."""


def is_since(day: str | None, since: str | None) -> bool:
    """True if a day (``YYYY-MM-DD``) is ``since`` or later, or if ``since`` is
    None."""
    return since is None or (day is not None and day >= since)


@dataclass(frozen=True)
class RunRow:
    """A run: a saved report, a capture or a log. Values that it does not state are
    null."""

    run: str
    """Path or address."""
    kind: str
    """"report", "capture" or "log"."""
    digest: str
    """Hash of its content, unpacked (BLAKE2b of 128 bits)."""
    model: str | None
    """The model: the part of its path that ``--model-from`` matches, else the label
    of its capture, else its project, path and target; for a bare log the folders
    below the one that was named, without days; null without any."""
    date: str | None
    """Day of the run: of its capture (from the folder's name, else the time it was
    made), else a day in its path."""
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
    """Operators in groups, over all operators that the run's fuser can take."""
    kernels: int
    kernel_ms: float | None
    """Sum over its kernels of the median time of a launch, in milliseconds."""
    unfused_bytes: int
    """Memory traffic of operators in no group, in bytes."""
    unfused_ms: float | None
    """Time that they take in a profiled step, in milliseconds."""
    errors: int
    """Findings of severity error."""
    fusiondoc: str | None = None
    """Version of fusiondoc."""
    commit: str | None = None
    """Commit of the program."""
    settings: str | None = None
    """The settings of the fuser, such as ``fuser=none, knob inlining=off``."""
    host: str | None = None
    """Name of the machine that ran it."""
    step_ms: float | None = None
    """Time of a step without the profiler, else of a profiled step, in
    milliseconds."""


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
    """Share of the runs of its model that have it."""
    nodes: int
    """Fusion nodes in all runs."""
    fell_back: int
    """Number of runs in which it fell back."""


@dataclass(frozen=True)
class Gone:
    """A loss: from some day on, a smaller share of the runs of a model has a group,
    or as many instances of it, and the last runs still lack it. Groups that were
    lost at the same time by the same cause are one loss. Groups at other lines, in
    larger groups, or split into groups with all their operators are not lost."""

    group: str
    """Id in ``groups``, of the first if there are several."""
    text: str
    model: str | None
    by: str
    """The best explanation of which runs lack it: "torch", "cuda", "driver", "gpu",
    "fusiondoc", "settings" (those of the fuser), "commit", "lines" (the program has
    other lines) or "date" (nothing that runs record)."""
    last: str
    """The last value of ``by`` with the group; all values if they have no order."""
    since: str
    """The first value of ``by`` without the group; all values if they have no
    order."""
    share_before: float
    """Share of the runs of the scope that have it before the loss."""
    runs_before: int
    runs_since: int
    why: tuple[str, ...] = ()
    """Why its operators are in no group in runs without it, most frequent first:
    ``FD211 in 12 runs``."""
    groups: tuple[str, ...] = ()
    """Ids of all groups that were lost."""
    texts: tuple[str, ...] = ()
    share_since: float = 0.0
    """Share of the runs of the scope that have it after the loss."""
    instances: int = 1
    """If above 1: runs after the loss have fewer instances than that, but can have
    some."""
    date: str | None = None
    """Day of the first run without it; null if the runs have no dates."""
    date_from: str | None = None
    date_to: str | None = None
    """The loss came between these days (95 % by the likelihood of the runs)."""
    until: str | None = None
    """The last day of a run that still had it, if the loss came step by step."""
    scope: str | None = None
    """The runs that lost it, if not all: ``GPU NVIDIA H200``."""
    together: tuple[str, ...] = ()
    """Other changes at the same time that explain the loss as well: ``CUDA 11.8 to
    12.1``."""


@dataclass(frozen=True)
class ReasonShare:
    """A reason why operators are in no group, summed over all runs."""

    code: str
    op: str
    text: str
    runs: int
    nodes: int
    bytes: int
    """Memory traffic of their results, written and read again, in bytes; 0 if no
    log shows it."""
    ms: float
    """Time that they take in profiled steps, in milliseconds; 0 if nothing was
    profiled."""
    keeps_out: int
    """Number of operators that are in no group because of these operators."""


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
    """Number of further runs in which it is much slower; only the slowest 20 are
    listed."""


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be read as a run."""

    run: str
    why: str


@dataclass(frozen=True)
class Duplicate:
    """A file with the content of another, compressed or not; it has no row."""

    run: str
    same_as: str


@dataclass(frozen=True)
class Work:
    """How the survey was made; all other fields are the same for any engine and any
    order."""

    engine: str
    workers: int | None
    """Processes of the local engine, or CPUs of a Ray cluster; for Dask the workers
    that read anything."""
    seconds: float
    lost_workers: int
    """Number of workers that died; their files were read again by others, or are in
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
    """Number of groups that moved from line to line as their programs changed,
    which is no loss."""
    since: str | None = None
    """``gone`` and ``outliers`` are those of this day and later; null: all."""
    schema: str = field(default=SCHEMA)

    def counts(self, row: RunRow) -> bool:
        """True if the run is of the day ``since`` or later. With ``since``, a run
        without a date does not count."""
        return is_since(row.date, self.since)

    @property
    def fell_back(self) -> tuple[RunRow, ...]:
        """Runs in which a group fell back, among those that ``counts`` includes."""
        rows = []
        for row in self.runs:
            if row.fallbacks and self.counts(row):
                rows.append(row)
        return tuple(rows)

    @property
    def models(self) -> tuple[str | None, ...]:
        """The models of the runs, each once, sorted."""
        return tuple(
            sorted(
                {row.model for row in self.runs},
                key=lambda model: (model is None, model or ""),
            )
        )


@dataclass(frozen=True)
class SavedGroup:
    """A group in a saved report; its instances are counted, whatever they hold. The
    ``Saved`` classes hold the part of a report that a survey needs, under the names
    of the report model, so that both are read alike; reading whole reports takes
    ten times as long."""

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
    """Time in a step."""

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
    """Times of a kernel's launches."""

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
    """A finding, counted by its severity; its code can show that the run ended
    early."""

    severity: str
    code: str = ""


@dataclass(frozen=True)
class SavedFuser:
    """The fuser that made groups."""

    effective: str | None = None


@dataclass(frozen=True)
class SavedCoverage:
    """The share of fusible operators that is in groups."""

    fraction: float | None = None


@dataclass(frozen=True)
class SavedTarget:
    """The subject of the report; for a log alone, without options and capture."""

    name: str | None = None
    capture: str | None = None
    options: Mapping[str, Any] | None = None
    folder: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class SavedSteps:
    """Step times of the profiled run."""

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
