"""Explains why an expected group does not exist: the nearest group, and the
operators that it lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from fusiondoc.alignment import common, longest_common
from fusiondoc.expectations import GroupExpectation, RequiredSpeed, instances_in
from fusiondoc.expectations.missing import Missing, same_phase, where_is
from fusiondoc.expectations.missing_in_words import sentences, without_namespace
from fusiondoc.expectations.source_lines import (
    is_in,
    line_of,
    named,
    names_at,
    near,
)
from fusiondoc.model import dataclass
from fusiondoc.model.operator_places import folded
from fusiondoc.model.report import Group, Instance, Kernel, Report

_MOST_OPERATORS = 12
_MOST_REASONS = 4
_MOST_COMPARED = 200
"""Most different bodies that are aligned operator by operator, those that share
most operators first."""


@dataclass(frozen=True)
class NearMiss:
    """The nearest group to an expected one, and the differences between them."""

    wanted: GroupExpectation
    group: Group | None
    """None if no group has any of the operators."""
    shared: tuple[str, ...]
    """The expected operators that the group has, in order."""
    missing: tuple[Missing, ...]
    extra: tuple[str, ...]
    """Operators of the group that were not expected."""
    conditions: tuple[Mismatch, ...]
    """Conditions other than operators that it does not meet."""

    @property
    def found(self) -> str:
        """``add, relu (G1)``, ``add, relu (G1 ×3 in encoder.layer.[0-2])``."""
        if self.group is None:
            if not self.wanted.ops:
                return "no such group"
            kind = f"{self.wanted.phase} group" if self.wanted.phase else "group"
            if any(missing.group is not None for missing in self.missing):
                return f"no {kind} of its own"
            if any(missing.of_others for missing in self.missing):
                return f"no other {kind} with most of them"
            return f"no {kind} with any of them"
        return f"{short(self.group.ops)} ({instances(self.group, instances_in(self.group, self.wanted.layer))})"

    @property
    def why(self) -> str:
        """The differences from the expectation, in one line."""
        parts = sentences(self.missing)
        if len(parts) > _MOST_REASONS:
            parts[_MOST_REASONS:] = [
                f"and {len(parts) - _MOST_REASONS} more reasons"
            ]
        if self.extra:
            parts.append(f"it also has {short(self.extra)}")
        parts += [mismatch.text for mismatch in self.conditions]
        if (
            not parts
            and self.group is not None
            and not same_operators(self.group.ops, self.wanted)
        ):
            parts.append("the same operators are in another order")
        return "; ".join(parts)

    @property
    def text(self) -> str:
        """``expected add, relu, mul; found add, relu (G1): mul is not fused
        ...``."""
        why = self.why
        return f"expected {describe(self.wanted)}; found {self.found}" + (
            f": {why}" if why else ""
        )


def near_miss(
    report: Report,
    wanted: GroupExpectation,
    groups: Sequence[Group],
    claimed: Collection[str] = (),
    outside: Collection[str] = (),
) -> NearMiss:
    """Return the near miss of an expectation that no group fulfils: the nearest of
    ``groups``, the candidates.

    ``claimed`` are the ids of groups that fulfil expectations: their operators are
    not the ones that this one lacks. ``outside`` names the operators that the file
    knows outside groups.
    """
    kernels = {kernel.id: kernel for kernel in report.kernels}
    group = next(
        (near.group for near in by_nearness(groups, wanted, kernels)), None
    )
    if group is None:
        missing = where_is(
            report,
            wanted,
            None,
            [(op, None) for op in wanted.ops],
            claimed,
            outside,
        )
        return NearMiss(wanted, None, (), missing, (), ())
    if wanted.order == "set":
        found = _as_sets(wanted, group)
    else:
        found = _in_order(wanted, group)
    conditions = []
    for m in mismatches(group, wanted, kernels):
        if m.what != "operators":
            conditions.append(m)
    missing = where_is(report, wanted, group, found.lacking, claimed, outside)
    return NearMiss(
        wanted, group, found.shared, missing, found.extra, tuple(conditions)
    )


class _Compared(NamedTuple):
    """The operators of an expectation compared with those of a group."""

    shared: tuple[str, ...]
    lacking: Sequence[tuple[str, int | None]]
    """Operators that the group lacks, each with the index of the group's node
    before it."""
    extra: tuple[str, ...]


def _as_sets(wanted: GroupExpectation, group: Group) -> _Compared:
    names = tuple(dict.fromkeys(wanted.ops))
    shared = tuple(op for op in names if op in group.ops)
    lacking = []
    for op in names:
        if op not in group.ops:
            lacking.append((op, None))
    extra = tuple(op for op in dict.fromkeys(group.ops) if op not in names)
    return _Compared(shared, lacking, extra)


def _in_order(wanted: GroupExpectation, group: Group) -> _Compared:
    pairs = longest_common(wanted.ops, group.ops)
    there = dict(pairs)
    used = set(there.values())
    spare = Counter(op for index, op in enumerate(group.ops) if index not in used)
    lacking: list[tuple[str, int | None]] = []
    before = None
    for index, op in enumerate(wanted.ops):
        if index in there:
            before = there[index]
        elif wanted.order == "sequence" and spare[op]:
            spare[op] -= 1  # it is there, in another order
        else:
            lacking.append((op, before))
    if wanted.order == "sequence" and wanted.ops:
        extra = tuple(spare.elements())
    else:
        extra = ()
    return _Compared(tuple(wanted.ops[index] for index, _ in pairs), lacking, extra)


def instances(group: Group, these: Sequence[Instance] = ()) -> str:
    """``G1``, ``G1 ×3 in layer.[0-2]``: a group with the number of its instances,
    and their modules."""
    chosen = these or group.instances
    layers = folded(instance.layer for instance in chosen)
    return (
        group.id
        + (f" ×{len(chosen)}" if len(chosen) > 1 else "")
        + (f" in {layers}" if layers else "")
    )


def describe(wanted: GroupExpectation) -> str:
    """The expectation in words: ``add, relu in forward from model.py:31``."""
    if wanted.order == "set":
        text = f"{short(wanted.ops)} in any order"
    elif wanted.order == "contains":
        text = f"a group with {short(wanted.ops)}"
    else:
        text = short(wanted.ops) or "a group"
    if wanted.phase:
        text += f" in {wanted.phase}"
    if wanted.source:
        text += f" from {', '.join(map(str, wanted.source))}"
    if wanted.function:
        text += f" of function {wanted.function}"
    if wanted.module:
        text += f" of class {wanted.module}"
    if wanted.layer:
        text += f" in layer {' or '.join(wanted.layer)}"
    if wanted.dtype:
        text += f" with {' or '.join(wanted.dtype)}"
    if wanted.speed.peak is not None:
        text += f" at {percent(wanted.speed.peak)} of peak"
    if wanted.speed.gb_per_s is not None:
        text += f" at {wanted.speed.gb_per_s:,.0f} GB/s"
    return text


def short(ops: Sequence[str]) -> str:
    """Operators without ``aten::``; if there are many, the first ones and their
    number."""
    names = [without_namespace(op) for op in ops]
    if len(names) > _MOST_OPERATORS:
        return (
            ", ".join(names[: _MOST_OPERATORS - 2])
            + f", ... ({len(names)} operators)"
        )
    return ", ".join(names)


class Near(NamedTuple):
    """A group that has operators of an expectation, but does not fulfil it."""

    group: Group
    shared: int
    """Number of the expectation's operators that it has, in order."""
    failed: int
    """Number of conditions other than the operators that it does not meet."""


_Rank = tuple[int, int, int, int, int]
"""Sort key, lower is nearer: operators shared in order, shared in any order,
conditions failed, operators, index."""


def by_nearness(
    groups: Sequence[Group], wanted: GroupExpectation, kernels: Mapping[str, Kernel]
) -> Iterator[Near]:
    """The groups of the same phase that share operators with the expectation,
    nearest first: operators in order, then in any, then conditions, fewest others.
    Evaluated lazily."""
    # Layers repeat: each different body is compared once, the most promising first.
    bodies: dict[tuple[str, ...], list[tuple[int, Group]]] = {}
    for index, group in enumerate(groups):
        if same_phase(group.phase, wanted.phase):
            bodies.setdefault(group.ops, []).append((index, group))
    bounds = []
    for ops in bodies:
        bounds.append((common(ops, wanted.ops), ops))
    bounds.sort(key=lambda bound: -bound[0])
    waiting: list[tuple[_Rank, Near]] = []
    for bound, ops in bounds[:_MOST_COMPARED]:
        while waiting and -waiting[0][0][0] > bound:
            yield heappop(waiting)[1]
        in_order = wanted.order != "set"
        shared = len(
            longest_common(wanted.ops, ops)
            if in_order
            else set(ops) & set(wanted.ops)
        )
        if wanted.ops and not shared:
            continue
        for index, group in bodies[ops]:
            failed = 0
            for m in mismatches(group, wanted, kernels):
                if m.what != "operators":
                    failed += 1
            heappush(
                waiting,
                (
                    (-shared, -bound, failed, len(ops), index),
                    Near(group, shared, failed),
                ),
            )
    while waiting:
        yield heappop(waiting)[1]


DTYPE_OF = {
    "Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float64",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128", "Char": "int8", "Short": "int16",
    "Int": "int32", "Long": "int64", "Byte": "uint8", "Bool": "bool",
}  # fmt: skip
"""Scalar types as TorchScript prints them -> torch dtypes (c10/core/ScalarType.h,
torch 2.1)."""


class Mismatch(NamedTuple):
    """A condition that a group does not meet."""

    what: str
    """"operators", "phase", "source", "function", "module", "layer", "dtype" or
    "speed"."""
    text: str
    """A sentence on its actual state: ``it is in the backward phase``."""


def mismatches(
    group: Group, wanted: GroupExpectation, kernels: Mapping[str, Kernel]
) -> list[Mismatch]:
    """The conditions that the group does not meet; empty if it is as expected."""
    found = []
    if not same_operators(group.ops, wanted):
        found.append(Mismatch("operators", "its operators differ"))
    if wanted.phase is not None and group.phase != wanted.phase:
        is_ = f"is {group.phase}" if group.phase else "is not in the log"
        found.append(Mismatch("phase", f"its phase {is_}, not {wanted.phase}"))
    found += [Mismatch("source", text) for text in _source(group, wanted)]
    found += [Mismatch("function", text) for text in _names(group, wanted)]
    if wanted.layer and not instances_in(group, wanted.layer):
        if group.layers:
            is_ = f"it is in {folded(group.layers)}"
        else:
            is_ = "the log does not contain its layer"
        found.append(
            Mismatch("layer", f"{is_}, not in {' or '.join(wanted.layer)}")
        )
    found += [Mismatch("dtype", text) for text in _dtype(group, wanted)]
    for text in too_slow(
        [kernels[k] for k in group.kernels if k in kernels], wanted.speed
    ):
        found.append(Mismatch("speed", text))
    return found


def same_operators(ops: tuple[str, ...], wanted: GroupExpectation) -> bool:
    """True if the operators of a group are the expected ones, in the sense of
    ``wanted.order``."""
    if not wanted.ops:
        return True
    if wanted.order == "set":
        return set(ops) == set(wanted.ops)
    if wanted.order == "contains":
        rest = iter(ops)
        return all(op in rest for op in wanted.ops)
    return ops == wanted.ops


def too_slow(kernels: list[Kernel], speed: RequiredSpeed) -> list[str]:
    """Sentences on kernels below the limits; also if none was measured, as nothing
    is known then."""
    found = []
    for key, limit in (("min_peak", speed.peak), ("min_gb_per_s", speed.gb_per_s)):
        if limit is None:
            continue
        measured = []
        for k in kernels:
            figure = speed_of(k, key)
            if figure is not None:
                measured.append((figure, k.id, k.name))
        if not measured:
            what = "bandwidth" if key == "min_gb_per_s" else "share of peak"
            found.append(f"no kernel has a measured {what}")
            continue
        value, id_, name = min(measured)
        if value < limit * (1 - speed.tolerance):
            less = f" (less {speed.tolerance:.0%})" if speed.tolerance else ""
            found.append(
                f"{id_} {name} reaches {show_speed(value, key)}, not {show_speed(limit, key)}{less}"
            )
    return found


def speed_of(kernel: Kernel, key: str) -> float | None:
    """The speed of a kernel that ``min_peak`` or ``min_gb_per_s`` limits: the
    median."""
    if key == "min_peak":
        return kernel.peak_fraction
    if kernel.gb_per_s is None:
        return None
    return kernel.gb_per_s.median


def show_speed(value: float, key: str) -> str:
    """``38.4% of peak`` or ``1,850 GB/s``."""
    if key == "min_peak":
        return f"{percent(value)} of peak"
    return f"{value:,.0f} GB/s"


def percent(share: float) -> str:
    """``38%``, ``90.909%``: with enough digits to distinguish different shares."""
    return f"{share * 100:.3f}".rstrip("0").rstrip(".") + "%"


def dtypes(group: Group) -> tuple[str, ...]:
    """The types that ``dtype`` is compared with: those of floating-point and
    complex inputs, else of all tensors."""
    types = []
    for text in group.inputs:
        match = re.match(r"(\w+)\(", text)
        if match is not None and match.group(1) in DTYPE_OF:
            types.append(DTYPE_OF[match.group(1)])
    return tuple(t for t in types if "float" in t or "complex" in t) or tuple(types)


def _source(group: Group, wanted: GroupExpectation) -> list[str]:
    lines = [line_of(node) for node in group.nodes]
    missed = []
    for source in wanted.source:
        if not any(is_in(line, source) for line in lines):
            missed.append(source)
    known = sorted({near(line) for line in lines if line is not None})
    if known:
        where = "comes from " + _few(known)
    else:
        where = "has no source line in the log"
    return [f"it {where}, not from {source}" for source in missed]


def _names(group: Group, wanted: GroupExpectation) -> list[str]:
    if wanted.function is None and wanted.module is None:
        return []
    lines = [line for line in map(line_of, group.nodes) if line is not None]
    known = []
    for names in map(names_at, dict.fromkeys(lines)):
        if names is not None:
            known.append(names)
    if not known:
        return [
            "its function is unknown: the source file is not available, or the log names no line"
        ]
    found = []
    for what, index, name in (
        ("function", 0, wanted.function),
        ("class", 1, wanted.module),
    ):
        if name is not None and not any(
            named(names[index], name) for names in known
        ):
            there = sorted({names[index] for names in known if names[index]})
            if there:
                found.append(f"it comes from {what} {_few(there)}, not {name}")
            else:
                found.append(f"it is in no {what}")
    return found


def _dtype(group: Group, wanted: GroupExpectation) -> list[str]:
    if not wanted.dtype:
        return []
    types = dtypes(group)
    if not types:
        return ["the log does not contain its types"]
    if set(types) <= set(wanted.dtype):
        return []
    return [
        f"its inputs are {', '.join(sorted(set(types)))}, not {' or '.join(wanted.dtype)}"
    ]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
