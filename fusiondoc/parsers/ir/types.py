"""Types as TorchScript prints them (``operator<<`` of ``c10::Type``,
aten/src/ATen/core/type.cpp).

A tensor type is a scalar type with optional sizes, strides, ``requires_grad`` and
device: ``Float(2, *, strides=[32, 1], requires_grad=0, device=cuda:0)``. Everything
is cached: a log repeats few types.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fusiondoc.numbers import all_whole, whole_number

_WHOLE = re.compile(r"-?[0-9]+\Z")
"""A size; a size beyond all bounds counts as unknown."""

HALVES = frozenset(("Half", "BFloat16"))

ITEMSIZES: dict[str, int] = {
    **dict.fromkeys(("Bool", "Byte", "Char", "QInt8", "QUInt8", "Bits8"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16", "Bits16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
    **dict.fromkeys(
        (
            "Float8_e5m2",
            "Float8_e4m3fn",
            "Float8_e5m2fnuz",
            "Float8_e4m3fnuz",
            "Float8_e8m0fnu",
        ),
        1,
    ),
    # Less than a byte each; torch stores and counts them in whole bytes.
    **dict.fromkeys(
        (
            "QUInt4x2",
            "QUInt2x4",
            "Bits1x8",
            "Bits2x4",
            "Bits4x2",
            "Float4_e2m1fn_x2",
        ),
        1,
    ),
    **{f"{sign}{bits}": 1 for sign in ("Int", "UInt") for bits in range(1, 8)},
}
"""Bytes of one element by printed scalar type (c10/core/ScalarType.h)."""

_ELEMENT = re.compile(r"([A-Z]\w*)(?:\((.*)\))?(\[Undefined\])?\Z", re.DOTALL)
_SIZE_AND_STRIDE = re.compile(r"\d{1,18}:\d{1,18}$")
"""``Float(3:20, 20:1)``, as torch 1.6 and 1.7 print sizes and strides
(pytorch/pytorch#37728)."""
_STRIDES = re.compile(r"(?:, |\A)strides=\[([^\[\]]*)\]")


class TensorType:
    """A tensor type. ``None`` means that the print does not state the fact.

    ``dtype``: the scalar type as printed (``Float``), ``None`` for a bare
    ``Tensor``. ``sizes`` and ``strides`` count elements; a dimension that is not a
    number is ``None`` in ``sizes`` and keeps its text (``*``, ``SS(-2)``) in
    ``symbols``. ``optional``: printed with a ``?`` after it.
    """

    __slots__ = (
        "device",
        "dtype",
        "optional",
        "requires_grad",
        "sizes",
        "strides",
        "symbols",
        "text",
        "undefined",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self.dtype: str | None = None
        self.sizes: tuple[int | None, ...] | None = None
        self.symbols: tuple[str, ...] = ()
        self.strides: tuple[int, ...] | None = None
        self.requires_grad: bool | None = None
        self.device: str | None = None
        self.undefined = False
        self.optional = False

    def __repr__(self) -> str:
        return f"TensorType({self.text!r})"

    @property
    def itemsize(self) -> int | None:
        """Bytes of one element."""
        if self.dtype is None:
            return None
        return ITEMSIZES.get(self.dtype)

    @property
    def dtype_and_sizes(self) -> tuple[str, tuple[int, ...]] | None:
        """The scalar type and the sizes, if both are printed and each size is a
        number; else None."""
        if self.dtype is None or self.sizes is None:
            return None
        sizes = tuple(size for size in self.sizes if size is not None)
        if len(sizes) == len(self.sizes):
            return self.dtype, sizes
        return None


class OtherType:
    """A type that is not a tensor; only its text is known."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"OtherType({self.text!r})"


class _Sizes:
    """The sizes of a tensor type while its arguments are read."""

    def __init__(self) -> None:
        self.sizes: list[int | None] = []
        self.symbols: list[str] = []
        self.strides: list[int] = []
        """Strides that are printed next to the sizes (``2:3``)."""

    def add(self, argument: str) -> bool:
        """Add a size; return False if it is not one."""
        if argument == "*" or argument.startswith("SS(") or _WHOLE.match(argument):
            self.sizes.append(whole_number(argument))
            self.symbols.append(argument)
            return True
        numbers = None
        if _SIZE_AND_STRIDE.match(argument):
            numbers = all_whole(argument.split(":"))
        if numbers is None:
            return False
        size, stride = numbers
        self.sizes.append(size)
        self.symbols.append(str(size))
        self.strides.append(stride)
        return True


def _arguments(tensor: TensorType, text: str) -> bool:
    """Set the fields from the arguments between the parentheses; return False if a
    tensor type is not printed in this form."""
    match = _STRIDES.search(text)
    if match is not None:
        tensor.strides = all_whole(match[1].split(", ")) if match[1] else ()
        if tensor.strides is None:
            return False
        text = (text[: match.start()] + text[match.end() :]).removeprefix(", ")
    shape = _Sizes()
    bare = True
    for argument in text.split(", ") if text else []:
        if argument.startswith("requires_grad="):
            tensor.requires_grad = argument.endswith("=1")
            bare = False
        elif argument.startswith("device="):
            tensor.device = argument[7:]
            bare = False
        elif not shape.add(argument):
            return False
    if shape.strides:
        if len(shape.strides) != len(shape.sizes):
            return False
        tensor.strides = tuple(shape.strides)
    # `Tensor(requires_grad=0)` and `FloatTensor(device=cpu)` have no sizes;
    # `Float(device=cpu)` has none to print, for it has no dimension. At lower type
    # verbosity that is `Float()`.
    if tensor.dtype is not None or shape.sizes or bare:
        tensor.sizes, tensor.symbols = tuple(shape.sizes), tuple(shape.symbols)
    return True


@lru_cache(maxsize=16384)
def parse_type(text: str) -> TensorType | OtherType:
    """Return the type printed as ``text``; everything except a single tensor is an
    :class:`OtherType`. Never raises."""
    return _tensor(text) or OtherType(text)


def _tensor(text: str) -> TensorType | None:
    """Return the type of a single tensor; None for any other type."""
    element = text.rstrip("?")
    match = _ELEMENT.match(element)
    if match is None:
        return None
    tensor = TensorType(text)
    tensor.optional = element != text
    name, arguments, undefined = match.groups()
    tensor.undefined = undefined is not None
    unsized = name.endswith("Tensor")
    scalar = name[:-6] if unsized else name
    known = not scalar or scalar in ITEMSIZES
    tensor.dtype = scalar or None
    if arguments is None:
        # Even at low type verbosity a scalar type alone is `FloatTensor`: sizes are
        # unknown, or in parentheses.
        if unsized and known:
            return tensor
        return None
    has_marks = "device=" in arguments or "requires_grad=" in arguments
    if not (known or has_marks) or not _arguments(tensor, arguments):
        return None
    if unsized and scalar:
        tensor.sizes, tensor.symbols = None, ()
    return tensor


def is_tensor(text: str) -> bool:
    """True if the type is one tensor: ``Tensor``, ``Tensor?``, ``Float(2, 3)``,
    ..."""
    return isinstance(parse_type(text), TensorType)


@lru_cache(maxsize=16384)
def holds_tensor(text: str) -> bool:
    """True if the type is a tensor or a list of tensors (``Tensor[]``,
    ``Tensor?[]``, ``Tensor[]?``, ...).

    Tuples and dictionaries do not count: nodes that return those only pack the
    tensors of other nodes.
    """
    end = len(text)
    while end:
        if text[end - 1] == "?":
            end -= 1
        elif text.endswith("[]", 0, end):
            end -= 2
        else:
            break
    return is_tensor(text[:end])


_MOST_BYTES = 1 << 48
"""Limit of the bytes of a tensor: 281 TB, which no device holds. So sums over all
tensors of a log fit into 64 bits."""


@lru_cache(maxsize=16384)
def bytes_once(text: str) -> int | None:
    """Return the bytes of the tensor with each element counted once: an expanded
    dimension (stride 0) has one element.

    ``None`` for anything that is not a tensor, for an unknown size or scalar type,
    and for more bytes than any device holds.
    """
    tensor = parse_type(text)
    if not isinstance(tensor, TensorType) or tensor.sizes is None:
        return None
    total = tensor.itemsize
    if total is None:
        return None
    strides = tensor.strides if tensor.strides is not None else ()
    for dimension, size in enumerate(tensor.sizes):
        if size is None or size < 0:
            return None
        expanded = dimension < len(strides) and strides[dimension] == 0
        total *= min(size, 1) if expanded else size
    if total < _MOST_BYTES:
        return total
    return None


def in_order(tensor: TensorType) -> bool:
    """True if the tensor is contiguous: its strides follow from its sizes, and both
    are known."""
    if tensor.sizes is None or tensor.strides is None:
        return False
    step = 1
    for size, stride in zip(reversed(tensor.sizes), reversed(tensor.strides)):
        if size is None or (size != 1 and stride != step):
            return False
        step *= size
    return True


def kind_of(text: str) -> str:
    """Return the type without its profiled part: ``Float(2, 4)`` is a Tensor."""
    name, bracket, _ = text.partition("(")
    if bracket and name:
        return "Tensor"
    return text
