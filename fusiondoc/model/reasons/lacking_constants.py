"""Reasons that go away where a value is a constant."""

from __future__ import annotations

from fusiondoc.model.reasons import ControlFlow, Detail, NotConstant, Stated

_STATED = frozenset(
    ["dim_not_constant", "cat_dim_not_constant", "training_not_constant", "device_or_argument"]
)


def lacks_constant(detail: Detail | None) -> bool:
    """Whether an argument of the operator would have to be a constant."""
    if isinstance(detail, Stated):
        return detail.condition in _STATED
    return isinstance(detail, NotConstant)


def is_test_for_none(detail: Detail | None) -> bool:
    """Whether it is a branch on whether something is None."""
    return isinstance(detail, ControlFlow) and detail.condition.on == "test_for_none"


def reads_training_flag(detail: Detail | None) -> bool:
    """Whether the reason is that the flag ``training`` of a module is not a constant."""
    if isinstance(detail, ControlFlow):
        return detail.condition.on == "training"
    if isinstance(detail, NotConstant):
        return "training" in detail.arguments
    return detail == Stated("training_not_constant")
