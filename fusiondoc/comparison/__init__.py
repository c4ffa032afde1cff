"""The comparison model: the changes from report A to report B, and the words of
``compare --fail-on`` for them. Field names are those of the JSON
(``fusiondoc.comparison/1``).

This file also decides, from two measurements with their spread, between slower,
faster and neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isclose, isfinite

from fusiondoc.model import dataclass, field
from fusiondoc.model.boundaries import Boundary
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import (
    SEVERITIES,
    Evidence,
    Finding,
    Kernel,
    OpNode,
    Report,
)
from fusiondoc.model.runs import Coverage, Spread

SCHEMA = "fusiondoc.comparison/1"


@dataclass(frozen=True)
class Side:
    """One of the two reports, in figures."""

    name: str
    torch: str | None
    fuser: str | None
    groups: int
    kernels: int
    unfused: int
    """Rows of operators outside every group."""
    fallbacks: int
    coverage: Coverage


@dataclass(frozen=True)
class Difference:
    """A value that differs between the sides. ``kind``: "environment", "fuser",
    "knob" or "setting" (an option of ``diagnose`` or a variable that it set)."""

    kind: str
    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class SpeedChange:
    """Times in milliseconds. ``change`` is "slower" or "faster" if the medians
    differ by more than the threshold and the spread of the measurements does not
    explain it, else None."""

    a: Spread
    b: Spread
    ratio: float | None
    """Median of B divided by that of A."""
    change: str | None


@dataclass(frozen=True)
class GroupRef:
    """A group of one side."""

    id: str
    name: str
    kind: str
    phase: str | None
    specialisation: int
    nodes: tuple[OpNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kernels: tuple[str, ...]
    evidence: Evidence | None
    instances: int = 1
    """Number of instances in the plans of its side."""


@dataclass(frozen=True)
class GroupChange:
    """Groups of A and the groups of B that replaced them, instance by instance.

    ``kinds``, one or more of: "added", "gone", "split", "merged", "operators" (some
    joined or left), "types" (same operators, other types), "slower", "faster".
    """

    kinds: tuple[str, ...]
    a: tuple[GroupRef, ...]
    b: tuple[GroupRef, ...]
    ops_gone: tuple[OpNode, ...]
    """Operators of A's groups that are in none of B's."""
    ops_added: tuple[OpNode, ...]
    because: tuple[UnfusedChange, ...]
    """Operators that left, or others between these lines, that are newly outside
    every group."""
    speed: SpeedChange | None
    count: int = 1
    """Number of instances with this change."""
    layers: tuple[str, ...] = ()
    """The modules of these, if the log has modules: those of B, or of A if the
    groups are gone."""
    boundaries: tuple[Boundary, ...] = ()
    """For a group that torch.compile split: the tensors that go through memory
    between its parts in B, with the reasons of the split; most bytes first."""


@dataclass(frozen=True)
class GroupByLines:
    """A group of A, and everything in B, made by another compiler, that computes
    operators on the group's lines."""

    a: GroupRef
    b: tuple[GroupRef, ...]
    outside: tuple[str, ...]
    """Operators on these lines that are outside every group in B, without
    duplicates."""
    boundaries: tuple[Boundary, ...]
    """The tensors that go through memory between these groups of B, most bytes
    first."""

    @property
    def kind(self) -> str:
        """The outcome for the group: "one" group of B, "split", or "gone"."""
        if not self.b:
            return "gone"
        if len(self.b) == 1 and not self.outside:
            return "one"
        return "split"


@dataclass(frozen=True)
class UnfusedChange:
    """Operators outside every group. ``change``: "came", "gone" or "reason" (the
    reason differs)."""

    change: str
    op: str
    source: str | None
    """The line in B; in A if it is gone."""
    user_source: str | None
    phase: str | None
    count: int
    """Number of such nodes of one plan that changed."""
    reason_a: Reason | None
    reason_b: Reason | None
    evidence: Evidence | None


@dataclass(frozen=True)
class FallbackChange:
    """A fallback. ``change``: "came", "gone" or "count" (both counts are exact, and
    differ)."""

    change: str
    stage: str
    group_a: str | None
    group_b: str | None
    count_a: int | None
    count_b: int | None
    error: str | None
    evidence: Evidence | None


@dataclass(frozen=True)
class KernelRef:
    """A kernel of one side."""

    id: str
    name: str
    groups: tuple[str, ...]
    launches: int | None
    registers: int | None
    spill_bytes: int | None
    smem_bytes: int | None
    scheduler: str | None
    block: tuple[int, int, int] | None
    grid: tuple[int, int, int] | None
    ms: Spread | None
    gb_per_s: Spread | None


@dataclass(frozen=True)
class KernelChange:
    """A kernel. ``kinds``, one or more of: "added", "gone", "code", "registers",
    "spills", "shared memory", "scheduler", "launch" (block or grid), "launches"
    (how often), "slower", "faster", "bandwidth" (it differs, although no time shows
    it), "bytes" (the fuser counted others, so that bandwidths cannot be
    compared)."""

    kinds: tuple[str, ...]
    a: KernelRef | None
    b: KernelRef | None
    lines_gone: int
    """Number of lines of code that only A has, after names, numbers of values and
    addresses were made equal."""
    lines_added: int
    speed: SpeedChange | None
    bandwidth: str | None
    """"higher" or "lower", by the rule of ``SpeedChange``."""


@dataclass(frozen=True)
class FindingChange:
    """A finding that only one side has. ``change``: "came" or "gone"."""

    change: str
    finding: Finding


@dataclass(frozen=True)
class ModelSpeedChange:
    """Time of the whole model (``diagnose --time``), measured on both sides."""

    way: str
    phase: str
    inputs: int
    speed: SpeedChange


@dataclass(frozen=True)
class Comparison:
    """All changes; tuples are empty where there are none."""

    a: Side
    b: Side
    slower_than: float
    """Share by which a median must differ to be called slower or faster: 0.1 is 10
    %."""
    differences: tuple[Difference, ...]
    groups: tuple[GroupChange, ...]
    unfused: tuple[UnfusedChange, ...]
    fallbacks: tuple[FallbackChange, ...]
    kernels: tuple[KernelChange, ...]
    findings: tuple[FindingChange, ...]
    speed: tuple[ModelSpeedChange, ...]
    groups_same: int
    """Number of groups of A that B has too, with the same operators, types and (if
    measured) speed; for another compiler, those whose lines one group of B
    computes."""
    kernels_same: int
    notes: tuple[str, ...]
    """Facts that one side lacks, so that they could not be compared."""
    by_lines: tuple[GroupByLines, ...] = ()
    """If one side was made by torch.compile and the other by TorchScript: each
    group of A that has lines of the program. These are not in ``groups``."""
    schema: str = SCHEMA
    unrelated: str | None = None
    """A sentence if the programs of A and B have nothing in common."""
    reports: tuple[Report, Report] | None = field(
        default=None, compare=False, repr=False, metadata={"json": False}
    )
    """A and B, for pictures of them."""

    @property
    def coverage_changed(self) -> bool:
        """True if the coverage changed. If only one log has operators outside
        groups, only the number of operators in groups is compared."""
        a, b = self.a.coverage, self.b.coverage
        if a.is_known == b.is_known:
            return a != b
        return a.ops_fused != b.ops_fused

    @property
    def same(self) -> bool:
        """True if fusion and speed are unchanged; environments and knobs may
        differ."""
        parts = (
            self.groups,
            self.unfused,
            self.fallbacks,
            self.kernels,
            self.findings,
            self.speed,
        )
        moved = any(one.kind != "one" for one in self.by_lines)
        return not (any(parts) or moved or self.coverage_changed)


def _group(kind: str) -> Callable[[Comparison], bool]:
    return lambda c: (
        any(kind in change.kinds for change in c.groups)
        or any(one.kind == kind for one in c.by_lines)
    )


def _kernel(*kinds: str) -> Callable[[Comparison], bool]:
    return lambda c: any(set(kinds) & set(change.kinds) for change in c.kernels)


def _slower(c: Comparison) -> bool:
    return (
        _group("slower")(c)
        or _kernel("slower")(c)
        or any(change.bandwidth == "lower" for change in c.kernels)
        or any(change.speed.change == "slower" for change in c.speed)
    )


def _registers(kernel: KernelRef | None) -> int:
    if kernel is None:
        return 0
    return kernel.registers or 0


def _coverage(c: Comparison) -> bool:
    """True if a smaller share of operators is fused; if a side has no share, if
    fewer operators are."""
    a, b = c.a.coverage.fraction, c.b.coverage.fraction
    if a is None or b is None:
        return c.a.coverage.ops_fused > c.b.coverage.ops_fused
    return b < a - 1e-9


WORDS: Mapping[str, tuple[str, Callable[[Comparison], bool]]] = {
    "group-gone": ("a group that B has no more", _group("gone")),
    "group-added": ("a group that A did not have", _group("added")),
    "split": ("a group whose operators are now in several", _group("split")),
    "merged": ("groups whose operators are now in one", _group("merged")),
    "operators": ("an operator that left or joined a group", _group("operators")),
    "types": ("a group with the same operators and other types", _group("types")),
    "unfused": (
        "an operator that is newly outside every group",
        lambda c: any(u.change == "came" for u in c.unfused),
    ),
    "reason": (
        "another reason for an operator outside every group",
        lambda c: any(u.change == "reason" for u in c.unfused),
    ),
    "fallback": (
        "a fallback that A did not have, or more of one",
        lambda c: any(
            f.change == "came"
            or (f.change == "count" and (f.count_b or 0) > (f.count_a or 0))
            for f in c.fallbacks
        ),
    ),
    "slower": ("a group, kernel or model that is slower", _slower),
    "code": ("a kernel with other code", _kernel("code")),
    "registers": (
        "a kernel with more registers",
        lambda c: any(
            "registers" in k.kinds and _registers(k.b) > _registers(k.a)
            for k in c.kernels
        ),
    ),
    "kernel": (
        "any change of a kernel but faster",
        lambda c: any(k.kinds != ("faster",) for k in c.kernels),
    ),
    "coverage": ("a smaller share of operators in groups", _coverage),
    "environment": (
        "another environment, fuser, knob or setting",
        lambda c: bool(c.differences),
    ),
    "any": ("any change but one of the environment", lambda c: not c.same),
}
"""Word -> (its meaning, whether a comparison has such a change). Besides these:
severities and finding codes."""


def reached(comparison: Comparison, word: str) -> bool:
    """True if the comparison has a change of the kind ``word``; a severity or code
    means new findings."""
    if word in WORDS:
        return WORDS[word][1](comparison)
    came = []
    for change in comparison.findings:
        if change.change == "came":
            came.append(change.finding)
    if word in SEVERITIES:
        worse = SEVERITIES[: SEVERITIES.index(word) + 1]
        return any(finding.severity in worse for finding in came)
    return any(finding.code == word.upper() for finding in came)


LEAST_LAUNCHES = 2
"""A single launch has no spread, so it proves nothing."""

SAME_BYTES = 0.01
"""Relative: a log prints six digits of both figures."""


def speed_change(
    a: Spread | None, b: Spread | None, threshold: float
) -> SpeedChange | None:
    """Compare two times in milliseconds; None if a side has none.

    Slower: the median is more than ``threshold`` (0.1 is 10 %) above A's, even the
    fastest of B took longer than the median of A, and the medians are further apart
    than the median of A is from its fastest. Nothing makes a launch faster by
    chance, while a busy machine makes some slower: so minimum and median decide,
    and the maximum does not. Faster is the same from B to A.
    """
    if (
        a is None
        or b is None
        or not all(map(isfinite, (a.min, a.median, b.min, b.median)))
    ):
        return None
    ratio = b.median / a.median if a.median > 0 else None
    change = None
    if _is_slower(a, b, threshold):
        change = "slower"
    elif _is_slower(b, a, threshold):
        change = "faster"
    return SpeedChange(a, b, ratio, change)


def _is_slower(a: Spread, b: Spread, threshold: float) -> bool:
    apart = b.median - a.median
    return (
        apart > a.median * threshold
        and b.min > a.median
        and apart > a.median - a.min
    )


def rate_change(a: Spread | None, b: Spread | None, threshold: float) -> str | None:
    """ "higher" or "lower" for two bandwidths, by the same rule, with the maximum
    instead of the minimum."""
    if a is None or b is None:
        return None
    if a.median > b.median * (1 + threshold) and b.max < a.median:
        return "lower"
    if b.median > a.median * (1 + threshold) and a.max < b.median:
        return "higher"
    return None


def measured(kernel: Kernel) -> Spread | None:
    """The time of a launch, if it was measured often enough to have a spread."""
    if kernel.ms is None or (
        kernel.launches is not None and kernel.launches < LEAST_LAUNCHES
    ):
        return None
    return kernel.ms


def rate(kernel: Kernel) -> Spread | None:
    """The bandwidth of a launch, if it was measured often enough to have a
    spread."""
    if kernel.gb_per_s is None or (
        kernel.launches is not None and kernel.launches < LEAST_LAUNCHES
    ):
        return None
    return kernel.gb_per_s


def counted_bytes(kernel: Kernel) -> float | None:
    """The bytes that the fuser counted for the bandwidth: another version may count
    differently, and then bandwidths do not show speed."""
    if kernel.ms is None or kernel.gb_per_s is None:
        return None
    # The fastest launch has the highest bandwidth, unless launches move different
    # bytes.
    fastest = kernel.ms.min * kernel.gb_per_s.max * 1e6
    slowest = kernel.ms.max * kernel.gb_per_s.min * 1e6
    if isclose(fastest, slowest, rel_tol=SAME_BYTES):
        return fastest
    return None


def total(kernels: Sequence[Kernel]) -> Spread | None:
    """The time of one run of all kernels; None unless each was measured."""
    times = [measured(kernel) for kernel in kernels]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times):
        return None
    return Spread(
        sum(t.min for t in known),
        sum(t.median for t in known),
        sum(t.max for t in known),
    )
