"""Sentences of reasons of the operator itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fusiondoc.fusers import FUSERS, facts_of, fuser_title, titles
from fusiondoc.fusers.te import TE
from fusiondoc.model.reasons import (
    Argument,
    ControlFlow,
    FullGroup,
    InPlace,
    NewerRule,
    NoRule,
    NotConstant,
    NothingToGain,
    NotKnown,
    NotOptimised,
    Overload,
    Refusal,
    Unprofiled,
    WrongDevice,
    WrongType,
)
from fusiondoc.model.reasons.words_of_parts import at, condition_words, title_of


def no_rule(detail: NoRule) -> str:
    if detail.fuser is None:
        return f"no fuser has a rule for {detail.op}"
    return f"{title_of(detail.fuser)} has no rule for {detail.op}"


def newer_rule(detail: NewerRule) -> str:
    text = f"{fuser_title(detail.fuser or '')} has a rule for it only since torch {detail.since}"
    if detail.torch_known:
        return text
    return f"{text}: the log does not show which ran"


_TAKES_CONSTANTS = titles(lambda fuser: fuser.operators.casts_by_constants)


def overload(detail: Overload) -> str:
    own = facts_of(detail.fuser).words.overloads.get(detail.given)
    if own is not None:
        return own.format(op=detail.op)
    title = title_of(detail.fuser)
    if detail.given == "not_two_tensors":
        return f"{title} takes {detail.op} of two tensors only"
    if detail.given == "all_elements":
        return f"it reduces over all dimensions, and {title} takes {detail.op} of two tensors only"
    if detail.given == "with_indices":
        return f"it gives indices too, and {title} takes {detail.op} of two tensors only"
    given = {
        "rounding_mode": "with a rounding mode",
        "number_first": "a number before the tensor",
        "tensor_limits": "tensors as limits",
    }.get(detail.given, detail.types)
    return (
        f"{title} has a rule for {detail.op}, but not for this overload ({given})"
    )


def not_constant(detail: NotConstant) -> str:
    several = len(detail.arguments) > 1
    if detail.maker:
        if several:
            are = f"results of {detail.maker}"
        else:
            are = f"the result of {detail.maker}"
    else:
        are = "arguments of this graph" if several else "an argument of this graph"
    if not detail.arguments:
        return f"{_TAKES_CONSTANTS} takes aten::to only with constant arguments, and one is {are}"
    listed = " and ".join(f"`{name}`" for name in detail.arguments)
    if several:
        text = f"its {listed} are {are}, not constants"
    else:
        text = f"its {listed} is {are}, not a constant"
    if detail.runs == "not_profiled":
        return f"{text}, and this code did not run in the profiled passes"
    if detail.runs == "differ":
        return f"{text}, and it was not the same in all profiled runs"
    return text


_ARGUMENTS: Mapping[str, str] = {
    "no_elements": "a tensor that it takes has no elements (a size is 0)",
    "no_dimensions": "it reduces a tensor without dimensions",
    "unknown_number": "an input is a number of an unknown type, as from .item()",
    **{
        problem: words
        for fuser in FUSERS.values()
        for problem, words in fuser.words.arguments.items()
    },
}
"""``Argument.problem`` -> the sentence, with fields of ``Argument``."""


def argument(detail: Argument) -> str:
    return _ARGUMENTS[detail.problem].format(
        argument=detail.argument, dtype=detail.dtype
    )


_REFUSALS: Mapping[type, Callable[[Any], str]] = {
    NoRule: no_rule,
    NewerRule: newer_rule,
    Overload: overload,
    NotConstant: not_constant,
    Argument: argument,
}


def refusal(detail: Refusal) -> str:
    """Why the fuser refuses one operator, as a clause."""
    return _REFUSALS[type(detail)](detail)


def wrong_type(detail: WrongType) -> str:
    title, dtype = title_of(detail.fuser), detail.dtype
    return {
        "none": f"{title} does not fuse {dtype} tensors",
        "not_on_cpu": f"{title} does not fuse {dtype} tensors on the CPU",
        "some_on_cpu": f"{title} does not take it of {dtype} tensors on the CPU",
        "floating": f"{title} takes it of floating-point tensors only, and this one is {dtype}",
        "integer": f"{title} takes it of integer tensors only, and this one is {dtype}",
    }[detail.takes]


def wrong_device(detail: WrongDevice) -> str:
    title = title_of(detail.fuser)
    return {
        "several": f"its tensors are on several devices: {', '.join(detail.devices)}",
        "cpu": f"its tensors are on the CPU; {title} compiles only for the GPU",
        "numbers_on_cpu": f"it computes with numbers on the CPU; {title} compiles only for the GPU",
        "gpu_only": f"{title} takes it on the GPU only",
        "cpu_only": f"{title} takes it on the CPU only",
    }[detail.problem]


def control_flow(detail: ControlFlow) -> str:
    flow = f"control flow ({condition_words(detail.condition)})"
    if detail.in_formula:
        return f"{flow} in one of torch's own gradient formulas"
    return f"{flow} ends the group before it and begins another after"


def nothing_to_gain(detail: NothingToGain) -> str:
    if detail.does == "copies":
        if detail.fuser is None:
            whose = "no fuser has a"
        else:
            whose = f"{title_of(detail.fuser)} has no"
        return f"it copies its input into another layout, which {whose} rule for"
    if detail.does == "may_copy":
        after = f", as after {at(detail.after)}" if detail.after is not None else ""
        if detail.fuser is None:
            lacks = "no fuser has a rule"
        else:
            lacks = f"{title_of(detail.fuser)} has no rule"
        return f"it returns its input, or a copy where the memory order differs{after}: {lacks} for either"
    return {
        "counts_batches": "it counts the batches that a batch norm has seen: one number, nothing to save",
        "makes": "it makes a new tensor and computes nothing that a kernel could save",
        "views": "it makes a view: it moves no data and computes nothing that a kernel could save",
        "hands_on": "it returns a tensor unchanged, so a kernel has nothing to save",
        "is_contiguous": "its input is contiguous already: it returns it unchanged",
    }[detail.does]


def in_place(detail: InPlace) -> str:
    text = "it changes its input in place"
    if detail.plain_fusible is None:
        return text
    if detail.plain_fusible:
        return f"{text}; {detail.plain} could be fused"
    return f"{text}; {title_of(detail.fuser)} has no rule for {detail.plain} either"


def full_group(detail: FullGroup) -> str:
    return (
        f"with it the group next to it ({detail.arguments} inputs and outputs) would have more than"
        f" {detail.most}"
    )


def unprofiled(detail: Unprofiled) -> str:
    if detail.why == "never_ran":
        return "it never ran: no input of its code was ever profiled"
    return "the types of its inputs were not profiled: that code did not run in the first passes"


def not_optimised(detail: NotOptimised) -> str:
    if detail.why == "no_plan_yet":
        return "the executor of its differentiable graph made no plan in this log"
    if detail.why == "gave_up":
        return "its guard failed and no specialisation was left, so this copy runs unfused"
    return detail.off_by or "every fuser is off"


def not_known(detail: NotKnown) -> str:
    return {
        "log": "the log does not state why",
        "te_version": f"the version of {TE.title} is not known",
        "te_operator": "an operator of the plan is not known",
        **{fuser.name: fuser.words.left_out for fuser in FUSERS.values()},
    }[detail.because] or ""
