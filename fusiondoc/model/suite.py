"""What ``fusiondoc bench --suite`` measured. (named as workflows/suite.py: it makes this)"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Iterator

from fusiondoc.model.bench import EAGER, Bench, BenchPhase, BenchVariant
from fusiondoc.model.quick_dataclass import dataclass

SCHEMA = "fusiondoc.suite/1"

SPEED = "speed"
MEMORY = "memory"


@dataclass(frozen=True)
class Published:
    """A figure that the authors of a suite published, against eager."""

    case: str
    """The case that it is of; with a ``*`` the cases of which it is the most."""
    variant: str
    """Which variant of ours runs what they ran."""
    phase: str
    measure: str
    """"speed" (above 1 is faster) or "memory" (above 1 is more)."""
    value: float
    what: str
    """On what it was measured, and how it was summed up."""


@dataclass(frozen=True)
class Beside:
    """A published figure and what one interpreter gave here."""

    published: Published
    interpreter: str
    case: str
    """The case that was measured; for the most of several the one that has it."""
    value: float
    low: float | None = None
    high: float | None = None
    """The 95 % interval of a speed."""


@dataclass(frozen=True)
class SuiteCase:
    """A program of the suite on one kind of inputs."""

    block: str
    sizes: str
    bench: Bench | None
    reason: str | None = None
    """Why there is no bench of it."""

    @property
    def name(self) -> str:
        return f"{self.block} {self.sizes}"


@dataclass(frozen=True)
class Suite:
    """All cases of a suite that were run."""

    suite: str
    small: bool
    """Sizes for a CPU, not those of the authors: no figure of theirs can be held against them."""
    cases: tuple[SuiteCase, ...]
    published: tuple[Published, ...] = ()
    why_different: tuple[str, ...] = ()
    """What differs between the authors' measurements and these."""
    interrupted: bool = False
    schema: str = SCHEMA

    def interpreters(self) -> list[str]:
        """In the order of the command."""
        return list(dict.fromkeys(one.interpreter for _, one in self.variants()))

    def variants(self) -> Iterator[tuple[SuiteCase, BenchVariant]]:
        """Every variant of every case."""
        for case in self.cases:
            for one in case.bench.variants if case.bench is not None else ():
                yield case, one

    def slower(self) -> list[str]:
        """Variants that are slower than eager in some case."""
        return [
            f"{case.name}: {name}"
            for case in self.cases
            for name in (case.bench.slower() if case.bench is not None else [])
        ]

    def beside(self) -> list[Beside]:
        """Every published figure with what was measured here; none for small sizes."""
        found = []
        for published in self.published if not self.small else ():
            for interpreter in self.interpreters():
                measured = [
                    _measured(published, case.name, case.bench, one)
                    for case, one in self.variants()
                    if one.interpreter == interpreter
                    and one.name == published.variant
                    and fnmatchcase(case.name, published.case)
                ]
                present = [one for one in measured if one is not None]
                if present:
                    found.append(max(present, key=lambda one: one.value))
        return found


def phase_of(variant: BenchVariant, phase: str) -> BenchPhase | None:
    """That phase of the variant, if it was timed."""
    for one in variant.phases:
        if one.phase == phase:
            return one
    return None


def memory_ratio(bench: Bench, variant: BenchVariant) -> float | None:
    """Peak memory against eager of the same interpreter; None where either is not known."""
    eager = bench.eager(variant.interpreter)
    if variant.name == EAGER or variant.peak_bytes is None or eager is None or not eager.peak_bytes:
        return None
    return variant.peak_bytes / eager.peak_bytes


def _measured(published: Published, case: str, bench: Bench | None, one: BenchVariant) -> Beside | None:
    if bench is None:
        return None
    if published.measure == MEMORY:
        memory = memory_ratio(bench, one)
        return None if memory is None else Beside(published, one.interpreter, case, memory)
    phase = phase_of(one, published.phase)
    if phase is None or phase.ratio is None:
        return None
    return Beside(published, one.interpreter, case, phase.ratio.value, phase.ratio.low, phase.ratio.high)
