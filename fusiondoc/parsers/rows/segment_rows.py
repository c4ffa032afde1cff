"""The segments of a group: the scheduler of each, the schedulers that refused it,
its kernel and its operators.

A kernel reads and writes the tensors that its segment reads and writes, under the
same numbers: if the source of the kernels is known, that identifies them. Otherwise
the order of compilation does (``run_order``), if there are as many kernels as
segments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.model import dataclass
from fusiondoc.model.report import Segment
from fusiondoc.numbers import whole_numbers
from fusiondoc.parsers.facts import DumpSeen, KernelUse, Runtime
from fusiondoc.parsers.kernels.dump_kernel import (
    Candidate,
    Expression,
    PrintedSegment,
    candidates_of,
    expressions_of,
    parts_of,
    run_order,
    scheduler_of_parameters,
)
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.operator_expressions import expressions_of_operators

_HEAD = re.compile(r"__global__ void [^(]*\((.*?)\) {0,80}\{", re.S)
_NAME = re.compile(r"\bT(\d{1,9})\b")


@dataclass
class Cut:
    """One segment of a runtime."""

    scheduler: str | None
    refused: tuple[tuple[str, str], ...]
    expressions: tuple[Expression, ...]
    kernels: list[KernelUse]


class Scheduled(NamedTuple):
    """The scheduler of a kernel, and the kernel's dumps."""

    scheduler: str | None
    dumps: tuple[DumpSeen, ...]


def cuts_of(runtime: Runtime) -> list[Cut]:
    """Return the segments into which a group was cut, as far as the log shows
    them."""
    candidates: list[Candidate] = []
    for seen in runtime.segmenter:
        candidates += candidates_of(seen.text)
    if runtime.segments is not None:
        return _of_parts(parts_of(runtime.segments), candidates, runtime.kernels)
    return _of_candidates(candidates, runtime.kernels)


def scheduled(cuts: Iterable[Cut]) -> dict[KernelUse, Scheduled]:
    """Return the scheduler and dumps of each kernel. All scheduler parameters of a
    runtime were assigned to all its kernels: here each keeps those of its own
    scheduler."""
    found: dict[KernelUse, Scheduled] = {}
    for cut in cuts:
        for kernel in cut.kernels:
            dumps = found[kernel].dumps if kernel in found else kernel.dumps
            found[kernel] = Scheduled(
                cut.scheduler, _own_dumps(dumps, cut.scheduler)
            )
    return found


_PARAMETERS = "scheduler_params"


def _own_dumps(
    dumps: tuple[DumpSeen, ...], scheduler: str | None
) -> tuple[DumpSeen, ...]:
    """Return the dumps without the parameters of other schedulers; all dumps if no
    parameters belong to this scheduler."""
    own = []
    for seen in dumps:
        if (
            seen.option != _PARAMETERS
            or scheduler_of_parameters(seen.text.encode()) == scheduler
        ):
            own.append(seen)
    if any(seen.option == _PARAMETERS for seen in own):
        return tuple(own)
    return dumps


def segments_of(
    runtime: Runtime,
    cuts: Sequence[Cut],
    ops: Sequence[str],
    ids: Mapping[KernelUse, str],
    files: list[str],
) -> tuple[Segment, ...]:
    """Return the segments as the report has them. ``ops``: operators of the group;
    ``ids``: ids of kernels."""
    held = _operators(runtime, cuts, ops)
    evidence = PackedEvidence(sorted(set(runtime.lines)), files)
    segments = []
    for index, cut in enumerate(cuts):
        kernels = []
        for kernel in cut.kernels:
            if kernel in ids:
                kernels.append(ids[kernel])
        segments.append(
            Segment(
                index=index,
                scheduler=cut.scheduler,
                refused=cut.refused,
                ops=held[index],
                kernels=tuple(kernels),
                evidence=evidence,
            )
        )
    return tuple(segments)


def _of_parts(
    parts: Sequence[PrintedSegment],
    candidates: list[Candidate],
    kernels: list[KernelUse],
) -> list[Cut]:
    cuts = []
    for part, found in zip(parts, _kernels_of(parts, kernels)):
        refused: tuple[tuple[str, str], ...] = ()
        for fusion in candidates:
            whole = len(parts) == 1 and not fusion.expressions
            same = whole or _made_by_each(fusion.expressions) == _made_by_each(
                part.expressions
            )
            if fusion.accepted == part.scheduler and same:
                refused = fusion.refused
        cuts.append(Cut(part.scheduler, refused, part.expressions, found))
    return cuts


def _made_by_each(expressions: Iterable[Expression]) -> set[tuple[int, ...]]:
    return {expression.makes for expression in expressions}


def _kernels_of(
    parts: Sequence[PrintedSegment], kernels: list[KernelUse]
) -> list[list[KernelUse]]:
    """Return the kernel of each part: by the order in which they run, if no tensors
    contradict it, else by the tensors; [] if several or no kernels fit."""
    tensors = {kernel: _tensors(kernel) for kernel in kernels}
    order = run_order(parts)
    if len(order) == len(kernels):
        of_part = dict(zip(order, kernels))
        if all(
            _fits(parts[index], tensors[kernel]) is not False
            for index, kernel in of_part.items()
        ):
            return [[of_part[index]] for index in range(len(parts))]
    matched = []
    for part in parts:
        found = [kernel for kernel in kernels if _fits(part, tensors[kernel])]
        matched.append(found if len(found) == 1 else [])
    return matched


def _fits(part: PrintedSegment, tensors: set[int] | None) -> bool | None:
    """True if a kernel with these tensors can be the kernel of a part; None if its
    tensors are not known. Only inputs are compared: scheduling can give an output
    another number (a copy is cached)."""
    if tensors is None:
        return None
    return part.inputs <= tensors


def _of_candidates(
    candidates: list[Candidate], kernels: list[KernelUse]
) -> list[Cut]:
    """Return the segments without segmented_fusion: the whole fusion if it was
    accepted, else the accepted fusions that take and make exactly the tensors of
    the kernels."""
    if not candidates:
        return []
    first = candidates[0]
    if not first.expressions and first.accepted:
        return [
            Cut(
                first.accepted,
                first.refused,
                (),
                kernels if len(kernels) == 1 else [],
            )
        ]
    cuts = []
    for kernel in kernels:
        fusion = _accepted_fusion(candidates, kernel)
        if fusion is None or not fusion.expressions:
            return []
        cuts.append(
            Cut(fusion.accepted, fusion.refused, fusion.expressions, [kernel])
        )
    if _make_all_once(cuts, candidates):
        return cuts
    return []


def _accepted_fusion(
    candidates: Iterable[Candidate], kernel: KernelUse
) -> Candidate | None:
    """Return the last accepted fusion that has the tensors of a kernel; None if
    there is none or the kernel's source is unknown."""
    tensors = _tensors(kernel)
    if tensors is None:
        return None
    known: set[int] = set()
    for fusion in candidates:
        known |= _makes(fusion.expressions) | _takes(fusion.expressions)
    found = None
    for fusion in candidates:
        makes = _makes(fusion.expressions)
        outside = _takes(fusion.expressions) - makes
        if (
            fusion.accepted
            and outside <= tensors
            and tensors & known <= outside | makes
        ):
            found = fusion
    return found


def _make_all_once(cuts: Iterable[Cut], candidates: Iterable[Candidate]) -> bool:
    """True if the cuts together make each tensor of all fusions once."""
    made: Counter[int] = Counter()
    for cut in cuts:
        for expression in cut.expressions:
            made.update(expression.makes)
    every: set[int] = set()
    for fusion in candidates:
        every |= _makes(fusion.expressions)
    return set(made) == every and all(times == 1 for times in made.values())


def _makes(expressions: Iterable[Expression]) -> set[int]:
    """Return the numbers of the tensors that the expressions make."""
    makes: set[int] = set()
    for expression in expressions:
        makes.update(expression.makes)
    return makes


def _takes(expressions: Iterable[Expression]) -> set[int]:
    takes: set[int] = set()
    for expression in expressions:
        takes.update(expression.takes)
    return takes


def _tensors(kernel: KernelUse) -> set[int] | None:
    """Return the numbers of the tensors among the parameters of a kernel; None if
    its source is not known."""
    if kernel.kept_code is None:
        return None
    code = kernel.kept_code
    begin = code.find("__global__ void ")
    head = _HEAD.match(code, begin) if begin >= 0 else None
    if head is None:
        return None
    return set(whole_numbers(_NAME.findall(head.group(1))))


def _operators(
    runtime: Runtime, cuts: Sequence[Cut], ops: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the operators of each cut; () for each if they are not certain."""
    if len(cuts) == 1:
        return [tuple(ops)]
    nothing: list[tuple[str, ...]] = [() for _ in cuts]
    if runtime.whole is None:
        return nothing
    _, _, body = str(runtime.whole).partition("%kernel_math {\n")
    whole = expressions_of(body)
    found = expressions_of_operators(ops, whole)
    if found is None:
        return nothing
    held: list[tuple[str, ...]] = []
    for cut in cuts:
        makes = _makes(cut.expressions)
        inside = []
        for indexes in found:
            inside.append(bool(makes & _makes(whole[index] for index in indexes)))
        held.append(tuple(op for op, here in zip(ops, inside) if here))
    return held
