"""Reasons that disappear if a value is a constant."""

from __future__ import annotations

from fusiondoc.model.reasons import (
    Condition,
    ControlFlow,
    Detail,
    NotConstant,
    Stated,
)

_STATED = frozenset(
    [
        "dim_not_constant",
        "cat_dim_not_constant",
        "training_not_constant",
        "device_or_argument",
    ]
)


def lacks_constant(detail: Detail | None) -> bool:
    """True if an argument of the operator would have to be a constant."""
    if isinstance(detail, Stated):
        return detail.condition in _STATED
    return isinstance(detail, NotConstant)


def condition_of(detail: Detail | None) -> Condition | None:
    """The value that a branch or loop depends on."""
    if isinstance(detail, ControlFlow):
        return detail.condition
    return None


_CONSTANTS = ("bool", "int", "float", "str")
"""Types of single values that ``torch.jit.Final`` takes (try_ann_to_type and
infer_constants of torch/jit/_recursive.py, 1.12 to 2.13); it refuses an Enum, which
freezing makes a constant."""


def constant_attribute(condition: Condition | None) -> tuple[str, str] | None:
    """The attribute that a branch depends on and its type, if it can be declared a
    constant."""
    if (
        condition is None
        or condition.attribute is None
        or condition.type not in _CONSTANTS
    ):
        return None
    return condition.attribute, condition.type


def is_test_for_none(detail: Detail | None) -> bool:
    """True if it is a branch on whether something is None."""
    condition = condition_of(detail)
    return condition is not None and condition.on == "test_for_none"


def reads_training_flag(detail: Detail | None) -> bool:
    """True if the reason is that the flag ``training`` of a module is not a
    constant."""
    condition = condition_of(detail)
    if condition is not None:
        return condition.on == "training"
    if isinstance(detail, NotConstant):
        return "training" in detail.arguments
    return detail == Stated("training_not_constant")
