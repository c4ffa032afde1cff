"""Parts of the sentences of reasons: operators, conditions, formulas that are
missing."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fusers import fuser_title, group_nodes
from fusiondoc.model.reasons import Condition, FormulaGap, OperatorAt
from fusiondoc.model.source import from_package


def at(operator: OperatorAt) -> str:
    """``aten::add (model.py:3:8)``; without a source position the operator
    alone."""
    if operator.source:
        return f"{operator.op} ({from_package(operator.source)})"
    return operator.op


_GROUPS = group_nodes()


def partner(op: str) -> str:
    if op in _GROUPS:
        return "a fusion group"
    return op


def partner_or_this(op: str | None) -> str:
    if op is None:
        return "this operator"
    return partner(op)


def title_of(fuser: str | None) -> str:
    if fuser is None:
        return "no fuser"
    return fuser_title(fuser)


_CONDITIONS: Mapping[str, str] = {
    "argument": "an argument such as a flag",
    "training": "the module's flag `training`",
    "test_for_none": "a test of an Optional argument for None",
    "tensor_value": "a value in a tensor",
    "shape_or_type": "the shape or type of a tensor",
    "counted_loop": "a loop with a number of steps that torch did not unroll",
    "loop": "a loop that is not unrolled",
    "unknown": "a condition",
}


def condition_words(condition: Condition) -> str:
    """The value that a branch or loop depends on, in words: ``the module's flag
    `training```, ``a loop unrolled by 8``."""
    if condition.on == "attribute":
        kind = ""
        if condition.type not in (None, "bool"):
            kind = f" of type {condition.type}"
        return f"the attribute `{condition.attribute}`{kind}"
    if condition.on == "unrolled_loop":
        return f"a loop unrolled by {condition.steps or 'some steps'}"
    if condition.on == "remainder_of_loop":
        return (
            f"the remainder of a loop unrolled by {condition.steps or 'some steps'}"
        )
    return _CONDITIONS[condition.on]


_OVERLOADS_WITHOUT_FORMULA: Mapping[str | None, str] = {
    "two_tensors": "of two tensors",
    "number": "with a number",
    "arguments": "with these arguments",
}


def gap_words(gap: FormulaGap) -> str:
    if gap.why == "overload":
        return f"has no gradient formula {_OVERLOADS_WITHOUT_FORMULA[gap.overload]}"
    return {
        "control_flow": "is control flow",
        "in_place": "changes its input in place",
        "view": "is a view, which torch keeps out of them",
        "no_formula": "has no gradient formula",
    }[gap.why]


CONTAINERS: Mapping[str, str] = {
    "out_of_container": "its inputs come from a dict or list, which torch does not track",
    "into_object": "its result is stored in an attribute of an object, which torch does not track",
}


def in_part(text: str, in_part: bool) -> str:
    if in_part:
        return f"{text} (it has very many neighbours, of which only the first were examined)"
    return text
