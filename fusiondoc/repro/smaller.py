"""Smaller recipes derived from a recipe: fewer operators, fewer outputs, smaller
and plainer inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusiondoc.repro import (
    DEFINED,
    Input,
    ReproRecipe,
    ReproStep,
    ScalarSpec,
    TensorSpec,
    fill,
    scalar_input,
    tensor_input,
)

_DEVICE = "cpu"


def exposing_all(recipe: ReproRecipe) -> ReproRecipe:
    """The recipe with every value of an operator as an output: run once, it prints
    all values."""
    undefined = recipe.undefined()
    names = []
    for step in recipe.steps:
        if step.operator:
            for n, _ in step.outputs:
                if n not in undefined:
                    names.append(n)
    return replace(recipe, outputs=tuple(names))


def described_values(
    recipe: ReproRecipe, rows: Sequence[Mapping[str, Any]]
) -> dict[str, TensorSpec | ScalarSpec]:
    """The values of :func:`exposing_all`, from the description that its file
    printed."""
    device = _device(recipe)
    found: dict[str, TensorSpec | ScalarSpec] = {}
    for name, row in zip(exposing_all(recipe).outputs, rows):
        if "value" in row:
            found[name] = ScalarSpec(row["value"])
        else:
            size, stride = tuple(row["size"]), tuple(row["stride"])
            how = fill(row["dtype"], name, recipe.steps)
            found[name] = TensorSpec(row["dtype"], size, stride, False, device, how)
    return found


def _device(recipe: ReproRecipe) -> str:
    for given in recipe.inputs:
        spec = given.spec
        if isinstance(spec, TensorSpec) and spec.device != _DEVICE:
            return spec.device
    return _DEVICE


def subset(
    recipe: ReproRecipe,
    keep: Sequence[ReproStep],
    values: Mapping[str, TensorSpec | ScalarSpec],
) -> ReproRecipe | None:
    """Return the recipe with only the operators in ``keep``: values from other
    operators become inputs, and values that others used become outputs.

    None if nothing is left or a value that is needed cannot be made.
    """
    kept = set(map(id, keep))
    lost = []
    for step in recipe.steps:
        if step.operator and id(step) not in kept:
            lost.append(step)
    steps = _without(recipe, lost)
    outputs = _outputs(recipe, steps, lost)
    inputs = _inputs(recipe, steps, lost, values)
    if not outputs or inputs is None:
        return None
    return replace(recipe, inputs=inputs, steps=steps, outputs=outputs).pruned()


def _without(
    recipe: ReproRecipe, lost: Sequence[ReproStep]
) -> tuple[ReproStep, ...]:
    """The steps without some operators, and without the tests whether a result of
    these is defined."""
    ids = set(map(id, lost))
    gone = set()
    for step in lost:
        for name, _ in step.outputs:
            gone.add(name)
    steps = []
    for step in recipe.steps:
        tests_lost = step.kind == DEFINED and not gone.isdisjoint(step.inputs)
        if id(step) not in ids and not tests_lost:
            steps.append(step)
    return tuple(steps)


def _outputs(
    recipe: ReproRecipe, steps: Sequence[ReproStep], lost: Sequence[ReproStep]
) -> tuple[str, ...]:
    """The outputs that are still computed, and values that were inputs of the
    removed operators."""
    makers = [step for step in steps if step.operator or step.kind == DEFINED]
    made = []
    for step in makers:
        for name, _ in step.outputs:
            made.append(name)
    known = set(made) - recipe.undefined()
    taken: set[str] = set()
    for step in lost:
        taken.update(step.inputs)
    outputs = [name for name in recipe.outputs if name in known]
    outputs += [name for name in made if name in known and name in taken]
    return tuple(dict.fromkeys(outputs))


def _inputs(
    recipe: ReproRecipe,
    steps: Sequence[ReproStep],
    lost: Sequence[ReproStep],
    values: Mapping[str, TensorSpec | ScalarSpec],
) -> tuple[Input, ...] | None:
    """The inputs, and the results of removed operators that steps still use; None
    if one of these cannot be created."""
    made = set()
    for step in steps:
        for name, _ in step.outputs:
            made.add(name)
    taken: set[str] = set()
    for step in steps:
        taken.update(step.inputs)
    types = recipe.types()
    inputs = list(recipe.inputs)
    for name in dict.fromkeys(name for step in lost for name, _ in step.outputs):
        if name in taken and name not in made:
            found = _as_input(name, types, steps, values)
            if found is None:
                return None
            inputs.append(found)
    return tuple(inputs)


def _as_input(
    name: str,
    types: Mapping[str, str],
    steps: Sequence[ReproStep],
    values: Mapping[str, TensorSpec | ScalarSpec],
) -> Input | None:
    spec = values.get(name)
    if spec is not None:
        return Input(
            name, types[name], spec, "a result of an operator that was removed"
        )
    return tensor_input(name, types[name], steps, None) or scalar_input(
        name, types[name], steps, types
    )


def without_output(recipe: ReproRecipe, number: int) -> ReproRecipe:
    """The recipe without one output, and without the steps needed only for that."""
    outputs = tuple(name for i, name in enumerate(recipe.outputs) if i != number)
    return replace(recipe, outputs=outputs).pruned()


def sizes(recipe: ReproRecipe) -> list[int]:
    """The sizes above 1 in the inputs, the largest first."""
    specs = [input_.spec for input_ in recipe.inputs]
    return sorted(
        {n for s in specs if isinstance(s, TensorSpec) for n in s.size if n > 1},
        reverse=True,
    )


def resized(recipe: ReproRecipe, before: int, after: int) -> ReproRecipe:
    """Replace a size by another one everywhere: in inputs and in lists of sizes."""
    specs: dict[str, TensorSpec | ScalarSpec] = {}
    for input_ in recipe.inputs:
        spec = input_.spec
        if (
            isinstance(spec, TensorSpec)
            and before in spec.size
            and spec.data is None
        ):
            size = tuple(after if n == before else n for n in spec.size)
            specs[input_.name] = replace(
                spec, size=size, stride=_strides(spec, size)
            )
        elif (
            isinstance(spec, ScalarSpec)
            and isinstance(spec.value, list)
            and before in spec.value
        ):
            specs[input_.name] = ScalarSpec(
                [after if n == before else n for n in spec.value]
            )
    steps = []
    for step in recipe.steps:
        if step.kind == "prim::Constant" and step.outputs[0][1] == "int[]":
            steps.append(
                replace(
                    step,
                    attributes=re.sub(
                        rf"\b{before}\b", str(after), step.attributes
                    ),
                )
            )
        else:
            steps.append(step)
    return replace(recipe.with_inputs(specs), steps=tuple(steps))


def _strides(spec: TensorSpec, size: tuple[int, ...]) -> tuple[int, ...] | None:
    """Dense strides in the order of the old ones; an expanded dimension stays
    expanded."""
    if spec.stride is None:
        return None
    made, step = list(spec.stride), 1
    for dimension in sorted(
        range(len(size)),
        key=lambda i: (spec.stride or ())[i] * 2 - (spec.size[i] == 1),
    ):
        if spec.stride[dimension]:
            made[dimension] = step
            step *= max(size[dimension], 1)
    return tuple(made)


def plain_strides(recipe: ReproRecipe, name: str) -> ReproRecipe | None:
    """The recipe with one input contiguous; None if it already is."""
    for input_ in recipe.inputs:
        spec = input_.spec
        if (
            input_.name == name
            and isinstance(spec, TensorSpec)
            and spec.stride is not None
        ):
            plain = _strides(
                replace(spec, stride=tuple(range(len(spec.size), 0, -1))), spec.size
            )
            if plain != spec.stride:
                return recipe.with_inputs({name: replace(spec, stride=plain)})
    return None
