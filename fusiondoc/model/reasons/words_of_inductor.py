"""Sentences of reasons of Inductor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause, CallKind
from fusiondoc.model.reasons.of_inductor import (
    CompiledCall,
    SharedAccess,
    StayedApart,
)


class _Call(NamedTuple):
    """A kind of call in sentences."""

    text: str
    """Why the operator is such a call."""
    noun: str


_CALLS: Mapping[CallKind, _Call] = {
    CallKind.LIBRARY: _Call("a library computes it", "a call of a library"),
    CallKind.NO_LOWERING: _Call(
        "Inductor has no lowering and no decomposition for it, so it runs as in eager code",
        "an operator without a lowering",
    ),
    CallKind.ON_PURPOSE: _Call(
        "Inductor leaves it to eager code on purpose",
        "an operator that Inductor leaves to eager code",
    ),
    CallKind.CUSTOM: _Call(
        "it is a custom operator, which is opaque to Inductor", "a custom operator"
    ),
    CallKind.USER_TRITON: _Call(
        "it is a Triton kernel of the program", "a Triton kernel of the program"
    ),
    CallKind.RANDOM_SEED: _Call(
        "it draws the seeds of the random numbers of the graph",
        "the seeds of random numbers",
    ),
    CallKind.VIEW: _Call("it is a view: it moves no data", "a view"),
    CallKind.COLLECTIVE: _Call(
        "it exchanges data with other processes", "an exchange with other processes"
    ),
    CallKind.COPY: _Call(
        "the wrapper copies a tensor in eager code", "a copy in eager code"
    ),
    CallKind.EAGER_SUM: _Call(
        "the wrapper adds up the workspace of a reduction in eager code",
        "a sum in eager code",
    ),
    CallKind.UNKNOWN: _Call(
        "the log has no generated code, so it does not show the call", "a call"
    ),
}

_CAUSES: Mapping[ApartCause, str] = {
    ApartCause.ACCESS: "both use the tensor, but in another order or in other parts",
    ApartCause.SIZES: "their loops have other sizes",
    ApartCause.ELEMENTS: "the second reads other elements than the first has just written",
    ApartCause.SPLIT_REDUCTION: "a reduction runs in two stages, each a kernel",
    ApartCause.REDUCTIONS: "they reduce in other directions, or over other sizes",
    ApartCause.TILING: "their loops are tiled in other ways",
    ApartCause.TEMPLATE: "a template of a matrix product or convolution does not take the other in",
    ApartCause.USER_KERNEL: "one of them is a Triton kernel of the program, which takes nothing in",
    ApartCause.MUTATION: "a tensor is changed in place or shares memory",
    ApartCause.DEVICE: "they run on other devices or streams",
    ApartCause.TOO_LARGE: "together they are larger than a kernel may be",
    ApartCause.MEMORY: "by Inductor's estimate, fused they would need more memory at the peak",
    ApartCause.SLOWER: "Inductor measured the fused kernel, and it was slower",
    ApartCause.GROUPED: "one of them holds grouped or foreach operators, which take no others",
    ApartCause.OTHER_GRAPH: "they are in other graphs, which no pass of the compiler sees together",
    ApartCause.OTHER: "torch states a cause that this version of fusiondoc does not know",
}

_DIFFERENCES: Mapping[AccessDifference, str] = {
    AccessDifference.ORDER: "in another order",
    AccessDifference.REDUCTION: "in another order, as one of them reduces over dimensions before the last",
    AccessDifference.WINDOWS: "by one of them in windows",
    AccessDifference.COMPUTED: "at indices that one of them computes",
    AccessDifference.LOOPS: "in the same order, but in loops of other sizes",
    AccessDifference.PART: "in another part",
    AccessDifference.DISJOINT: "in parts that have no element in common",
    AccessDifference.COUNT: "for another number of elements",
    AccessDifference.BROADCAST: "broadcast by one of them",
    AccessDifference.OPAQUE: "by one of them without an index",
    AccessDifference.UNKNOWN: "in a way that torch does not state",
}

MOST_TENSORS = 3
"""Most tensors that a sentence names."""


def compiled_call(detail: CompiledCall) -> str:
    name = f" ({detail.calls})" if detail.calls is not None else ""
    return _CALLS[detail.call].text + name


def stayed_apart(detail: StayedApart) -> str:
    text = _why_apart(detail)
    if detail.source == "members" and detail.text is not None:
        return (
            f"{text} (torch on parts of them, in an earlier round: {detail.text})"
        )
    if detail.text is not None:
        return f"{text} (torch: {detail.text})"
    if detail.cause is not ApartCause.UNSTATED and detail.source in _WITHOUT_TEXT:
        return f"{text} ({_WITHOUT_TEXT[detail.source]})"
    return text


_WITHOUT_TEXT: Mapping[str, str] = {
    "no text": "torch refused them without a text",
    "no line": "the log has no line on these two",
    "never tried": "torch never tried to fuse them",
}


def _why_apart(detail: StayedApart) -> str:
    if detail.cause is ApartCause.CALL:
        return f"{detail.op or 'one of them'} is {_CALLS[detail.call or CallKind.UNKNOWN].noun}, no loop"
    if detail.cause is ApartCause.BETWEEN:
        return _between(detail)
    if detail.cause is ApartCause.ACCESS and detail.accesses:
        return f"both use {_in_words(detail.accesses)}"
    if detail.cause is ApartCause.UNSTATED:
        return _WITHOUT_TEXT.get(
            detail.source, "nothing shows why they stayed apart"
        )
    return _CAUSES[detail.cause]


def _between(detail: StayedApart) -> str:
    if detail.op is None:
        return "another node stands between them"
    which = f", {_CALLS[detail.call].noun}," if detail.call is not None else ""
    return f"{detail.op}{which} stands between them"


def _in_words(accesses: tuple[SharedAccess, ...]) -> str:
    """``buf1 in another order and primals_3 broadcast by one of them``."""
    by_difference: dict[AccessDifference, list[str]] = {}
    for access in accesses:
        by_difference.setdefault(access.difference, []).append(access.buffer)
    parts = []
    for difference, buffers in by_difference.items():
        more = ""
        if len(buffers) > MOST_TENSORS:
            more = f" and {len(buffers) - MOST_TENSORS} more"
        parts.append(
            f"{', '.join(buffers[:MOST_TENSORS])}{more} {_DIFFERENCES[difference]}"
        )
    return " and ".join(parts)
