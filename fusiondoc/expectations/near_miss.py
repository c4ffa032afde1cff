"""Why an expected group is not there: the nearest group, and where the operators went that it lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Mapping, Sequence

from fusiondoc.expectations.expectation import GroupExpectation
from fusiondoc.expectations.lcs import common, longest_common
from fusiondoc.expectations.missing import Missing, tell, where_is, without_namespace
from fusiondoc.expectations.nearest_group import Mismatch, mismatches, percent, same_operators
from fusiondoc.model.report import Group, Kernel, Report

_MOST_OPERATORS = 12
_MOST_REASONS = 4
_MOST_COMPARED = 200
"""Different bodies that are aligned operator by operator, those that share most operators first."""


@dataclass(frozen=True)
class NearMiss:
    """The nearest group to an expected one, and what parts them."""

    wanted: GroupExpectation
    group: Group | None
    """None where no group has any of the operators."""
    shared: tuple[str, ...]
    """The expected operators that the group has, in order."""
    missing: tuple[Missing, ...]
    extra: tuple[str, ...]
    """Operators of the group that were not expected."""
    conditions: tuple[Mismatch, ...]
    """Conditions other than the operators that it does not meet."""

    @property
    def found(self) -> str:
        """``add, relu (G1)``."""
        if self.group is None:
            return "no group with any of them" if self.wanted.ops else "no such group"
        return f"{short(self.group.ops)} ({self.group.id})"

    @property
    def why(self) -> str:
        """What parts it from what was expected, in one line."""
        parts = tell(self.missing)
        if len(parts) > _MOST_REASONS:
            parts[_MOST_REASONS:] = [f"and {len(parts) - _MOST_REASONS} more reasons"]
        if self.extra:
            parts.append(f"it also has {short(self.extra)}")
        parts += [mismatch.text for mismatch in self.conditions]
        if not parts and self.group is not None and not same_operators(self.group.ops, self.wanted):
            parts.append("the same operators are in another order")
        return "; ".join(parts)

    @property
    def text(self) -> str:
        """``expected add, relu, mul; found add, relu (G1): mul is not fused ...``."""
        why = self.why
        return f"expected {describe(self.wanted)}; found {self.found}" + (f": {why}" if why else "")


def near_miss(
    report: Report, wanted: GroupExpectation, taken: Sequence[str] = (), groups: Sequence[Group] | None = None
) -> NearMiss:
    """The near miss of an expectation that no group fulfils.

    ``taken`` are the ids of groups that other expectations have found: they are named only where no other is
    as near. ``groups`` limits where to look; by default all groups of the report.
    """
    kernels = {kernel.id: kernel for kernel in report.kernels}
    group = _nearest(report.groups if groups is None else groups, wanted, kernels, frozenset(taken))
    if group is None:
        missing = where_is(report, wanted, None, [(op, None) for op in wanted.ops])
        return NearMiss(wanted, None, (), missing, (), ())
    if wanted.order == "set":
        shared = tuple(op for op in dict.fromkeys(wanted.ops) if op in group.ops)
        lacking: list[tuple[str, int | None]] = [
            (op, None) for op in dict.fromkeys(wanted.ops) if op not in group.ops
        ]
        extra = tuple(op for op in dict.fromkeys(group.ops) if op not in wanted.ops)
    else:
        pairs = longest_common(wanted.ops, group.ops)
        shared = tuple(wanted.ops[i] for i, _ in pairs)
        here, there = dict(pairs), {j for _, j in pairs}
        spare = Counter(op for j, op in enumerate(group.ops) if j not in there)
        lacking, before = [], None
        for i, op in enumerate(wanted.ops):
            if i in here:
                before = here[i]
            elif wanted.order == "sequence" and spare[op]:
                spare[op] -= 1  # it is there, in another order
            else:
                lacking.append((op, before))
        extra = tuple(spare.elements()) if wanted.order == "sequence" and wanted.ops else ()
    conditions = tuple(m for m in mismatches(group, wanted, kernels) if m.what != "operators")
    return NearMiss(wanted, group, shared, where_is(report, wanted, group, lacking), extra, conditions)


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
    text += f" of function {wanted.function}" if wanted.function else ""
    text += f" of class {wanted.module}" if wanted.module else ""
    if wanted.dtype:
        text += f" with {' or '.join(wanted.dtype)}"
    if wanted.speed.peak is not None:
        text += f" at {percent(wanted.speed.peak)} of peak"
    if wanted.speed.gb_per_s is not None:
        text += f" at {wanted.speed.gb_per_s:,.0f} GB/s"
    return text


def short(ops: Sequence[str]) -> str:
    """Operators without ``aten::``; of many the first and how many there are."""
    names = [without_namespace(op) for op in ops]
    if len(names) > _MOST_OPERATORS:
        return ", ".join(names[: _MOST_OPERATORS - 2]) + f", ... ({len(names)} operators)"
    return ", ".join(names)


def _nearest(
    groups: Sequence[Group], wanted: GroupExpectation, kernels: Mapping[str, Kernel], taken: frozenset[str]
) -> Group | None:
    """The group that shares most: operators in order, then in any, then conditions, fewest others."""
    # Layers repeat: each different body is compared once, the most promising first.
    bodies: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        bodies.setdefault(group.ops, []).append(group)
    bounds = sorted(((common(ops, wanted.ops), ops) for ops in bodies), key=lambda one: -one[0])
    best, best_key = None, (0, 0, 0, 0, 0)
    for bound, ops in bounds[:_MOST_COMPARED]:
        if best is not None and bound < best_key[0]:
            break
        in_order = wanted.order != "set"
        shared = len(longest_common(wanted.ops, ops) if in_order else set(ops) & set(wanted.ops))
        if wanted.ops and not shared:
            continue
        for group in bodies[ops]:
            failed = sum(m.what != "operators" for m in mismatches(group, wanted, kernels))
            key = (shared, bound, -failed, -(group.id in taken), -len(ops))
            if best is None or key > best_key:
                best, best_key = group, key
    return best
