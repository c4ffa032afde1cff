"""What a file of expectations holds, after reading. Every part knows its place in the file.

Modules are named by patterns: ``encoder.layer.*.output``, ``encoder.layer.[0-11]``.

For which runs a section of a file of expectations holds: its ``when`` against what the report tells.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Sequence, Tuple, Union

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.model.report import Group, Instance, Report
from fusiondoc.model.source import path_ends_with

Path = Tuple[Union[str, int], ...]
"""Keys and indices from the top of the file: ``("sections", 0, "groups", 2)``."""


@dataclass(frozen=True)
class Position:
    """A place in the file, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Count:
    """How many there must be; None is no bound."""

    at_least: int | None = None
    at_most: int | None = None

    def holds(self, number: int) -> bool:
        return (self.at_least is None or number >= self.at_least) and (
            self.at_most is None or number <= self.at_most
        )

    def __str__(self) -> str:
        if self.at_least == self.at_most:
            return str(self.at_least)
        parts = [f"at least {self.at_least}"] if self.at_least is not None else []
        parts += [f"at most {self.at_most}"] if self.at_most is not None else []
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
        return f"{self.file}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")


@dataclass(frozen=True)
class Speed:
    """What kernels must reach. Both are lowered by ``tolerance``, a share from 0 to 1."""

    peak: float | None = None
    """Share of the device's memory bandwidth, from 0 to 1."""
    gb_per_s: float | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class GroupExpectation:
    """A fusion group that must be there, or must not.

    ``order`` says how ``ops`` are meant: "sequence" (the whole body in this order), "set" (these operators
    and no others, in any order and number) or "contains" (these in this order, others between them).
    """

    ops: tuple[str, ...] = ()
    order: str = "sequence"
    count: Count = Count(at_least=1)
    phase: str | None = None
    source: tuple[SourceRange, ...] = ()
    function: str | None = None
    module: str | None = None
    layer: tuple[str, ...] = ()
    """Patterns of module paths (see layer_patterns.py); the instances in one of them count."""
    dtype: tuple[str, ...] = ()
    speed: Speed = Speed()
    at: Position | None = None
    path: Path = ()


@dataclass(frozen=True)
class ModuleShare:
    """The least share of a module's operators that is in groups."""

    layer: str
    """A pattern; all modules that it names, and those inside them, are taken together."""
    coverage: float
    """From 0 to 1: of their operators that ran, whether or not a fuser takes them."""
    at: Position | None = None
    path: Path = ()


@dataclass(frozen=True)
class Findings:
    """Codes, severities or families (``FD3xx``) of findings."""

    expect: tuple[str, ...] = ()
    """Each must occur."""
    forbid: tuple[str, ...] = ()
    """None may occur."""
    allow: tuple[str, ...] | None = None
    """No other may occur; None allows all."""


@dataclass(frozen=True)
class When:
    """For which runs a section holds; empty holds for all."""

    fuser: tuple[str, ...] = ()
    torch: str | None = None
    gpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepLimits:
    """What the profiled run must show. Shares are of a step, from 0 to 1."""

    max_ms: float | None = None
    min_groups: float | None = None
    max_unfused: float | None = None
    max_could_save: float | None = None


@dataclass(frozen=True)
class Section:
    """Expectations that hold together."""

    name: str
    path: Path
    at: Position
    when: When = When()
    groups: tuple[GroupExpectation, ...] = ()
    modules: tuple[ModuleShare, ...] = ()
    number_of_groups: Count | None = None
    max_fallbacks: int | None = None
    not_fused: tuple[str, ...] | None = None
    """Operators that may be outside groups; None says nothing of them."""
    min_coverage: float | None = None
    speed: Speed = Speed()
    steps: StepLimits = StepLimits()
    findings: Findings = Findings()
    places: dict[str, Position] = field(default_factory=dict)
    """Key of the section -> where it stands."""


@dataclass(frozen=True)
class Expectations:
    """A file of them."""

    file: str
    sections: tuple[Section, ...]

    @property
    def need_profile(self) -> bool:
        """Whether any section says something of the time of a step."""
        return any(section.steps != StepLimits() for section in self.sections)


_NUMBERS = re.compile(r"\[([0-9,-]+)\]")


def instances_in(group: Group, patterns: Sequence[str]) -> tuple[Instance, ...]:
    """The instances of a group that are in one of these modules; all of them without a pattern."""
    if not patterns:
        return group.instances
    return tuple(
        one
        for one in group.instances
        if one.layer is not None and any(is_in_layer(one.layer, pattern) for pattern in patterns)
    )


def is_in_layer(layer: str, pattern: str) -> bool:
    """Whether a module is the one that the pattern names, or inside it.

    ``*`` is any text without a dot, ``[0-3,7]`` are numbers, as reports fold them.
    """
    found = _compiled(pattern).match(layer)
    return found is not None and all(
        _among(int(number), ranges)
        for number, ranges in zip(found.groups(), (one.group(1) for one in _NUMBERS.finditer(pattern)))
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = _NUMBERS.split(pattern)
    texts = (re.escape(text).replace(r"\*", "[^.]*") for text in parts[::2])
    return re.compile("([0-9]{1,9})".join(texts) + r"(?:\.|\Z)")


def _among(number: int, ranges: str) -> bool:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        if int(first) <= number <= int(last or first):
            return True
    return False


_PART = re.compile(r"(>=|<=|==|!=|>|<)?\s*(\d+(?:\.\d+)*)\Z")


def applying(expectations: Expectations, report: Report) -> list[Section]:
    """The sections that hold for the run that the report is of."""
    return [section for section in expectations.sections if why_not(section.when, report) is None]


def why_not(when: When, report: Report) -> str | None:
    """Why a section does not hold for this run; None if it does.

    What a plain log does not tell (its torch, its GPU) counts as different: a gate must not guess.
    """
    fuser, torch, gpu = report.fuser.effective, report.environment.get("torch"), report.environment.get("gpu")
    if when.fuser and fuser not in when.fuser:
        return f"it is for {' or '.join(when.fuser)}, and the fuser is {fuser or 'unknown'}"
    if when.torch is not None and (torch is None or not version_fits(torch, when.torch)):
        return f"it is for torch {when.torch}, and torch is {torch or 'unknown'}"
    if when.gpu and not any(part.lower() in (gpu or "").lower() for part in when.gpu):
        return f"it is for {' or '.join(when.gpu)}, and the GPU is {gpu or 'unknown'}"
    name = report.target.name or ""
    if when.target and not any(path_ends_with(name, end) for end in when.target):
        return f"it is for {' or '.join(when.target)}, and the model is {name or 'unknown'}"
    return None


def version_fits(version: str, wanted: str) -> bool:
    """Whether a version (``2.1.2+cu121``) is in what is wanted (``>=1.12, <2.2``; ``2.1`` is every 2.1.x).

    Compared as pip does, by the numbers before the first letter or plus sign: ``<=2.1`` leaves out 2.1.2.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if match is None:
        return False
    return all(_fits(_numbers(match.group(1)), part.strip()) for part in wanted.split(","))


def _fits(version: tuple[int, ...], part: str) -> bool:
    match = _PART.match(part)
    if match is None:
        return False
    sign, limit = match.group(1) or "==", _numbers(match.group(2))
    if sign in ("==", "!="):
        return (_padded(version, len(limit))[: len(limit)] == limit) == (sign == "==")
    size = max(len(version), len(limit))
    a, b = _padded(version, size), _padded(limit, size)
    return {">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b}[sign]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def _padded(version: tuple[int, ...], size: int) -> tuple[int, ...]:
    return version + (0,) * (size - len(version))
