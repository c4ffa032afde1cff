"""Sentences of reasons of runs with gradients."""

from __future__ import annotations

from fusiondoc.model.reasons import (
    AloneInRegion,
    DissolvedRegion,
    OutOfRegion,
    RegionDetour,
    SmallRegion,
)
from fusiondoc.model.reasons.words_of_parts import (
    CONTAINERS,
    at,
    gap_words,
    in_part,
)


def _when(recorded: bool) -> str:
    if recorded:
        return "gradients are recorded, and"
    return "no fusion pass looked at its graph; if gradients are recorded, this is because"


def out_of_region(detail: OutOfRegion) -> str:
    text = f"{_when(detail.recorded)} it {gap_words(detail.gap)}"
    if not detail.cuts:
        return text
    return f"{text}: one differentiable graph ends before it and another begins after it"


def alone_in_region(detail: AloneInRegion) -> str:
    alone = "torch differentiates regions of at least two operators, and this one has no neighbour"
    parts = []
    for end in detail.ends:
        parts.append(f"{at(end.operator)} {end.side} it {gap_words(end.gap)}")
    ends = "; ".join(parts)
    if detail.detour is not None:
        ends = _region_detour(detail.detour)
    if detail.container is not None:
        ends = CONTAINERS[detail.container]
    text = f"{_when(detail.recorded)} {alone}{': ' if ends else ''}{ends}"
    return in_part(text, detail.in_part)


def _region_detour(detour: RegionDetour) -> str:
    operator = at(detour.operator)
    if detour.by == "write":
        other = detour.last if detour.first is None else detour.first
        return (
            f"{operator} between it and {other} changes an attribute or argument in place, and torch moves"
            " nothing past that"
        )
    if detour.first is None:
        result = "its result"
    else:
        result = f"the result of {detour.first}"
    taken = f"the size of {result}" if detour.by == "size" else result
    last = "it" if detour.last is None else detour.last
    return f"{operator} takes {taken} and leads to {last}, so the two cannot be adjacent"


def small_region(detail: SmallRegion) -> str:
    text = (
        f"{_when(detail.recorded)} the differentiable graph around it would have {detail.nodes} nodes,"
        f" constants included: torch dissolves one of fewer than {detail.fewest}"
    )
    return in_part(text, detail.in_part)


def dissolved_region(detail: DissolvedRegion) -> str:
    graph = f"torch dissolved the differentiable graph of {detail.operators} operators around it"
    return in_part(
        f"{_when(detail.recorded)} {graph}: {_why_dissolved(detail)}",
        detail.in_part,
    )


def _why_dissolved(detail: DissolvedRegion) -> str:
    if detail.why == "nothing_profiled":
        return "no tensor that enters it has a profiled type, as in code that did not run in the profiled passes"
    if detail.operator is None or detail.why == "not_shown":
        return "the plan does not show for which of its inputs or outputs"
    operator = at(detail.operator)
    if detail.why == "lost_at_border":
        return (
            f"it takes a result of the differentiable graph before it that {operator} reads, and the profiled"
            " type of that result was lost at the border"
        )
    if detail.why == "not_profiled":
        if detail.maker is not None:
            value = f"the result of {at(detail.maker)}"
        else:
            value = "a tensor"
        return f"no type was profiled for {value} that {operator} reads"
    return f"{operator} in it returns a tensor that shares memory with its input"
