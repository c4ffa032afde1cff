"""A group taken apart: what a stand-alone file needs to build it again. Values are named as in the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Mapping

"""What a file may use; "none" runs it unfused."""

RANDOM_OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        "native_dropout",
        "dropout",
        "alpha_dropout",
        "feature_dropout",
        "_fused_dropout",
        "rand_like",
        "randn_like",
        "randint_like",
        "rand",
        "randn",
        "bernoulli",
        "normal",
        "rrelu",
        "rrelu_with_noise",
        "multinomial",
        "poisson",
    )
)
"""Operators that draw random numbers: fused and unfused results differ by design."""


DEFINED = "prim::AutogradAllNonZero"
"""Whether a tensor is defined (a bool). An output that ``output_mask`` leaves undefined is handed on as that:
an undefined tensor must not reach Python, yet the group has to have the output."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to make. ``stride`` None: contiguous. ``fill``: how its values are drawn."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    requires_grad: bool
    device: str
    fill: str = "normal"
    data: tuple[float, ...] | None = None
    """All values, where the log prints them."""
    constant: bool = False
    """A constant of the graph, not one of its inputs."""


@dataclass(frozen=True)
class ScalarSpec:
    """A number, boolean, string, None or list of them."""

    value: object


@dataclass(frozen=True)
class Input:
    """An input of the graph. ``type`` as the log prints it; ``note`` says what the log does not tell."""

    name: str
    type: str
    spec: TensorSpec | ScalarSpec
    note: str | None = None


@dataclass(frozen=True)
class Step:
    """A node as it is written to the file. ``outputs`` are (name, type as printed)."""

    outputs: tuple[tuple[str, str], ...]
    kind: str
    attributes: str
    inputs: tuple[str, ...]
    source: str | None = None

    @property
    def operator(self) -> bool:
        """Whether it computes something of the program's: constants and lists of values do not."""
        return self.kind not in ("prim::Constant", "prim::ListConstruct", "prim::TupleConstruct", DEFINED)


@dataclass(frozen=True)
class Recipe:
    """``problems``: what could not be rebuilt, a sentence each."""

    fuser: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    dynamic: bool = False
    """The group was compiled for any size."""
    problems: tuple[str, ...] = ()

    @property
    def operators(self) -> int:
        return sum(step.operator for step in self.steps)

    def types(self) -> dict[str, str]:
        """The printed type of each value."""
        types = {one.name: one.type for one in self.inputs}
        for step in self.steps:
            types.update(step.outputs)
        return types

    def undefined(self) -> frozenset[str]:
        """The values that are undefined tensors."""
        return frozenset(name for step in self.steps if step.kind == DEFINED for name in step.inputs)

    def random_outputs(self) -> tuple[int, ...]:
        """The outputs that depend on a random operator, by number."""
        drawn: set[str] = set()
        for step in self.steps:
            if step.kind in RANDOM_OPERATORS or drawn.intersection(step.inputs):
                drawn.update(name for name, _ in step.outputs)
        return tuple(i for i, name in enumerate(self.outputs) if name in drawn)

    def pruned(self) -> Recipe:
        """Without the steps and inputs that no output needs."""
        needed = set(self.outputs)
        steps = []
        for step in reversed(self.steps):
            if any(name in needed for name, _ in step.outputs):
                needed.update(step.inputs)
                steps.append(step)
        inputs = tuple(one for one in self.inputs if one.name in needed)
        return replace(self, steps=tuple(reversed(steps)), inputs=inputs)

    def with_inputs(self, specs: Mapping[str, TensorSpec | ScalarSpec]) -> Recipe:
        """With other values for some inputs."""
        changed = (replace(one, spec=specs[one.name]) if one.name in specs else one for one in self.inputs)
        return replace(self, inputs=tuple(changed))


def uses(steps: Iterable[Step], name: str) -> list[tuple[Step, int]]:
    """The steps that take a value, each with the position of the argument."""
    return [(step, i) for step in steps for i, one in enumerate(step.inputs) if one == name]
