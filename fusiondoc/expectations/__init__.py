"""The content of a file of expectations, after reading: every part knows its
position in the file.

Modules are named by patterns: ``encoder.layer.*.output``, ``encoder.layer.[0-11]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Group, Instance
from fusiondoc.numbers import whole_number

Path = tuple[str | int, ...]
"""Keys and indices from the top of the file: ``("sections", 0, "groups", 2)``."""


@dataclass(frozen=True)
class FilePosition:
    """A position in the file, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class RequiredCount:
    """The required number; None is no bound."""

    at_least: int | None = None
    at_most: int | None = None
    plain: bool = False
    """Whether it is written as a plain number."""

    def holds(self, number: int) -> bool:
        return (self.at_least is None or number >= self.at_least) and (
            self.at_most is None or number <= self.at_most
        )

    def __str__(self) -> str:
        if self.at_least == self.at_most:
            return str(self.at_least)
        parts = [f"at least {self.at_least}"] if self.at_least is not None else []
        if self.at_most is not None:
            parts.append(f"at most {self.at_most}")
        return " and ".join(parts)


@dataclass(frozen=True)
class SourceRange:
    """A file, or lines of it: ``model.py``, ``model.py:31``, ``model.py:18-20``."""

    file: str
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None:
            return self.file
        return f"{self.file}:{self.first}" + (
            f"-{self.last}" if self.last != self.first else ""
        )


@dataclass(frozen=True)
class RequiredSpeed:
    """The speed that kernels must reach. ``tolerance``, a share from 0 to 1, lowers
    both limits."""

    peak: float | None = None
    """Share of the device's memory bandwidth, from 0 to 1."""
    gb_per_s: float | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class GroupExpectation:
    """A fusion group that must exist, or must not. ``order``: the meaning of
    ``ops``: "sequence" (the whole body in this order), "set" (these operators and
    no others, in any order and number) or "contains" (these in this order, others
    between them).
    """

    ops: tuple[str, ...] = ()
    order: str = "sequence"
    count: RequiredCount = RequiredCount(at_least=1)
    phase: str | None = None
    source: tuple[SourceRange, ...] = ()
    function: str | None = None
    module: str | None = None
    layer: tuple[str, ...] = ()
    """Patterns of module paths (``is_in_layer``); only instances in a matching
    module count."""
    dtype: tuple[str, ...] = ()
    speed: RequiredSpeed = RequiredSpeed()
    at: FilePosition | None = None
    path: Path = ()


@dataclass(frozen=True)
class ModuleShare:
    """The least share of a module's operators that is in groups."""

    layer: str
    """A pattern; all modules that it matches, and the modules inside them, are
    taken together."""
    coverage: float
    """Share from 0 to 1 of their operators that ran, whether or not a fuser takes
    them."""
    at: FilePosition | None = None
    path: Path = ()


@dataclass(frozen=True)
class Findings:
    """Codes, severities or families (``FD3xx``) of findings."""

    expect: tuple[str, ...] = ()
    """Findings that must occur."""
    forbid: tuple[str, ...] = ()
    """Findings that must not occur."""
    allow: tuple[str, ...] | None = None
    """The only findings that may occur; None allows all."""


@dataclass(frozen=True)
class When:
    """The runs to which a section applies; empty for all runs."""

    fuser: tuple[str, ...] = ()
    torch: str | None = None
    gpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    """If the file gives none, the target of ``run``."""


@dataclass(frozen=True)
class StepLimits:
    """Limits of the profiled run. Shares of a step, from 0 to 1."""

    max_ms: float | None = None
    min_groups: float | None = None
    max_unfused: float | None = None
    max_could_save: float | None = None


@dataclass(frozen=True)
class HowToRun:
    """How ``check`` without a target runs the model of a section."""

    target: str | None = None
    python: str | None = None
    files: tuple[str, ...] = ()
    """Patterns of files, beside those of the program, that the result depends
    on."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the run, by their names in ``model/run_options.py``."""


@dataclass(frozen=True)
class Renamed:
    """The target of a section that no longer exists, and the target that has its
    groups."""

    old: str
    new: str


@dataclass(frozen=True)
class OneKernel:
    """Lines of a program whose operators torch.compile computes in one kernel."""

    source: tuple[SourceRange, ...]
    ops: tuple[str, ...] = ()
    """Operators that the kernel has at these lines, in any order, each as often as
    it is named; empty: all operators at the lines."""
    phase: str = "forward"
    at: FilePosition | None = None
    path: Path = ()


@dataclass(frozen=True)
class GraphLimits:
    """Limits of each graph that torch.compile made from these lines; without lines,
    of each graph."""

    source: tuple[SourceRange, ...] = ()
    phase: str = "forward"
    max_kernels: int | None = None
    bytes_at_most: int | None = None
    """Most bytes that its kernels and calls read and write, by the compiler's
    count."""
    at: FilePosition | None = None
    path: Path = ()


@dataclass(frozen=True)
class CompiledLimits:
    """Limits of a run under torch.compile. None is no limit."""

    one_kernel: tuple[OneKernel, ...] = ()
    graphs: tuple[GraphLimits, ...] = ()
    max_graph_breaks: int | None = None
    """Most lines of the user's own files with a graph break."""
    max_recompiles: int | None = None
    may_fall_back: tuple[str, ...] | None = None
    """Operators that may run in eager code; None allows all."""
    bytes_at_most: int | None = None
    """Most bytes of all graphs together, each for its first types and sizes."""


@dataclass(frozen=True)
class ExpectationSection:
    """Expectations that are checked together."""

    name: str
    path: Path
    at: FilePosition
    when: When = When()
    groups: tuple[GroupExpectation, ...] = ()
    modules: tuple[ModuleShare, ...] = ()
    number_of_groups: RequiredCount | None = None
    max_fallbacks: int | None = None
    not_fused: tuple[str, ...] | None = None
    """Operators that may be outside groups; None allows all."""
    min_coverage: float | None = None
    speed: RequiredSpeed = RequiredSpeed()
    steps: StepLimits = StepLimits()
    findings: Findings = Findings()
    compiled: CompiledLimits = CompiledLimits()
    positions: dict[str, FilePosition] = field(default_factory=dict)
    """Key of the section -> its position."""
    renamed: Renamed | None = None
    """Set if its model has another name in the run that is checked."""
    run: HowToRun = HowToRun()


@dataclass(frozen=True)
class ModelLimits:
    """Limits for several models; None is no limit."""

    max_fallbacks: int | None = None
    min_coverage: float | None = None
    max_step_ms: float | None = None


@dataclass(frozen=True)
class PolicyException:
    """Other limits for some models, until a day."""

    model: tuple[str, ...]
    """Patterns of names of sections."""
    reason: str
    until: date
    """The last day on which it is valid (UTC)."""
    limits: ModelLimits
    allow: tuple[str, ...]
    """Findings that may occur."""
    at: FilePosition


@dataclass(frozen=True)
class Policy:
    """Limits and findings for all models of a file."""

    limits: ModelLimits
    no: tuple[str, ...]
    """Findings that may not occur."""
    exceptions: tuple[PolicyException, ...]
    at: FilePosition
    positions: dict[str, FilePosition]

    @property
    def limits_times(self) -> bool:
        """Whether it needs a profiled run."""
        return self.limits.max_step_ms is not None


@dataclass(frozen=True)
class Expectations:
    """The content of a file of expectations."""

    file: str
    sections: tuple[ExpectationSection, ...]
    policy: Policy | None = None

    @property
    def need_profile(self) -> bool:
        """Whether any section limits the time of a step."""
        by_policy = self.policy is not None and self.policy.limits_times
        return by_policy or any(
            section.steps != StepLimits() for section in self.sections
        )


_NUMBERS = re.compile(r"\[([0-9,-]+)\]")


def instances_in(group: Group, patterns: Sequence[str]) -> tuple[Instance, ...]:
    """The instances of a group that are in a module matching one of these patterns;
    all instances without a pattern."""
    if not patterns:
        return group.instances
    instances = []
    for instance in group.instances:
        if instance.layer is not None and any(
            is_in_layer(instance.layer, pattern) for pattern in patterns
        ):
            instances.append(instance)
    return tuple(instances)


def is_in_layer(layer: str, pattern: str) -> bool:
    """True if a module matches the pattern, or is inside one that does. ``*`` is
    any text without a dot, ``[0-3,7]`` are numbers, as reports abbreviate them.
    """
    found = _compiled(pattern).match(layer)
    return found is not None and all(
        _among(whole_number(number), ranges)
        for number, ranges in zip(
            found.groups(), (match.group(1) for match in _NUMBERS.finditer(pattern))
        )
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = _NUMBERS.split(pattern)
    texts = (re.escape(text).replace(r"\*", "[^.]*") for text in parts[::2])
    return re.compile("([0-9]{1,9})".join(texts) + r"(?:\.|\Z)")


def _among(number: int | None, ranges: str) -> bool:
    for range_text in ranges.split(","):
        first, _, last = range_text.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if (
            number is not None
            and low is not None
            and high is not None
            and low <= number <= high
        ):
            return True
    return False
