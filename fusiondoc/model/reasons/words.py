"""The sentence of a reason: made only here, and read by no code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fusiondoc.fusers.te import TE
from fusiondoc.fusers.te.rules import CONDITIONS_IN_WORDS
from fusiondoc.model.reasons import (
    AbsentGradients,
    Alone,
    AloneInRegion,
    Argument,
    Barrier,
    BehindViews,
    CompiledCall,
    ControlFlow,
    DecidesBetween,
    Detail,
    Detour,
    Dimensions,
    DissolvedRegion,
    EndedInPlace,
    FullGroup,
    InPlace,
    NewerNeighbour,
    NewerRule,
    NoRule,
    NotConstant,
    NothingToGain,
    NotInPattern,
    NotKnown,
    NotOptimised,
    OtherBlock,
    OutOfRegion,
    Overload,
    PythonCall,
    ReductionsOff,
    SideEffect,
    SmallRegion,
    Stated,
    StayedApart,
    UnmetConditions,
    Unprofiled,
    WithBlock,
    WriteBetween,
    WritesOut,
    WrongDevice,
    WrongType,
)
from fusiondoc.model.reasons.stated_words import STATED
from fusiondoc.model.reasons.words_of_inductor import compiled_call, stayed_apart
from fusiondoc.model.reasons.words_of_operators import (
    argument,
    control_flow,
    full_group,
    in_place,
    newer_rule,
    no_rule,
    not_constant,
    not_known,
    not_optimised,
    nothing_to_gain,
    overload,
    unprofiled,
    wrong_device,
    wrong_type,
)
from fusiondoc.model.reasons.words_of_parts import title_of
from fusiondoc.model.reasons.words_of_regions import (
    alone_in_region,
    dissolved_region,
    out_of_region,
    small_region,
)
from fusiondoc.model.reasons.words_of_surroundings import (
    alone,
    barrier,
    behind_views,
    decides_between,
    detour,
    ended_in_place,
    other_block,
    side_effect,
    write_between,
)


def sentence(detail: Detail) -> str:
    """The detail in words, without a full stop."""
    return _SENTENCES[type(detail)](detail)


def _stated(detail: Stated) -> str:
    return STATED[detail.condition].format(op=detail.op, text=detail.text)


def _unmet_conditions(detail: UnmetConditions) -> str:
    clauses = []
    for condition in detail.conditions:
        if condition.condition == "neighbour_taken":
            own = ""
            if condition.own_fusion:
                own = ", a fusion that the program registered"
            why = f"{condition.neighbour} next to it went into {condition.taken_by}{own}"
        else:
            why = CONDITIONS_IN_WORDS[condition.condition]
        clauses.append(f"{condition.rule}: {why}")
    text = "; ".join(clauses)
    if detail.fused_under:
        return f"{text}; it is fused with {' and '.join(detail.fused_under)}"
    return text


def _not_in_pattern(detail: NotInPattern) -> str:
    if detail.why == "called_alone":
        return f"called by itself: {TE.title} before 2.7 fuses inside a te.ops.Sequential only"
    if detail.why == "newer_rule":
        return f"{detail.rule} takes it from {TE.title} {detail.since} on"
    if detail.why == "no_rule":
        return f"no rule of {TE.title} fuses it in this pass"
    needs = []
    for missing in detail.neighbours:
        sides = []
        for side in missing.sides:
            sides.append(
                f"{', '.join(side.slots)} {side.side} it, where {side.found or 'nothing'} is"
            )
        needs.append(f"{missing.rule} needs {' and '.join(sides)}")
    return "; ".join(needs)


_SENTENCES: Mapping[type, Callable[[Any], str]] = {
    NoRule: no_rule,
    NewerRule: newer_rule,
    PythonCall: lambda _: (
        "it calls a Python function, which is opaque to every fuser"
    ),
    Overload: overload,
    ReductionsOff: lambda _: "reductions are off (`nnc_reductions`)",
    NotConstant: not_constant,
    Argument: argument,
    WrongType: wrong_type,
    WrongDevice: wrong_device,
    Dimensions: lambda detail: (
        f"a tensor of {detail.dimensions} dimensions; {title_of(detail.fuser)} takes up to {detail.most}"
    ),
    ControlFlow: control_flow,
    WithBlock: lambda _: (
        "it begins or ends a with block, and torch moves no operator past that"
    ),
    AbsentGradients: lambda _: (
        "the gradient executor adds it for gradients that may be absent"
    ),
    NothingToGain: nothing_to_gain,
    InPlace: in_place,
    WritesOut: lambda _: "it writes its result into the tensor given as `out`",
    FullGroup: full_group,
    Unprofiled: unprofiled,
    NotOptimised: not_optimised,
    NotKnown: not_known,
    NewerNeighbour: lambda detail: (
        f"next to it is {detail.op}, and {newer_rule(detail.rule)}"
    ),
    Barrier: barrier,
    BehindViews: behind_views,
    OtherBlock: other_block,
    Alone: alone,
    EndedInPlace: ended_in_place,
    DecidesBetween: decides_between,
    Detour: detour,
    SideEffect: side_effect,
    WriteBetween: write_between,
    OutOfRegion: out_of_region,
    AloneInRegion: alone_in_region,
    SmallRegion: small_region,
    DissolvedRegion: dissolved_region,
    Stated: _stated,
    UnmetConditions: _unmet_conditions,
    NotInPattern: _not_in_pattern,
    CompiledCall: compiled_call,
    StayedApart: stayed_apart,
}
