"""Differences between the inputs of a specialisation and the inputs that earlier
guards accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.model.group_runs import GuardMiss
from fusiondoc.parsers.ir.types import TensorType, parse_type


def guard_misses(
    group: str, expected: Sequence[str], seen: Sequence[str]
) -> Iterator[GuardMiss]:
    """Yield the reasons why the guard of a group refused other inputs.

    Args:
        group: id of the group.
        expected: the types of its inputs.
        seen: the types for which the group was specialised again.
    """
    for index, (one, other) in enumerate(zip(expected, seen)):
        if one != other:
            yield from _of_input(group, index, one, other)
    if len(expected) != len(seen):
        numbers = f"{len(expected)} inputs", f"{len(seen)} inputs"
        yield GuardMiss(group, min(len(expected), len(seen)), "kind", *numbers)


def _of_input(group: str, index: int, one: str, other: str) -> Iterator[GuardMiss]:
    a, b = parse_type(one), parse_type(other)
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        yield GuardMiss(group, index, "kind", one, other)
        return
    shapes = _shape(a), _shape(b)
    if shapes[0] != shapes[1]:
        yield GuardMiss(group, index, "shape", *shapes)
    elif a.strides != b.strides:
        yield GuardMiss(
            group,
            index,
            "strides",
            str(list(a.strides or ())),
            str(list(b.strides or ())),
        )
    for what in ("dtype", "device", "requires_grad"):
        before, after = getattr(a, what), getattr(b, what)
        if before != after:
            yield GuardMiss(group, index, what, str(before), str(after))


def _shape(tensor: TensorType) -> str:
    if tensor.sizes is None:
        return "unknown"
    return (
        "("
        + ", ".join("any" if size is None else str(size) for size in tensor.sizes)
        + ")"
    )
