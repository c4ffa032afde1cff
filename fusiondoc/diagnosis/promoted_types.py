"""Whether an in-place update keeps an element type that the out-of-place operator
would not keep.

Example: ``x += y`` of a float32 tensor and a float64 one (``result_type``,
aten/src/ATen/native/TypeProperties.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.parsers.ir.types import HALVES, TensorType, parse_type

_KINDS = (
    ("Bool",),
    ("Byte", "Char", "Short", "Int", "Long"),
    ("Half", "BFloat16", "Float", "Double"),
    ("ComplexHalf", "ComplexFloat", "ComplexDouble"),
)
"""Kinds of element types from lowest to highest, and within each kind from lowest
to highest: two types of one kind give the higher one."""
_TO_A_THIRD = (HALVES, frozenset(("Byte", "Char")))
"""Pairs of types that give a third: Float, Short."""
_RANKS = {
    name: (kind, rank)
    for kind, names in enumerate(_KINDS)
    for rank, name in enumerate(names)
}


def is_promoted(types: Sequence[str]) -> bool:
    """True if an operator's result has another element type than its first input.

    Args:
        types: of its inputs, as printed: ``Float(4, 4, strides=[4, 1],
            device=cpu)``. Types that are not known count as equal.
    """
    parsed = [parse_type(text) for text in types]
    tensors = []
    for one in parsed:
        if isinstance(one, TensorType) and one.dtype in _RANKS:
            tensors.append(one)
    if not tensors or tensors[0] is not parsed[0]:
        return False
    return any(_promotes(tensors[0], other) for other in tensors[1:])


def _promotes(first: TensorType, other: TensorType) -> bool:
    kind, rank = _RANKS[str(first.dtype)]
    its_kind, its_rank = _RANKS[str(other.dtype)]
    if its_kind != kind or other.sizes == ():
        return its_kind > kind  # a tensor without dimensions counts like a number
    return its_rank > rank or {first.dtype, other.dtype} in _TO_A_THIRD
