"""Findings on tensors that go through memory between kernels of torch.compile, with
remedies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.speed_of_light import in_bytes
from fusiondoc.fusers.inductor.causes import CODE_OF_CAUSE
from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause
from fusiondoc.model.boundaries import READ_TWICE, Boundary, BoundaryEnd
from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons.of_inductor import StayedApart
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Nothing, Remedy
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.rows_by_index import rows_by_index

MOST_PAIRS = 3
"""Pairs of ends that a message names."""

LEAST_BYTES = 1024
"""Bytes that must go through memory at a boundary for it to be a finding."""

_OF_CALLS = frozenset(
    (CODE_OF_CAUSE[ApartCause.CALL], CODE_OF_CAUSE[ApartCause.USER_KERNEL])
)
"""Causes of boundaries that the finding on the call covers."""

_OF_THE_COMPILER = frozenset(
    CODE_OF_CAUSE[cause]
    for cause in (
        ApartCause.SPLIT_REDUCTION,
        ApartCause.TOO_LARGE,
        ApartCause.SLOWER,
        ApartCause.OTHER,
    )
)
"""Causes that do not depend on how the operators are written: their advice holds
for gradients too."""

FORMULAS = Remedy(
    "Nothing in the program: torch's own gradient formulas make these operators.",
    "Another form of the forward pass can have other gradient operators.",
    nothing=Nothing.FORMULAS,
)

_REDUCTION = Remedy(
    "Nothing in the layout: a reduction over dimensions before the last, as batch normalisation in training"
    " makes, takes the elements in another order than they lie.",
    "Where the model allows it, reduce over the last dimensions: such a reduction can be one kernel with what"
    " reads the whole tensor.",
    nothing=Nothing.OTHER,
)

_DISJOINT = Remedy(
    "Nothing: the two use other elements, so none goes through memory twice.",
    "One kernel would save a launch and no bytes.",
    nothing=Nothing.OTHER,
)

_WINDOWS = Remedy(
    "Nothing: a pooling or a change of resolution reads windows of the tensor, which no layout changes.",
    nothing=Nothing.OTHER,
)

_COMPUTED = Remedy(
    "Nothing in the layout: one of them uses the tensor at indices that it computes, so all of the tensor is"
    " there before the first of them is read.",
    "Where the model allows it, index the inputs of the operators before it.",
    nothing=Nothing.OTHER,
)

_LOOPS = Remedy(
    "Nothing in the program: both take the same elements in the same order, and Inductor's C++ backend found"
    " no loops that both can have.",
    "On a GPU such loops can be one kernel.",
    nothing=Nothing.OTHER,
)


def boundaries(report: Report, context: Context) -> Iterable[Finding]:
    """FD26x and FD27x: one finding for each cause, line and remedy, with all bytes
    that go through memory there."""
    found: dict[tuple[str, str | None, Remedy | None], list[Boundary]] = {}
    for boundary in report.boundaries:
        cause = boundary.cause
        if (
            cause is not None
            and cause.code in CODES
            and cause.code not in _OF_CALLS
        ):
            key = (
                cause.code,
                line_of(boundary, report),
                _remedy(boundary, cause, report),
            )
            found.setdefault(key, []).append(boundary)
    for (code, source, remedy), several in found.items():
        sizes = []
        for one in several:
            if one.bytes is not None:
                sizes.append(one.bytes * one.count)
        moved = sum(sizes)
        if len(sizes) == len(several) and moved < LEAST_BYTES:
            continue  # a number that a later kernel reads: nothing to save
        severity = None
        if remedy is not None and remedy.nothing is not None:
            severity = "note"
        yield finding(
            code,
            _message(several, moved),
            source=source,
            severity=severity,
            remedy=remedy,
            saves_bytes=moved or None,
        )


def _remedy(boundary: Boundary, cause: Reason, report: Report) -> Remedy | None:
    """Return the change that would make the two one kernel, by how they access the
    shared tensor."""
    if _is_backward(boundary, report) and cause.code not in _OF_THE_COMPILER:
        return FORMULAS
    differences = _differences(cause)
    if differences == {AccessDifference.DISJOINT}:
        return _DISJOINT
    if AccessDifference.REDUCTION in differences and differences <= _NO_LAYOUT:
        return _REDUCTION
    if AccessDifference.COMPUTED in differences and differences <= _NO_LAYOUT:
        return _COMPUTED
    if AccessDifference.WINDOWS in differences and differences <= _NO_LAYOUT:
        return _WINDOWS
    if (
        cause.code in _OF_SIZES
        and AccessDifference.LOOPS in differences
        and differences <= _NO_LAYOUT
    ):
        return _LOOPS
    return CODES[cause.code].remedy


_NO_LAYOUT = frozenset(
    (
        AccessDifference.REDUCTION,
        AccessDifference.WINDOWS,
        AccessDifference.COMPUTED,
        AccessDifference.BROADCAST,
        AccessDifference.LOOPS,
    )
)
"""Differences of accesses that another layout of the tensor does not remove."""

_OF_SIZES = frozenset(
    (CODE_OF_CAUSE[ApartCause.SIZES], CODE_OF_CAUSE[ApartCause.REDUCTIONS])
)


def _differences(cause: Reason) -> frozenset[AccessDifference]:
    detail = cause.detail
    if not isinstance(detail, StayedApart):
        return frozenset()
    return frozenset(access.difference for access in detail.accesses)


def _is_backward(boundary: Boundary, report: Report) -> bool:
    """True if both ends are in a backward pass."""
    rows = rows_by_index(report)
    for end in (boundary.producer, boundary.consumer):
        known = report.group(end.group) or rows.get(end.row)
        if known is None or known.phase != "backward":
            return False
    return True


def line_of(boundary: Boundary, report: Report) -> str | None:
    """Return the line of the node between the ends, else of the second end."""
    for end in (*boundary.between, boundary.consumer, boundary.producer):
        group = report.group(end.group)
        if group is not None:
            for node in group.nodes:
                if node.user_source is not None:
                    return node.user_source
        row = rows_by_index(report).get(end.row)
        if row is not None and row.user_source is not None:
            return row.user_source
    return None


def _message(several: Sequence[Boundary], moved: int) -> str:
    """Return bytes, ends and cause: ``16.4 kB are read twice by G4 and G5:
    ...``."""
    size = in_bytes(moved) if moved else "A tensor"
    twice = all(one.kind == READ_TWICE for one in several)
    verb = "are" if moved else "is"
    if twice:
        how = f"{verb} read twice, by"
    else:
        how = f"{'go' if moved else 'goes'} through memory between"
    pairs = list(
        dict.fromkeys(
            f"{_end(one.producer)} and {_end(one.consumer)}" for one in several
        )
    )
    more = ""
    if len(pairs) > MOST_PAIRS:
        more = f" and {len(pairs) - MOST_PAIRS} more pairs"
    first = several[0].cause
    why = first.text if first is not None else ""
    return f"{size} {how} {', '.join(pairs[:MOST_PAIRS])}{more}: {why}"


def _end(end: BoundaryEnd) -> str:
    return end.group or end.op
