"""The kernels that the runs of a group launch, and the inputs that its guard
refused, in words."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.model import count
from fusiondoc.model.group_runs import GroupRuntime, GuardMiss
from fusiondoc.model.report import Group

_MOST = 4
"""Most runtimes, and most inputs, that are named."""


def runtimes_in_words(group: Group) -> str:
    """Return ``each launches K2, K3, K4, its segments``; "" if the group has only
    one kernel, or if the log does not show it."""
    of_nodes: dict[tuple[int, ...], list[GroupRuntime]] = {}
    for runtime in group.runtimes:
        of_nodes.setdefault(runtime.instances, []).append(runtime)
    words = []
    largest = max(
        group.runtimes, key=lambda runtime: len(runtime.kernels), default=None
    )
    if largest is not None and len(largest.kernels) > 1:
        words.append(
            f"each launches {', '.join(largest.kernels)}, its segments{_others(len(of_nodes))}"
        )
    words += [
        _compiled_again(runtimes)
        for runtimes in of_nodes.values()
        if len(runtimes) > 1
    ][:_MOST]
    return "; ".join(words)


def _others(compiled: int) -> str:
    """Return the remark that equal nodes with scopes of their own are compiled
    separately."""
    if compiled < 2:
        return ""
    return f" (its nodes are compiled apart, {compiled} times)"


def _compiled_again(runtimes: Sequence[GroupRuntime]) -> str:
    named = ", ".join(map(_runtime, runtimes[:_MOST]))
    more = f", {len(runtimes) - _MOST} more" if len(runtimes) > _MOST else ""
    return f"compiled {len(runtimes):,} times, for different inputs: {named}{more}"


def _runtime(runtime: GroupRuntime) -> str:
    kernels = " + ".join(runtime.kernels)
    if runtime.runs is None:
        return kernels
    return f"{kernels} in {count(runtime.runs, 'run')}"


def guard_in_words(group: Group) -> str:
    """Return ``that of G1 failed: input 0 has the shape (4, 16), expected (8,
    16)``; "" if the group is no specialisation."""
    guards: dict[str, list[GuardMiss]] = {}
    for miss in group.guard_misses:
        guards.setdefault(miss.group, []).append(miss)
    parts = []
    for name, misses in guards.items():
        parts.append(f"that of {name} failed: {_inputs(misses)}")
    return "; ".join(parts)


def _inputs(misses: Sequence[GuardMiss]) -> str:
    """Return the inputs in words; those that differ in the same way are named
    together."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for miss in misses:
        alike.setdefault((miss.what, miss.expected, miss.seen), []).append(
            miss.input
        )
    named = []
    for differs, inputs in list(alike.items())[:_MOST]:
        named.append(_alike(inputs, *differs))
    more = [f"{len(alike) - _MOST} more differences"] if len(alike) > _MOST else []
    return ", ".join(named + more)


def _alike(inputs: Sequence[int], what: str, expected: str, seen: str) -> str:
    numbers = ", ".join(map(str, inputs[:_MOST])) + (
        ", ..." if len(inputs) > _MOST else ""
    )
    noun = "input" if len(inputs) == 1 else "inputs"
    return f"{noun} {numbers} with {what} {seen} instead of {expected}"
