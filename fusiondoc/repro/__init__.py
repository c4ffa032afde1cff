"""A fusion group of a log as one stand-alone Python file, and that file made
smaller.

This file: a group as a list of the steps with which such a file builds it again,
with the log's names for values; and inputs for a graph: tensors of the printed
types, and numbers that suit the operators that take them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.model import dataclass
from fusiondoc.numbers import all_whole
from fusiondoc.operators import BY_NAME, RANDOM
from fusiondoc.operators.kinds import Fit
from fusiondoc.parsers.ir.types import TensorType, parse_type

DEFINED = "prim::AutogradAllNonZero"
"""Operator that tests whether a tensor is defined (a bool). It replaces an output
that ``output_mask`` leaves undefined: an undefined tensor must not reach Python,
yet the group must have the output."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to create. ``stride`` None: contiguous. ``fill``: how its values are
    drawn."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    requires_grad: bool
    device: str
    fill: str = "normal"
    data: tuple[float, ...] | None = None
    """All values, if the log prints them."""
    constant: bool = False
    """Whether it is a constant of the graph, not one of its inputs."""


@dataclass(frozen=True)
class ScalarSpec:
    """A number, boolean, string, None or list of them."""

    value: object


@dataclass(frozen=True)
class Input:
    """An input of the graph. ``type`` as the log prints it; ``note``: facts that
    the log does not hold."""

    name: str
    type: str
    spec: TensorSpec | ScalarSpec
    note: str | None = None


@dataclass(frozen=True)
class ReproStep:
    """A node of the written file. ``outputs`` are (name, type as printed)."""

    outputs: tuple[tuple[str, str], ...]
    kind: str
    attributes: str
    inputs: tuple[str, ...]
    source: str | None = None

    @property
    def operator(self) -> bool:
        """Whether it computes something for the program: constants and lists of
        values do not."""
        return self.kind not in (
            "prim::Constant",
            "prim::ListConstruct",
            "prim::TupleConstruct",
            DEFINED,
        )


@dataclass(frozen=True)
class ReproRecipe:
    """``problems``: parts that could not be rebuilt, a sentence each."""

    fuser: str
    inputs: tuple[Input, ...]
    steps: tuple[ReproStep, ...]
    outputs: tuple[str, ...]
    dynamic: bool = False
    """Whether the group was compiled for any size."""
    problems: tuple[str, ...] = ()

    @property
    def operators(self) -> int:
        return sum(step.operator for step in self.steps)

    def types(self) -> dict[str, str]:
        """The printed type of each value."""
        types = {input_.name: input_.type for input_ in self.inputs}
        for step in self.steps:
            types.update(step.outputs)
        return types

    def undefined(self) -> frozenset[str]:
        """The values that are undefined tensors."""
        names: set[str] = set()
        for step in self.steps:
            if step.kind == DEFINED:
                names.update(step.inputs)
        return frozenset(names)

    def random_outputs(self) -> tuple[int, ...]:
        """The outputs that depend on a random operator, by number."""
        drawn: set[str] = set()
        for step in self.steps:
            if step.kind in RANDOM or drawn.intersection(step.inputs):
                drawn.update(name for name, _ in step.outputs)
        return tuple(i for i, name in enumerate(self.outputs) if name in drawn)

    def pruned(self) -> ReproRecipe:
        """The recipe without the steps and inputs that no output needs."""
        needed = set(self.outputs)
        steps = []
        for step in reversed(self.steps):
            if any(name in needed for name, _ in step.outputs):
                needed.update(step.inputs)
                steps.append(step)
        inputs = tuple(input_ for input_ in self.inputs if input_.name in needed)
        return replace(self, steps=tuple(reversed(steps)), inputs=inputs)

    def with_inputs(
        self, specs: Mapping[str, TensorSpec | ScalarSpec]
    ) -> ReproRecipe:
        """The recipe with other values for some inputs."""
        changed = []
        for input_ in self.inputs:
            if input_.name in specs:
                changed.append(replace(input_, spec=specs[input_.name]))
            else:
                changed.append(input_)
        return replace(self, inputs=tuple(changed))


def uses(steps: Iterable[ReproStep], name: str) -> list[tuple[ReproStep, int]]:
    """The steps that use a value, each with the index of the argument."""
    readers = []
    for step in steps:
        for i, input_ in enumerate(step.inputs):
            if input_ == name:
                readers.append((step, i))
    return readers


DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Float8_e5m2": "float8_e5m2",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2fnuz": "float8_e5m2fnuz",
    "Float8_e4m3fnuz": "float8_e4m3fnuz",
}
"""Printed scalar types and their names in Python (c10/core/ScalarType.h). Quantised
ones are not here: they need a scale that no log prints."""

UNKNOWN_SIZE = 8
"""The value for a size that the log does not hold."""


def _wanted(step: ReproStep, index: int) -> object:
    """The value that an argument of a step should have; None if that is not
    known."""
    row = BY_NAME.get(step.kind)
    if row is None:
        return None
    return row.samples.get(index)


_PLAIN: dict[str, object] = {
    "int": 2,
    "float": 0.5,
    "bool": True,
    "Scalar": 2,
    "number": 2,
    "complex": 1j,
    "int[]": [-1],
    "float[]": [0.5],
    "bool[]": [True],
    "str": "none",
    "Device": "cpu",
    "NoneType": None,
}


def ir_type(text: str) -> str:
    """Return the type for the rebuilt graph. A tensor's profiled sizes and strides
    are dropped: the executor erases them before it profiles (EraseShapeInformation
    in torch/csrc/jit/runtime/graph_executor.cpp), and parse_ir does not accept
    every form of them."""
    inner, tail = text, ""
    while inner.endswith(("[]", "?")):
        cut = 2 if inner.endswith("[]") else 1
        inner, tail = inner[:-cut], inner[-cut:] + tail
    if isinstance(parse_type(inner), TensorType):
        return "Tensor" + tail
    return text


def tensor_input(
    name: str,
    text: str,
    steps: Sequence[ReproStep],
    hint: Sequence[int | None] | None,
) -> Input | None:
    """An input of a printed tensor type; None if such a tensor cannot be made.

    ``hint``: sizes to use, aligned at the last dimension, if the type does not have
    them.
    """
    tensor = parse_type(text)
    if not isinstance(tensor, TensorType):
        return None
    dtype = DTYPES.get(tensor.dtype) if tensor.dtype is not None else "float32"
    if dtype is None:
        return None
    size, stride, unknown = _size_and_stride(tensor, hint)
    notes = [f"the log does not contain its {what}" for what in unknown]
    if tensor.dtype is None:
        notes.insert(0, "the log does not contain its dtype")
    how = fill(dtype, name, steps)
    spec = TensorSpec(
        dtype, size, stride, bool(tensor.requires_grad), tensor.device or "cpu", how
    )
    return Input(name, text, spec, "; ".join(notes) or None)


def _size_and_stride(
    tensor: TensorType, hint: Sequence[int | None] | None
) -> tuple[tuple[int, ...], tuple[int, ...] | None, Sequence[str]]:
    """Sizes, strides if the type has them for these sizes, and a note on missing
    facts."""
    if tensor.sizes is None or None in tensor.sizes:
        sizes = tensor.sizes if tensor.sizes is not None else hint or (None, None)
        return _with_hint(sizes, hint), None, ["sizes"]
    size = tuple(size for size in tensor.sizes if size is not None)
    if tensor.strides is None and size:
        return size, None, ["strides; contiguous"]
    known = tensor.strides is not None and len(tensor.strides) == len(size)
    return size, tensor.strides if known else None, []


def _with_hint(
    sizes: Sequence[int | None], hint: Sequence[int | None] | None
) -> tuple[int, ...]:
    """The sizes; unknown ones are taken from the hint, aligned at the last
    dimension."""
    spare = [None] * len(sizes)
    near = [*spare, *(hint or ())][-len(sizes) :] if sizes else []
    filled = []
    for size, other in zip(sizes, near):
        known = size if size is not None else other
        filled.append(UNKNOWN_SIZE if known is None else known)
    return tuple(filled)


def fill(dtype: str, name: str, steps: Sequence[ReproStep]) -> str:
    """How the values of an input are drawn: a mask, small integers, positive or
    normal numbers."""
    if dtype == "bool":
        return "mask"
    if dtype.startswith(("int", "uint")):
        return "integers"
    positive = any(
        _wanted(step, index) is Fit.POSITIVE for step, index in uses(steps, name)
    )
    if positive:
        return "positive"
    return "normal"


def scalar_input(
    name: str, text: str, steps: Sequence[ReproStep], types: Mapping[str, str]
) -> Input | None:
    """An input that is no tensor and whose value the log does not hold; None for a
    type without a default."""
    value: object = None
    plain = text.rstrip("?")
    if plain not in _PLAIN:
        return None
    value = _PLAIN[plain]
    for step, index in uses(steps, name):
        fitting = _fitting(step, index, types)
        if fitting is not None:
            value = fitting
            break
    if plain == "float" and isinstance(value, int):
        value = float(value)
    return Input(
        name,
        text,
        ScalarSpec(value),
        f"its value is not in the log: {value!r} was chosen",
    )


def _fitting(step: ReproStep, index: int, types: Mapping[str, str]) -> object:
    """A value, no tensor, that is valid for an argument of a step; None if nothing
    is known about it."""
    wanted = _wanted(step, index)
    if not isinstance(wanted, Fit):
        return wanted
    sizes = _sizes_of(types.get(step.outputs[0][0], "")) if step.outputs else None
    if wanted is Fit.SIZES:
        return sizes
    if wanted is Fit.LAST_SIZE and sizes:
        return sizes[-1:]
    return None


def _sizes_of(text: str) -> list[int] | None:
    tensor = parse_type(text)
    if (
        not isinstance(tensor, TensorType)
        or tensor.sizes is None
        or None in tensor.sizes
    ):
        return None
    return [size for size in tensor.sizes if size is not None]


def tensor_constant(name: str, type_: str, text: str) -> Input | None:
    """A tensor constant as printed (`` 1  2 [ CPUFloatType{2} ]`` or ``<Tensor>``);
    None if its sizes are not known."""
    shown = re.search(
        r"\[ (?:CPU|CUDA)?(\w+)Type\{([0-9]{1,18}(?:,[0-9]{1,18})*)?\} \]\s*$", text
    )
    data = None
    if shown is not None:
        dtype = DTYPES.get(shown[1])
        size = all_whole(shown[2].split(",")) if shown[2] else ()
        if dtype is None or size is None:
            return None
        # Only a vector is printed in the order of its elements: a wide matrix is
        # printed in parts.
        if len(size) == 1:
            numbers = re.findall(
                r"-?(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|inf|nan)",
                text[: shown.start()],
            )
            data = None
            if len(numbers) == size[0]:
                data = tuple(float(value) for value in numbers)
        spec = TensorSpec(
            dtype, size, None, False, "cpu", "normal", data, constant=True
        )
    else:
        made = tensor_input(name, type_, (), None)
        tensor = parse_type(type_)
        if (
            made is None
            or not isinstance(tensor, TensorType)
            or tensor.sizes is None
            or None in tensor.sizes
        ):
            return None
        assert isinstance(made.spec, TensorSpec)
        spec = replace(made.spec, constant=True, requires_grad=False)
    if data is not None:
        note = None
    else:
        note = "a constant whose values the log does not print"
    return Input(name, type_, spec, note)
