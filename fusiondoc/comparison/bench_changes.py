"""Changes from one bench to another: faster, slower or no difference, for each
variant, phase and shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import exp, hypot, log

from fusiondoc.model import dataclass
from fusiondoc.model.bench import (
    PROCESS_SPREAD,
    VARIANTS,
    Bench,
    BenchPhase,
    BenchVariant,
    Measured,
    Ratio,
    Suite,
)

SCHEMA = "fusiondoc.bench-comparison/1"

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference"


@dataclass(frozen=True)
class BenchDifference:
    """A value of the environment that differs between the sides."""

    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class BenchChange:
    """One variant in one phase with one shape, on both sides."""

    variant: str
    interpreter: str
    """The interpreter in B."""
    phase: str
    inputs: str
    a: Measured
    """Milliseconds of a step."""
    b: Measured
    ratio: Ratio
    """Speed of B against A: above 1 is faster."""
    change: str
    """"faster", "slower" or "no difference" (the 95 % interval of the ratio holds
    1)."""
    peak_bytes_a: int | None
    peak_bytes_b: int | None
    case: str | None = None
    """For a suite, the case."""


@dataclass(frozen=True)
class BenchComparison:
    """The changes from bench A to bench B."""

    a: str
    """Name of the file of A."""
    b: str
    environment: tuple[BenchDifference, ...]
    changes: tuple[BenchChange, ...]
    only_a: tuple[str, ...]
    """Measurements of A that B does not have."""
    only_b: tuple[str, ...]
    schema: str = SCHEMA

    def having(self, change: str) -> list[BenchChange]:
        """The rows with that change, without eager ones: those measure the
        machine."""
        changes = []
        for row in self.changes:
            if row.change == change and row.variant != VARIANTS[0]:
                changes.append(row)
        return changes


def compare_benches(
    a: Bench, b: Bench, names: tuple[str, str], least: float = 0.0
) -> BenchComparison:
    """Compare two benches: variants are matched by name, interpreters by name (else
    by order), shapes by their inputs. Args: least: a smaller difference (0.1 is
    10 %) counts as none, whatever the interval is.
    """
    old, new = dict(_timed(a, a)), dict(_timed(b, a))
    changes = []
    for key in new:
        if key not in old:
            continue
        ratio = ratio_of_medians(old[key][1].ms, new[key][1].ms)
        changes.append(
            BenchChange(
                variant=key[0],
                interpreter=new[key][0].interpreter,
                phase=key[2],
                inputs=key[3],
                a=old[key][1].ms,
                b=new[key][1].ms,
                ratio=ratio,
                change=_change(ratio, least),
                peak_bytes_a=old[key][1].peak_bytes,
                peak_bytes_b=new[key][1].peak_bytes,
            )
        )
    first_index: dict[tuple[str, ...], int] = {}
    for number, change in enumerate(changes):
        first_index.setdefault(_section_of(change), number)
    changes.sort(key=lambda row: first_index[_section_of(row)])
    return BenchComparison(
        *names,
        tuple(_environment(a, b)),
        tuple(changes),
        tuple(_name(key) for key in old if key not in new),
        tuple(_name(key) for key in new if key not in old),
    )


def _section_of(change: BenchChange) -> tuple[str, ...]:
    return change.phase, change.inputs, change.interpreter


def compare_suites(
    a: Suite, b: Suite, names: tuple[str, str], least: float = 0.0
) -> BenchComparison:
    """Compare two suites case by case, as benches; a case that only one side could
    time is in ``only_a`` or ``only_b``."""
    old, new = _cases(a), _cases(b)
    changes: list[BenchChange] = []
    environment: dict[str, BenchDifference] = {}
    only_a, only_b = (
        [name for name in old if name not in new],
        [name for name in new if name not in old],
    )
    for name, bench in new.items():
        if name not in old:
            continue
        found = compare_benches(old[name], bench, names, least)
        changes += [replace(row, case=name) for row in found.changes]
        only_a += [f"{name}: {missing}" for missing in found.only_a]
        only_b += [f"{name}: {missing}" for missing in found.only_b]
        for difference in found.environment:
            environment.setdefault(difference.name, difference)
    about = {"suite": (a.suite, b.suite), "sizes": (_sizes(a), _sizes(b))}
    differing = []
    for name, values in about.items():
        if len(set(values)) > 1:
            differing.append(BenchDifference(name, *values))
    return BenchComparison(
        *names,
        (*differing, *environment.values()),
        tuple(changes),
        tuple(only_a),
        tuple(only_b),
    )


def _cases(suite: Suite) -> dict[str, Bench]:
    cases = {}
    for case in suite.cases:
        if case.bench is not None:
            cases[case.name] = case.bench
    return cases


def _sizes(suite: Suite) -> str:
    if suite.small:
        return "small"
    return "full"


def ratio_of_medians(a: Measured, b: Measured) -> Ratio:
    """How many times as fast B is. The interval is computed from the intervals of
    both medians, on the scale of logarithms, where they are added as variances are
    (MOVER: Zou and Donner, Statistics in Medicine 27, 2008), and is widened by the
    spread of processes: the two did not run in turns.
    """
    centre = log(a.median / b.median)
    low = centre - hypot(log(a.median / a.low), log(b.high / b.median))
    high = centre + hypot(log(a.high / a.median), log(b.median / b.low))
    return Ratio(
        exp(centre),
        exp(low) * (1 - PROCESS_SPREAD),
        exp(high) * (1 + PROCESS_SPREAD),
    )


def _change(ratio: Ratio, least: float) -> str:
    if not ratio.differs or 1 / (1 + least) < ratio.value < 1 + least:
        return NO_DIFFERENCE
    if ratio.value > 1:
        return FASTER
    return SLOWER


_Key = tuple[str, str, str, str]
"""Variant, interpreter, phase, inputs."""


def _timed(
    bench: Bench, first: Bench
) -> Iterator[tuple[_Key, tuple[BenchVariant, BenchPhase]]]:
    names = _interpreters(bench, first)
    for variant in bench.variants:
        for phase in variant.phases:
            shape = None
            if phase.shape < len(bench.shapes):
                shape = bench.shapes[phase.shape]
            inputs = shape.label if shape is not None else ", ".join(bench.inputs)
            yield (
                (variant.name, names[variant.interpreter], phase.phase, inputs),
                (variant, phase),
            )


def _interpreters(bench: Bench, first: Bench) -> dict[str, str]:
    """The name of each interpreter in the first bench, or the name at the same
    index there."""
    mine, theirs = _labels(bench), _labels(first)
    if len(mine) != len(theirs):
        return {label: label for label in mine}
    known = set(theirs)
    interpreters = {}
    for label, there in zip(mine, theirs):
        interpreters[label] = label if label in known else there
    return interpreters


def _labels(bench: Bench) -> list[str]:
    return list(dict.fromkeys(variant.interpreter for variant in bench.variants))


def _name(key: _Key) -> str:
    return ", ".join(str(part) for part in (key[0], key[2], key[3]) if part)


def _environment(a: Bench, b: Bench) -> Iterator[BenchDifference]:
    for name, (old, new) in {
        "target": (a.target, b.target),
        "interpreters": ("; ".join(_labels(a)), "; ".join(_labels(b))),
        **_both(a.environment, b.environment),
    }.items():
        if old != new:
            yield BenchDifference(name, old, new)


def _both(
    a: Mapping[str, str], b: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    return {name: (a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b])}
