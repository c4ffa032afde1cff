"""The advice on an operator that has nothing to fuse with or cannot reach it: it is
about the operators between them."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc import fusers, operators
from fusiondoc.changes.recipes import recipe_answering
from fusiondoc.diagnosis.of_fusers import rules_of
from fusiondoc.diagnosis.recipes_of_rows import (
    any_recipe,
    general_remedy,
    remedy_with_knob,
    takes_with_knob,
)
from fusiondoc.diagnosis.rules import RunFacts
from fusiondoc.fusers import facts_of
from fusiondoc.model.reasons import (
    Alone,
    Barrier,
    BehindViews,
    DecidesBetween,
    Detour,
    EndedInPlace,
    OperatorAt,
    RegionEnd,
    SideEffect,
    WriteBetween,
)
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.report import Unfused


def operator_between(row: Unfused) -> OperatorAt | None:
    """Return the operator that is in between, if one is."""
    detail = row.reason.detail
    if isinstance(detail, BehindViews):
        return detail.views[0]
    if isinstance(detail, DecidesBetween):
        return detail.control
    if isinstance(detail, (Barrier, WriteBetween, EndedInPlace, Detour)):
        return detail.operator
    return None


def barrier_of(row: Unfused) -> str:
    """Return the kind of the operator that is in between; "" where none is."""
    between = operator_between(row)
    if between is None:
        return ""
    return between.op


def on_separated(row: Unfused, run: RunFacts) -> str | Remedy:
    """Return the advice for FD227: about the operator in between."""
    moved = _reordered(row)
    if moved is not None:
        return moved
    detail, barrier = row.reason.detail, barrier_of(row)
    if isinstance(detail, Detour):
        return _waits(row)
    if takes_with_knob(barrier, run):
        return remedy_with_knob(run)
    calls = rules_of(run.fuser).calls
    if barrier in calls and isinstance(detail, Barrier) and detail.why == "refused":
        return calls[barrier]
    return _instead_of(barrier, run)


def _instead_of(barrier: str, run: RunFacts) -> str | Remedy:
    """Return how to write the operator in between in another way."""
    recipe = None
    if run.fuser is not None:
        recipe = recipe_answering(
            None, barrier, run.fuser, run.torch, run.gradients
        )
    if recipe is not None:
        more = "; ".join(text for text in (recipe.needs, recipe.caution) if text)
        return f"Change {barrier}: {recipe.words}{f' ({more})' if more else ''}."
    plain = barrier[:-1]
    if (
        barrier.endswith("_")
        and run.fuser is not None
        and fusers.taken_by(plain, run.fuser, run.torch)
    ):
        return f"Change {barrier}, which works in place, to {plain}."
    if barrier.startswith("aten::") and barrier not in operators.PLACES_ELEMENTS:
        return nothing(
            f"Nothing: no known recipe writes {barrier} with operators that fuse."
        )
    return general_remedy("FD227")


def _reordered(row: Unfused) -> str | None:
    """Return how to move the number, cast or side effect between two operators."""
    detail = row.reason.detail
    if (
        isinstance(detail, Detour)
        and (detail.property or detail.by) in _OF_PROPERTIES
    ):
        return _OF_PROPERTIES[detail.property or detail.by]
    if isinstance(detail, SideEffect) and detail.operator.op in (
        "prim::Enter",
        "prim::Exit",
    ):
        return "Put all these operators into the with block, or all of them before or after it."
    if isinstance(detail, SideEffect) or barrier_of(row) == "aten::wait":
        return "Move that operator before or after these operators."
    return None


_OF_PROPERTIES: Mapping[str, str] = {
    "number": "Compute the number from the model's input (x.size(0)), or from another tensor that the"
    " group does not compute.",
    "dtype": "Cast with type_as, y.type_as(x) for y.to(x.dtype), or name the dtype: y.to(torch.float16).",
    **dict.fromkeys(
        ("device", "layout"),
        "Take it from another tensor, such as an input of the model.",
    ),
}
"""The property of a tensor through which a detour goes, or the kind of the detour
-> advice."""


def _waits(row: Unfused) -> Remedy:
    return nothing(
        f"Nothing: {barrier_of(row)} is in no group, so one runs before it and the other after it."
    )


def on_order(row: Unfused, run: RunFacts) -> str | Remedy:
    """Return the advice for FD216: an operator that depends on this one is in
    between."""
    if isinstance(row.reason.detail, Barrier):
        return on_separated(row, run)
    waits = _waits(row) if isinstance(row.reason.detail, Detour) else None
    return _reordered(row) or waits or general_remedy("FD216")


def on_alone(row: Unfused, run: RunFacts) -> str | Remedy:
    """Return the advice for FD225: the operator has no neighbour to fuse with."""
    detail = row.reason.detail
    if isinstance(detail, EndedInPlace):
        sign = operators.sign_of(barrier_of(row))
        if sign:
            how = f"x = x {sign} y instead of x {sign}= y"
        else:
            how = f"{barrier_of(row)} without its underscore"
        return f"Write {how} after it."
    if isinstance(detail, Alone) and detail.container == "into_object":
        return (
            "Keep its result in a local variable, and store it in the object last."
        )
    knob = facts_of(run.fuser).switches.knob_for_one
    if knob is not None and run.live:
        return nothing(
            "Nothing, if no other operator can be next to it;",
            f"--knob {knob} makes it a group of its own.",
        )
    return nothing("Nothing, if no other operator can be next to it.")


CHANGEABLE = ("in_place", "no_formula", "overload")
"""Ends of a differentiable graph (``Gap.why``) that another operator would
avoid."""


def instead_of_in_place(end: RegionEnd, run: RunFacts) -> str | None:
    """Return how to write the in-place operator that ends a differentiable graph in
    another way; None if another reason ends it or no such way is known."""
    op, plain = end.operator.op, end.operator.op[:-1]
    if end.gap.why != "in_place" or plain not in operators.WITH_FORMULA:
        return None
    taken = run.fuser is None or fusers.taken_by(plain, run.fuser, run.torch)
    recipe = None if taken else any_recipe(plain, run)
    if recipe is not None:
        return f"change {op}, which works in place: {recipe.words}"
    return f"change {op}, which works in place, to {plain}"
