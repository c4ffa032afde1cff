"""The processes (ranks) of one run side by side: which groups they share, where they differ and why, and
which of them is slowest (``ranks`` of a report)."""

from __future__ import annotations

from fusiondoc.model.quick_dataclass import dataclass


@dataclass(frozen=True)
class RankFacts:
    """What is known of a rank besides its log; None and empty where nothing tells."""

    rank: int
    host: str | None = None
    torch: str | None = None
    gpu: str | None = None
    ended: str | None = None
    """How its process ended, such as "died of SIGKILL"; None where nothing tells."""
    failed: bool = False
    """It ended by itself, and not well."""
    where: str | None = None
    """``file:line`` in which it was when it was ended."""
    restarts: int = 0
    """How often the launcher had started it again."""
    step_ms: tuple[float, ...] = ()
    """From step to step (or of each pass), those after the compiling ones, in milliseconds."""


@dataclass(frozen=True)
class RankTold:
    """How the ranks of a run are known, and what is known of each."""

    known_by: str
    """"launcher", "files" (their names), "prefixes" (of the lines), "order" (of tags that name no rank) or
    "devices" (nothing else tells processes apart)."""
    expected: int | None = None
    """How many ranks the launcher started or was to start."""
    ranks: tuple[RankFacts, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class RankRow:
    """What a rank has."""

    rank: int
    host: str | None
    torch: str | None
    gpu: str | None
    ended: str | None
    failed: bool
    where: str | None
    restarts: int
    groups: int
    """Fusion nodes: instances of its groups."""
    operators: int
    """Operators in them."""
    unfused: int
    fallbacks: int
    kernels: int
    kernel_ms: float | None
    """Sum over its kernels of median time and launches, in milliseconds; None without times."""
    step_ms: float | None
    """Median step, in milliseconds."""


@dataclass(frozen=True)
class SharedGroup:
    """Groups of several ranks that are equal: kind, phase, operators, lines and types but for the device's
    number."""

    groups: tuple[str, ...]
    """Their ids, one a rank."""
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RankDifference:
    """What some ranks have and others do not."""

    what: str
    """"group", "torch", "gpu", "fallback", "ended", "missing" or "no groups"."""
    text: str
    ranks: tuple[int, ...]
    """Those that it is true of."""
    groups: tuple[str, ...] = ()
    why: str | None = None
    """What is known of the cause; None where the logs do not tell."""


@dataclass(frozen=True)
class SlowRank:
    """The slowest rank of a kernel, or of a step, against the median of the others."""

    what: str
    """The kernel's name, or "step"."""
    rank: int
    ms: float
    others_ms: float
    ratio: float
    kernels: tuple[str, ...] = ()
    """Ids of the kernel on each rank; none of a step."""


@dataclass(frozen=True)
class Ranks:
    """All ranks of a run."""

    known_by: str
    expected: int | None
    missing: tuple[int, ...]
    """Ranks that were to be there and have left nothing."""
    note: str | None
    rows: tuple[RankRow, ...]
    groups: tuple[SharedGroup, ...]
    differences: tuple[RankDifference, ...]
    slowest_step: SlowRank | None
    slowest_kernels: tuple[SlowRank, ...]
    """Of each kernel that several ranks have, the one with most to gain first; at most 50."""

    def of_group(self, group: str) -> tuple[int, ...]:
        """The ranks that have this group or one that equals it."""
        return next((one.ranks for one in self.groups if group in one.groups), ())


def written(ranks: tuple[int, ...]) -> str:
    """``0-3, 6`` of 0, 1, 2, 3, 6."""
    spans: list[list[int]] = []
    for one in sorted(set(ranks)):
        if spans and one == spans[-1][-1] + 1:
            spans[-1][1:] = [one]
        else:
            spans.append([one])
    return ", ".join("-".join(map(str, span)) for span in spans)


def named(ranks: tuple[int, ...]) -> str:
    """``rank 3``, or ``ranks 0-2``."""
    return f"rank{'s' * (len(set(ranks)) != 1)} {written(ranks)}"
