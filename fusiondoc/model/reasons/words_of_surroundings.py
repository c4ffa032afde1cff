"""Sentences of reasons in the surroundings of an operator."""

from __future__ import annotations

from fusiondoc.model.reasons import (
    Alone,
    Barrier,
    BehindViews,
    DecidesBetween,
    Detour,
    EndedInPlace,
    OperatorAt,
    OtherBlock,
    SideEffect,
    WriteBetween,
)
from fusiondoc.model.reasons.stated_words import SIDE_EFFECTS
from fusiondoc.model.reasons.words_of_operators import newer_rule, refusal
from fusiondoc.model.reasons.words_of_parts import (
    CONTAINERS,
    at,
    condition_words,
    in_part,
    partner,
    partner_or_this,
    title_of,
)

_NOT_MOVED = "and torch moves no operator past that"


def barrier(detail: Barrier) -> str:
    stands = "stands" if detail.alone else "and others after it stand"
    text = f"{at(detail.operator)}, {_why_barrier(detail)}, {stands} between it and {partner(detail.partner)}"
    return in_part(text, detail.in_part)


def _why_barrier(detail: Barrier) -> str:
    """Why the barrier is in no group, as a relative clause."""
    title = title_of(detail.fuser)
    if detail.why == "control_flow":
        if detail.condition is None:
            return "which is control flow"
        return f"which depends on {condition_words(detail.condition)}"
    if detail.why == "refused":
        cause = ""
        if detail.refusal is not None:
            cause = f" ({refusal(detail.refusal)})"
        return f"which {title} does not take here{cause}"
    if detail.why == "no_rule":
        if detail.fuser is None:
            return "which no fuser takes"
        return f"which {title} has no rule for"
    return {
        "in_place": "which changes its input in place",
        "region": "which has an executor of its own",
        "view": f"a view that {title} takes into no group",
        "some_cases": f"which {title} takes only in some cases",
    }[detail.why]


def behind_views(detail: BehindViews) -> str:
    views = " and ".join(at(view) for view in detail.views)
    rule = f" ({newer_rule(detail.rule)})" if detail.rule is not None else ""
    return in_part(
        f"{views} stands between it and {partner(detail.partner)}{rule}",
        detail.in_part,
    )


def other_block(detail: OtherBlock) -> str:
    if detail.partner is not None:
        other = partner(detail.partner)
    else:
        other = "what it could fuse with"
    control = at(detail.control) if detail.control is not None else "control flow"
    return in_part(
        f"{other} is on the other side of the block of {control}", detail.in_part
    )


_NO_KERNEL_FOR_ONE = "and one operator alone is not worth a kernel"


def alone(detail: Alone) -> str:
    sides = []
    if detail.before:
        sides.append(f"{' and '.join(detail.before[:3])} before it")
    if detail.after:
        sides.append(f"{' and '.join(detail.after[:3])} after it")
    if sides:
        text = f"nothing next to it can be fused with it: {', '.join(sides)}"
    elif detail.container is not None:
        text = CONTAINERS[detail.container]
    else:
        text = "no operator of its graph feeds it or takes its result"
    return in_part(f"{text}, {_NO_KERNEL_FOR_ONE}", detail.in_part)


def ended_in_place(detail: EndedInPlace) -> str:
    text = f"{at(detail.operator)} after it changes its input in place, so its differentiable graph ends there"
    return in_part(f"{text}, {_NO_KERNEL_FOR_ONE}", detail.in_part)


def decides_between(detail: DecidesBetween) -> str:
    if detail.condition is not None:
        on = condition_words(detail.condition)
    else:
        on = "None"
    between = f"between it and {partner(detail.partner)}"
    return f"{at(detail.control)} decides on {on} {between}, {_NOT_MOVED}"


def detour(detail: Detour) -> str:
    first, last = partner_or_this(detail.first), partner_or_this(detail.last)
    way = at(detail.operator) if detail.operator is not None else ""
    if detail.by == "property":
        text = f"the {detail.property} of its result is read by {detail.taker} in the group after it"
    elif detail.by == "number":
        text = f"a number that {last} takes is computed from the result of {first} or its size"
    elif detail.by == "takes":
        sized = " or a number of its size" if detail.of_size else ""
        text = f"{way} takes the result of {first}{sized} and leads to {last}"
    else:
        text = f"{way} is on a path from {first} to {last}"
    return f"{text}: fused, the two would wait for each other"


def side_effect(detail: SideEffect) -> str:
    effect = at(
        OperatorAt(SIDE_EFFECTS[detail.operator.op], detail.operator.source)
    )
    return f"{effect} stands between it and {partner(detail.partner)}, {_NOT_MOVED}"


def write_between(detail: WriteBetween) -> str:
    waits = detail.operator.op == "aten::wait"
    does = "waits for another task" if waits else "changes a tensor in place"
    return f"{at(detail.operator)} {does} between it and {partner(detail.partner)}, {_NOT_MOVED}"
