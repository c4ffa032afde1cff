"""The segments of a group: who schedules each, who refused it, which kernel it is, which operators it
holds.

A kernel takes the tensors that its segment takes and makes, under the same numbers: where the source of the
kernels is known, that tells which is which. Else the order of compilation does (``run_order``), if there are
as many kernels as segments.

Which expressions an operator became: the nodes of the group's graph are parsed in order (parser.cpp),
and each makes its expressions before the next does: so the tensors of the IR, by number, are in the order
of the nodes. Nothing printed says where one node ends. An operator is told by the expressions that it must
become, in order; broadcasts, casts, copies and arithmetic on scalars may come anywhere. Only if every
operator and every expression has its place, and in one way only, is it said; else nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.fusers import FUSERS
from fusiondoc.model import dataclass
from fusiondoc.model.report import Segment
from fusiondoc.numbers import whole_numbers
from fusiondoc.parsers.facts import DumpSeen, KernelUse, Runtime
from fusiondoc.parsers.kernels.dump_kernel import (
    Asked,
    Expression,
    Part,
    asked_of,
    expressions_of,
    parts_of,
    run_order,
    scheduler_of_parameters,
)
from fusiondoc.parsers.rows import PackedEvidence

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
    """Who scheduled a kernel, and what was dumped of it."""

    scheduler: str | None
    dumps: tuple[DumpSeen, ...]


def cuts_of(runtime: Runtime) -> list[Cut]:
    """How a group was cut, as far as the log tells it."""
    asked = [one for seen in runtime.segmenter for one in asked_of(seen.text)]
    if runtime.segments is not None:
        return _of_parts(parts_of(runtime.segments), asked, runtime.kernels)
    return _of_questions(asked, runtime.kernels)


def scheduled(cuts: Iterable[Cut]) -> dict[KernelUse, Scheduled]:
    """What the cuts tell of their kernels. All parameters of a runtime were given to all its kernels: here
    each keeps those of its own scheduler."""
    told: dict[KernelUse, Scheduled] = {}
    for cut in cuts:
        for kernel in cut.kernels:
            dumps = told[kernel].dumps if kernel in told else kernel.dumps
            own = tuple(
                seen
                for seen in dumps
                if seen.option != "scheduler_params"
                or scheduler_of_parameters(seen.text.encode()) == cut.scheduler
            )
            kept = any(seen.option == "scheduler_params" for seen in own)
            told[kernel] = Scheduled(cut.scheduler, own if kept else dumps)
    return told


def segments_of(
    runtime: Runtime, cuts: Sequence[Cut], ops: Sequence[str], ids: Mapping[KernelUse, str], files: list[str]
) -> tuple[Segment, ...]:
    """The segments as the report has them. ``ops``: of the group; ``ids``: of kernels."""
    held = _operators(runtime, cuts, ops)
    evidence = PackedEvidence(sorted(set(runtime.lines)), files)
    return tuple(
        Segment(
            index=index,
            scheduler=cut.scheduler,
            refused=cut.refused,
            ops=held[index],
            kernels=tuple(ids[kernel] for kernel in cut.kernels if kernel in ids),
            evidence=evidence,
        )
        for index, cut in enumerate(cuts)
    )


def _of_parts(parts: Sequence[Part], asked: list[Asked], kernels: list[KernelUse]) -> list[Cut]:
    matched = _kernels_of(parts, kernels)
    cuts = []
    for part, found in zip(parts, matched):
        refused: tuple[tuple[str, str], ...] = ()
        for one in asked:
            whole = len(parts) == 1 and not one.expressions
            if one.accepted == part.scheduler and (whole or _same(one.expressions, part.expressions)):
                refused = one.refused
        cuts.append(Cut(part.scheduler, refused, part.expressions, found))
    return cuts


def _kernels_of(parts: Sequence[Part], kernels: list[KernelUse]) -> list[list[KernelUse]]:
    taken = {kernel: _tensors(kernel) for kernel in kernels}

    def fits(part: Part, kernel: KernelUse) -> bool | None:
        tensors = taken[kernel]
        # Outputs can have got another number when the kernel was scheduled (a copy is cached).
        return None if tensors is None else part.inputs <= tensors

    order = run_order(parts)
    if len(order) == len(kernels):
        by_order: list[list[KernelUse]] = [[] for _ in parts]
        for index, kernel in zip(order, kernels):
            by_order[index] = [kernel]
        if all(fits(part, found[0]) is not False for part, found in zip(parts, by_order)):
            return by_order
    matched = []
    for part in parts:
        found = [kernel for kernel in kernels if fits(part, kernel)]
        matched.append(found if len(found) == 1 else [])
    return matched


def _of_questions(asked: list[Asked], kernels: list[KernelUse]) -> list[Cut]:
    """Without segmented_fusion: the whole fusion if it was accepted, else the accepted fusions that take and
    make just what the kernels do."""
    if not asked:
        return []
    first = asked[0]
    if not first.expressions and first.accepted:
        return [Cut(first.accepted, first.refused, (), kernels if len(kernels) == 1 else [])]
    universe = {n for one in asked for expr in one.expressions for n in (*expr.makes, *expr.takes)}
    cuts = []
    for kernel in kernels:
        tensors = _tensors(kernel)
        if tensors is None:
            return []
        best = None
        for one in asked:
            makes = {n for expr in one.expressions for n in expr.makes}
            outside = {n for expr in one.expressions for n in expr.takes} - makes
            if one.accepted and outside <= tensors and tensors & universe <= outside | makes:
                best = one
        if best is None or not best.expressions:
            return []
        cuts.append(Cut(best.accepted, best.refused, best.expressions, [kernel]))
    made = [n for cut in cuts for expr in cut.expressions for n in expr.makes]
    every = {n for one in asked for expr in one.expressions for n in expr.makes}
    return cuts if len(made) == len(set(made)) and set(made) == every else []


def _tensors(kernel: KernelUse) -> set[int] | None:
    """Numbers of the tensors among the parameters of a kernel; None without its source."""
    code = str(kernel.kept_code) if kernel.kept_code is not None else None
    begin = code.find("__global__ void ") if code is not None else -1
    head = _HEAD.match(code, begin) if code is not None and begin >= 0 else None
    if head is None:
        return None
    return set(whole_numbers(_NAME.findall(head.group(1))))


def _same(one: Sequence[Expression], other: Sequence[Expression]) -> bool:
    return {e.makes for e in one} == {e.makes for e in other}


def _operators(runtime: Runtime, cuts: Sequence[Cut], ops: Sequence[str]) -> list[tuple[str, ...]]:
    if len(cuts) == 1:
        return [tuple(ops)]
    nothing: list[tuple[str, ...]] = [() for _ in cuts]
    if runtime.whole is None:
        return nothing
    _, _, body = str(runtime.whole).partition("%kernel_math {\n")
    whole = expressions_of(body)
    found = places(ops, whole)
    if found is None:
        return nothing
    held: list[tuple[str, ...]] = []
    for cut in cuts:
        makes = {n for expr in cut.expressions for n in expr.makes}
        inside = [any(makes.intersection(whole[index].makes) for index in indexes) for indexes in found]
        held.append(tuple(op for op, here in zip(ops, inside) if here))
    return held


_PASSIVE = frozenset(("broadcast", "cast", "set", "squeeze", "expand", "full", "constant"))
"""Expressions that come with others: no operator is told by them."""

_MOST_TEXT = 2000
"""Characters of an expression that are looked at."""

_FUNCTION = re.compile(r"\b([A-Za-z_]\w*) ?\(")
_CAST = re.compile(
    r"\((?:float|double|__half|__bfloat|int|int64_t|bool|half|bfloat16)\)\(|__[a-z0-9]{1,20}2[a-z0-9]{1,20}\("
)
_BINARY = re.compile(r"\n[ \t]+(==|!=|<=|>=|\+|-|\*|/|<|>|&|\||\^|%|//)\s")
_INFIX = re.compile(r"\S \s*(==|!=|<=|>=|\+|-|\*|/|<|>|&|\|)\s")
_REDUCTION = re.compile(r"op = (\w+)")

_FORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    op: tuple(tuple(form.split(", ")) for form in forms)
    for fuser in FUSERS.values()
    for op, forms in fuser.expressions.items()
}
"""Operator -> the forms in which a kernel shows it, each as the words of its expressions."""

_FUNCTIONS = frozenset(op[6:] for op, forms in _FORMS.items() if (op[6:],) in forms)
"""Functions with the name of their operator."""

_NO_EXPRESSION = frozenset(("prim::ListConstruct", "prim::TupleConstruct", "aten::size", "prim::Constant"))


def places(ops: Sequence[str], expressions: Sequence[Expression]) -> list[tuple[int, ...]] | None:
    """Of each operator, the indexes of its expressions; None where that cannot be told."""
    tokens = [(i, token) for i, token in enumerate(map(_token, expressions)) if token not in _PASSIVE]
    names = [token for _, token in tokens]
    if None in names:
        return None
    ways: list[dict[int, tuple[int, tuple[int, int] | None]]] = [{0: (1, None)}]
    for op in ops:
        reached: dict[int, tuple[int, tuple[int, int] | None]] = {}
        for start, (count, _) in ways[-1].items():
            for length in _lengths(op, names, start):
                before = reached.get(start + length, (0, None))[0]
                reached[start + length] = (min(2, before + count), (start, length))
        ways.append(reached)
    end = ways[-1].get(len(names))
    if end is None or end[0] != 1:
        return None
    found: list[tuple[int, ...]] = []
    at = len(names)
    for reached in reversed(ways[1:]):
        step = reached[at][1]
        assert step is not None
        start, length = step
        found.append(tuple(index for index, _ in tokens[start : start + length]))
        at = start
    return found[::-1]


def _lengths(op: str, names: Sequence[str | None], start: int) -> list[int]:
    """How many expressions from ``start`` on the operator may be."""
    if op in _NO_EXPRESSION:
        return [0]
    forms = _FORMS.get(op, ())
    return [len(form) for form in forms if tuple(names[start : start + len(form)]) == form]


def _token(expression: Expression) -> str | None:
    """What computes it, in one word; None if the line is not understood."""
    text = expression.text[:_MOST_TEXT]
    if text.startswith("Welford"):
        return "Welford"
    if _CAST.match(text):
        return "cast"
    binary = _BINARY.search(text) or _INFIX.search(re.sub(r"\[.*?\]|\{.*?\}", "", text))
    if binary and not _FUNCTION.match(text):
        return binary.group(1)
    named = _FUNCTION.match(text)
    if named is None:
        if text.startswith("-T"):
            return "-x"
        return "set" if re.match(r"T\d+_\w*\[[^\n]*\];?$", text) else None
    name = named.group(1)
    if name == "reduction":
        kind = _REDUCTION.search(text)
        return f"reduction {kind.group(1)}" if kind else None
    if name in ("rng_uniform", "randLike", "Philox"):
        return "rand"
    if name in _PASSIVE:
        return name
    return name[:-1] if name[:-1] in _FUNCTIONS and name not in _FUNCTIONS else name
