"""Sentences of reasons of Inductor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fusiondoc.model.reasons.of_inductor import (
    CompiledCall,
    KindOfCall,
    SharedAccess,
    StayedApart,
)


class _Call(NamedTuple):
    """A kind of call in sentences."""

    text: str
    """Why the operator is such a call."""
    noun: str


_CALLS: Mapping[KindOfCall, _Call] = {
    "library": _Call("a library computes it", "a call of a library"),
    "no lowering": _Call(
        "Inductor has no lowering and no decomposition for it, so it runs as in eager code",
        "an operator without a lowering",
    ),
    "on purpose": _Call(
        "Inductor leaves it to eager code on purpose",
        "an operator that Inductor leaves to eager code",
    ),
    "custom": _Call(
        "it is a custom operator, which is opaque to Inductor", "a custom operator"
    ),
    "user's Triton kernel": _Call(
        "it is a Triton kernel of the program", "a Triton kernel of the program"
    ),
    "random seed": _Call(
        "it draws the seeds of the random numbers of the graph",
        "the seeds of random numbers",
    ),
    "view": _Call("it is a view: it moves no data", "a view"),
    "collective": _Call(
        "it exchanges data with other processes", "an exchange with other processes"
    ),
    "copy": _Call(
        "the wrapper copies a tensor in eager code", "a copy in eager code"
    ),
    "eager sum": _Call(
        "the wrapper adds up the workspace of a reduction in eager code",
        "a sum in eager code",
    ),
    "unknown": _Call(
        "the log has no generated code, so it does not show the call", "a call"
    ),
}

_CAUSES: Mapping[str, str] = {
    "access": "both use the tensor, but in another order or in other parts",
    "sizes": "their loops have other sizes",
    "elements": "the second reads other elements than the first has just written",
    "split reduction": "a reduction runs in two stages, each a kernel",
    "reductions": "they reduce in other directions, or over other sizes",
    "tiling": "their loops are tiled in other ways",
    "template": "a template of a matrix product or convolution does not take the other in",
    "user kernel": "one of them is a Triton kernel of the program, which takes nothing in",
    "mutation": "a tensor is changed in place or shares memory",
    "device": "they run on other devices or streams",
    "too large": "together they are larger than a kernel may be",
    "memory": "by Inductor's estimate, fused they would need more memory at the peak",
    "slower": "Inductor measured the fused kernel, and it was slower",
    "grouped": "one of them holds grouped or foreach operators, which take no others",
    "other graph": "they are in other graphs, which no pass of the compiler sees together",
    "other": "torch states a cause that this version of fusiondoc does not know",
}

_DIFFERENCES: Mapping[str, str] = {
    "order": "in another order",
    "reduction": "in another order, as one of them reduces over dimensions before the last",
    "windows": "by one of them in windows",
    "computed": "at indices that one of them computes",
    "loops": "in the same order, but in loops of other sizes",
    "part": "in another part",
    "disjoint": "in parts that have no element in common",
    "count": "for another number of elements",
    "broadcast": "broadcast by one of them",
    "opaque": "by one of them without an index",
    "unknown": "in a way that torch does not state",
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
    if detail.cause != "unstated" and detail.source in _WITHOUT_TEXT:
        return f"{text} ({_WITHOUT_TEXT[detail.source]})"
    return text


_WITHOUT_TEXT: Mapping[str, str] = {
    "no text": "torch refused them without a text",
    "no line": "the log has no line on these two",
    "never tried": "torch never tried to fuse them",
}


def _why_apart(detail: StayedApart) -> str:
    if detail.cause == "call":
        return f"{detail.op or 'one of them'} is {_CALLS[detail.call or 'unknown'].noun}, no loop"
    if detail.cause == "between":
        return _between(detail)
    if detail.cause == "access" and detail.accesses:
        return f"both use {_in_words(detail.accesses)}"
    if detail.cause == "unstated":
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
    by_difference: dict[str, list[str]] = {}
    for access in accesses:
        by_difference.setdefault(access.difference, []).append(access.buffer)
    parts = []
    for difference, buffers in by_difference.items():
        more = (
            f" and {len(buffers) - MOST_TENSORS} more"
            if len(buffers) > MOST_TENSORS
            else ""
        )
        parts.append(
            f"{', '.join(buffers[:MOST_TENSORS])}{more} {_DIFFERENCES[difference]}"
        )
    return " and ".join(parts)
