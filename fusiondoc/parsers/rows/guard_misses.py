"""How the inputs of a specialisation differ from those that the guards before it
take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.model.group_runs import GuardMiss
from fusiondoc.parsers.ir.types import TensorType, parse_type


def guard_misses(
    group: str, expected: Sequence[str], seen: Sequence[str]
) -> Iterator[GuardMiss]:
    """Why the guard of a group refused other inputs.

    Args:
        group: its id.
        expected: the types of its inputs.
        seen: those for which the group was made anew.
    """
    for place, (one, other) in enumerate(zip(expected, seen)):
        if one != other:
            yield from _of_input(group, place, one, other)
    if len(expected) != len(seen):
        numbers = f"{len(expected)} inputs", f"{len(seen)} inputs"
        yield GuardMiss(group, min(len(expected), len(seen)), "kind", *numbers)


def _of_input(group: str, place: int, one: str, other: str) -> Iterator[GuardMiss]:
    a, b = parse_type(one), parse_type(other)
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        yield GuardMiss(group, place, "kind", one, other)
        return
    shapes = _shape(a), _shape(b)
    if shapes[0] != shapes[1]:
        yield GuardMiss(group, place, "shape", *shapes)
    elif a.strides != b.strides:
        yield GuardMiss(
            group,
            place,
            "strides",
            str(list(a.strides or ())),
            str(list(b.strides or ())),
        )
    for what in ("dtype", "device", "requires_grad"):
        before, after = getattr(a, what), getattr(b, what)
        if before != after:
            yield GuardMiss(group, place, what, str(before), str(after))


def _shape(tensor: TensorType) -> str:
    if tensor.sizes is None:
        return "unknown"
    return (
        "("
        + ", ".join("any" if size is None else str(size) for size in tensor.sizes)
        + ")"
    )
