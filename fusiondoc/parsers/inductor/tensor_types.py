"""Types of tensors in generated code and graphs, and the bytes of their
elements."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusiondoc.numbers import LARGEST
from fusiondoc.parsers.inductor.python_text import size_of, sizes_of

SHORT_NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "b8",
    "complex32": "c32",
    "complex64": "c64",
    "complex128": "c128",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
}
"""``torch.float32`` -> ``f32``, as in ``torch/utils/_dtype_abbrs.py`` (2.13)."""

_BITS = re.compile(r"(?:bf|[fiucb])(\d{1,3})")


def element_size(short: str) -> int | None:
    """Return the bytes of an element of ``f32``, ``b8``, ``f8e4m3fn``; None for
    another name."""
    found = _BITS.match(short)
    if found is None:
        return None
    return {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}.get(found.group(1))


def short_name(dtype: str) -> str:
    """Return the name of a type in graphs: ``f32`` for ``torch.float32``. Names
    without a short form are kept."""
    name = dtype.removeprefix("torch.")
    return SHORT_NAMES.get(name, name)


def type_of(dtype: str, sizes: str) -> str:
    """Return ``f32[64, 128]`` for ``torch.float32`` and ``(64, 128)``."""
    return f"{short_name(dtype)}[{', '.join(sizes_of(sizes))}]"


def bytes_of(
    short: str, sizes: Sequence[str], strides: Sequence[str], hints: dict[str, int]
) -> int | None:
    """Return the bytes of the distinct elements of a tensor: a dimension with
    stride 0 is one element. None if a size is unknown.

    Args: short: the element type: ``f32``. sizes, strides: expressions; without
    strides all elements are distinct. hints: sizes of symbols.
    """
    total = element_size(short)
    if total is None:
        return None
    if len(strides) == len(sizes):
        steps: list[str | None] = [*strides]
    else:
        steps = [None] * len(sizes)
    for size, stride in zip(sizes, steps):
        if stride == "0":
            continue
        number = size_of(size, hints)
        if number is None or number < 0:
            return None
        total *= number
        if total >= LARGEST:
            return None
    return total


_TYPE = re.compile(r"(\w+)\[([^\[\]]*)\](?:\[([^\[\]]*)\])?")


def bytes_of_type(text: str, hints: dict[str, int]) -> int | None:
    """Return the bytes of ``f32[64, 128][128, 1]cuda:0``; None if they are
    unknown."""
    found = _TYPE.match(text)
    if found is None:
        return None
    sizes = []
    for part in found.group(2).split(","):
        if part.strip():
            sizes.append(part.strip())
    strides = []
    for part in (found.group(3) or "").split(","):
        if part.strip():
            strides.append(part.strip())
    return bytes_of(found.group(1), sizes, strides, hints)
