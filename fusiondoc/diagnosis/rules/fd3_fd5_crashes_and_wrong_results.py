"""FD307, FD308 and FD5xx: what came out wrong (FD303 is in ``fd3_crashes.py``); and what
the rerun without fallback says about the fallbacks of a report.

FD307: sizes, of the one failure that nvFuser puts before a group (the size
of a reduction's result). FD308: the shape of a gradient that a differentiable graph gave. FD501 to FD503:
numbers, as ``--verify`` found them when it compared fused passes with eager ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

from fusiondoc.captures.capture import Rerun
from fusiondoc.captures.ending import Ended
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.fusers import how_to_leave_out
from fusiondoc.model import count
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence, Fallback, Finding, Group, Report
from fusiondoc.model.runs import Verification, furthest_off
from fusiondoc.numbers import whole_numbers
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.lines.error_texts import IN_WORDS, read_error
from fusiondoc.parsers.observed import NOT_IN_SCOPE, SizedReduction


def describe(group: Group) -> str:
    """A group in a few words: its id, its first operators and its line."""
    names = [op.split("::")[-1] for op in group.ops]
    shown = ", ".join(names[:4]) + (f", ... {len(names)} operators" if len(names) > 4 else "")
    line = next((node.user_source for node in group.nodes if node.user_source), None)
    return f"{group.id} ({shown}{', ' + line if line else ''})"


def with_errors(report: Report, rerun: Rerun | None) -> Report:
    """The report with the kinds of errors, and the error of the rerun at the fallback that came first.

    The rerun stops at its first error, so it says nothing on the others; later ones often follow from it.
    """
    fallbacks = [_classified(one) for one in report.fallbacks]
    error = rerun.error if rerun is not None else None
    if error is not None and fallbacks:
        first = min(range(len(fallbacks)), key=lambda i: _line(fallbacks[i]))
        if fallbacks[first].error is None:
            fallbacks[first] = replace(fallbacks[first], error=error.text, error_kind=error.kind)
    return replace(report, fallbacks=tuple(fallbacks))


def _line(fallback: Fallback) -> int:
    return min((one.line for one in fallback.evidence), default=0)


def _classified(fallback: Fallback) -> Fallback:
    if fallback.error is None or fallback.error_kind is not None:
        return fallback
    error = read_error(fallback.error)
    return fallback if error is None else replace(fallback, error=str(error), error_kind=error.kind)


def error_in_words(fallback: Fallback) -> str:
    """ ": nvFuser's code generator failed: ..." or nothing."""
    if fallback.error is None:
        return ""
    words = IN_WORDS.get(fallback.error_kind or "")
    return f": {words}: {fallback.error}" if words else f": {fallback.error}"


_OPTIONS = (
    "If PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE was set, look for a word in it that this torch does not"
    " know: it makes everything fall back (FD003)."
)
_REMEMBERED = "torch remembers the failure and silently runs the operators unfused from then on."


def remedy_for(fallback: Fallback, rerun: Rerun | None, everything: bool = False) -> Remedy | str:
    """What to do, by what is known of the error. ``everything``: the log shows no group that works."""
    if "legacy executor" in (fallback.error or ""):
        return "Turn the profiling executor on: --knob profiling_executor=on (FD104)."
    if fallback.error_kind in ("codegen", "kernel", "driver"):
        return Remedy(
            "Take the operator that the error names, or the last of the group, out of fusion (--knob"
            " skip_node_kind=OPERATOR), make odd strides even with .contiguous(), or try a newer torch up to"
            " 2.1.",
            _REMEMBERED,
        )
    if fallback.error_kind == "program":
        return "Fix the program first: the unfused operators fail as well (run it with --fuser none)."
    if fallback.error_kind == "option":
        return "Take the unknown word out of the variable: it makes every group fall back (FD003)."
    if fallback.error_kind is not None:
        return Remedy(
            "See FD306: the installation does not fit the GPU;", "the fusion itself is not the cause."
        )
    if rerun is None:
        see = "with PYTORCH_NVFUSER_DISABLE=fallback (torch 1.12 to 2.1) to see the real error;"
        more = f"diagnose does so by itself. {_REMEMBERED}"
        return Remedy(_OPTIONS, f"Else run {see} {more}") if everything else Remedy(f"Run {see}", more)
    if rerun.error is not None:
        return "Fix the group that fell back first, then look again: later failures often follow from it."
    return Remedy(f"{_without_error(rerun)};", _REMEMBERED)


def _without_error(rerun: Rerun) -> str:
    """How a rerun without fallback ended that raised no error."""
    if rerun.ended is Ended.SIGNAL:
        return f"The rerun without fallback died of {rerun.signal} instead of raising an error"
    if rerun.ended is Ended.TIMED_OUT:
        return "The rerun without fallback did not end in time"
    if rerun.ended is Ended.INTERRUPTED:
        return "The rerun without fallback was interrupted"
    return "A rerun without fallback raised no error: the failure comes and goes"


def sizes_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD307: a plan of nvFuser computes the size of a reduction that it does not return, and fails."""
    texts: list[tuple[str, Evidence | None]] = []
    if context.error is not None:
        texts.append((context.error.message, None))
    texts += [(logged.text, logged.line) for logged in context.observed.errors]
    for text, line in texts:
        sized = context.observed.sized_for(text)
        if sized:
            yield _finding(report, sized, line, early=NOT_IN_SCOPE.search(text) is not None)
            return


def _finding(report: Report, sized: list[SizedReduction], line: Evidence | None, early: bool) -> Finding:
    """``early``: the size is computed before what it is the size of; else a dimension is negative."""
    last = sized[-1]
    group = next(group for group in report.groups if group.id == last.group)
    names = " and ".join(dict.fromkeys(one.op for one in sized))
    lines = {
        node.user_source
        for node in group.nodes
        if node.user_source and any((node.op, node.source) == (one.op, one.source) for one in sized)
    }
    where = f" ({', '.join(sorted(lines))})" if lines else ""
    why = (
        "from a tensor that the group has yet to compute"
        if early
        else f"which fails for the dimension {min(last.dims)} with keepdim"
    )
    if len(last.dims) > 1:
        which, how = "dimensions", "f(x, dims: List[int]): then they are no constants"
    else:
        which, how = "dimension", "f(x, dim: int): then it is no constant"
    return finding(
        "FD307",
        f"nvFuser failed, and the error ended the program: before group {describe(group)} it computes the"
        f" size of the result of {names} (prim::ReductionSizes), {why}",
        source=min(lines, default=None),
        evidence=[*([line] if line is not None else []), last.line],
        remedy=Remedy(
            f"Give the {which} of {names}{where} to the scripted function as an argument, as in {how},"
            " and torch reads the size;",
            f"or leave the operator out of groups (--knob skip_node_kind={last.op}). The fallback does"
            " not catch this error: it is not in the group.",
        ),
    )


_WRONG = re.compile(
    r"DifferentiableGraphBackward returned an invalid gradient at index \d+ - got \[([\d, ]*)\] but expected"
    r" shape compatible with \[([\d, ]*)\]"
)
"""torch/csrc/autograd/engine.cpp, validate_outputs."""

_MOST_DIMENSIONS = 6
"""720 orders of dimensions to try."""

_COPIES = ("prim::permute_copy", "prim::transpose_copy")

_Sizes = tuple[int, ...]


class _Culprit(NamedTuple):
    group: Group
    op: str
    taken: TensorType


def wrong_gradient(report: Report, context: Context) -> Iterable[Finding]:
    """FD308: autograd refused what the backward of a differentiable graph gave."""
    for logged in context.observed.errors:
        wrong = _WRONG.search(logged.text)
        if wrong is None:
            continue
        got, expected = _sizes(wrong.group(1)), _sizes(wrong.group(2))
        culprit = _culprit(report, got, expected)
        if culprit is None:
            yield finding(
                "FD308",
                f"The backward graph that torch made for a differentiable graph gave a gradient of"
                f" {list(got)} where {list(expected)} was expected",
                evidence=[logged.line],
                remedy="Run that function with torch.jit.optimized_execution(False): then autograd computes"
                " its gradients, and nothing of it is fused.",
            )
            continue
        plain = "aten::" + culprit.op.split("::")[1][: -len("_copy")]
        yield finding(
            "FD308",
            f"nvFuser's rule for {plain} gave a gradient of {list(got)} where {list(expected)} was expected:"
            f" group {culprit.group.id} takes a tensor of {list(culprit.taken.sizes or ())} with the strides"
            f" {list(culprit.taken.strides or ())}, and {culprit.op} reorders it in the order of its memory",
            source=next((node.user_source for node in culprit.group.nodes if node.user_source), None),
            evidence=[logged.line, *culprit.group.evidence[:1]],
            remedy=Remedy(
                f"Keep {plain} out of nvFuser's groups: --knob skip_node_kind={culprit.op}"
                f' (torch._C._jit_set_nvfuser_skip_node_kind("{culprit.op}", True));',
                "or choose another fuser.",
            ),
        )


def _sizes(text: str) -> _Sizes:
    return tuple(whole_numbers(one.strip() for one in text.split(",")))


def _culprit(report: Report, got: _Sizes, expected: _Sizes) -> _Culprit | None:
    """The group whose permute, done in the order of memory, gives exactly the wrong sizes. nvFuser of 2.0 and
    2.1 takes the input of these copies in its memory format and applies the dimensions as they were given
    (third_party/nvfuser/csrc/parser.cpp, the rules for prim::permute_copy and prim::transpose_copy)."""
    if got == expected or not 0 < len(got) <= _MOST_DIMENSIONS:
        return None
    for group in report.groups:
        op = next((node.op for node in group.nodes if node.op in _COPIES), None)
        if (
            op is None
            or group.phase == "forward"
            or not any(_is_of(text, expected) for text in group.outputs)
        ):
            continue
        for text in group.inputs:
            taken = parse_type(text)
            if isinstance(taken, TensorType) and _reordered(taken, got, expected):
                return _Culprit(group, op, taken)
    return None


def _is_of(text: str, sizes: _Sizes) -> bool:
    tensor = parse_type(text)
    return isinstance(tensor, TensorType) and tensor.sizes == sizes


def _reordered(taken: TensorType, got: _Sizes, expected: _Sizes) -> bool:
    """Whether some order of the dimensions gives ``expected`` of the tensor, and ``got`` of its memory."""
    sizes, strides = taken.sizes, taken.strides
    if sizes is None or strides is None or len(sizes) != len(got) or len(strides) != len(got):
        return False
    memory = sorted(range(len(got)), key=lambda axis: -strides[axis])
    if memory == list(range(len(got))):
        return False
    for order in permutations(range(len(got))):
        if tuple(sizes[axis] for axis in order) != expected:
            continue
        moved = [sizes[memory[axis]] for axis in order]
        restored = [moved[memory.index(axis)] for axis in range(len(got))]
        if tuple(restored) == got:
            return True
    return False


SHAPES = (sizes_failed, wrong_gradient)


_NAMED = 3


def numbers_differ(report: Report, context: Context) -> Iterable[Finding]:
    """FD501: outputs, and gradients, that are not those of the eager run."""
    for phase, kind in (("forward", "output"), ("backward", "gradient")):
        rows = [row for row in report.verification if row.phase == phase]
        wrong = [row for row in rows if not row.same]
        if wrong:
            yield _of_wrong_numbers(report, phase, kind, rows, wrong)


def _of_wrong_numbers(
    report: Report, phase: str, kind: str, rows: Sequence[Verification], wrong: Sequence[Verification]
) -> Finding:
    """FD501 of one phase.

    Args:
        kind: noun for the compared tensors.
        rows: all comparisons of the phase; ``wrong`` are those that failed.
    """
    names = list(dict.fromkeys(row.what for row in wrong))
    total = len({row.what for row in rows})
    groups = [group for group in report.groups if group.phase in (phase, None)]
    before = _before_fusion(report, wrong, phase)
    only = groups[0] if len(groups) == 1 and not before else None
    worst = [_worst([row for row in wrong if row.what == name]) for name in names[:_NAMED]]
    if len(names) > _NAMED:
        worst.append(f"and {len(names) - _NAMED} more")
    differ = "differs" if len(names) == 1 else "differ"
    return finding(
        "FD501",
        f"{len(names)} of {count(total, kind)} {differ} from eager: {'; '.join(worst)},"
        f" {_passes(wrong, rows)}",
        source=first_user_source(only),
        severity="warning" if all(row.by == "statistics" for row in wrong) else None,
        remedy=_remedy(before, only, len(groups)),
    )


def first_user_source(group: Group | None) -> str | None:
    """The user's line of the first operator of a group that has one."""
    for node in group.nodes if group is not None else ():
        if node.user_source:
            return node.user_source
    return None


def _worst(rows: Sequence[Verification]) -> str:
    row = furthest_off(rows)
    text, remarks = row.what, []
    if row.max_abs is not None and row.by == "value":
        text += f" by up to {row.max_abs:.3g}"
        if row.max_rel is not None and row.tolerance:
            remarks.append(f"{row.max_rel:.2g} of its size, {row.tolerance:g} is allowed")
    remarks += [one for one in (row.detail, row.judgement) if one]
    return text + (f" ({'; '.join(remarks)})" if remarks else "")


def _passes(wrong: Sequence[Verification], rows: Sequence[Verification]) -> str:
    numbers = sorted({row.iteration for row in wrong})
    total = len({row.iteration for row in rows})
    if len(numbers) == total:
        return f"in all {total} passes" if total > 1 else "in the only pass"
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"in passes {numbers[0]} to {numbers[-1]} of {total}"
    return f"in pass{'es' * (len(numbers) > 1)} {', '.join(map(str, numbers))} of {total}"


def _before_fusion(report: Report, wrong: Sequence[Verification], phase: str) -> bool:
    """Whether a pass that ran unfused, to profile, is wrong already."""
    profiling = {i.index for i in report.iterations if i.phase == phase and i.stage == "profiling"}
    return any(row.iteration in profiling for row in wrong)


def _remedy(before: bool, only: Group | None, groups: int) -> str:
    if before:
        return (
            "A pass that only profiles, without any group, differs already, so it is not the fusion: compare"
            " with --fuser none, and look at what scripting, tracing (--trace) or freezing changes."
        )
    if only is not None:
        return (
            f"Group {describe(only)} makes it: take an operator out of it"
            f" ({how_to_leave_out()}), or use another fuser (--fuser), and report it to torch."
        )
    if groups:
        return (
            "Passes before the fusion agree: find the group by taking operators out of fusion"
            f" ({how_to_leave_out()}), or use another fuser (--fuser)."
        )
    return "Compare with --fuser none: it says whether the fuser has to do with it."


def layout_differs(report: Report, context: Context) -> Iterable[Finding]:
    """FD502: outputs of another dtype, or with other strides, than in the eager run."""
    rows = [row for row in report.verification if row.phase == "forward"]
    other = [row for row in rows if not (row.dtype_same and row.strides_same)]
    if not other:
        return
    names = list(dict.fromkeys(row.what for row in other))
    shown = [next(row for row in other if row.what == name) for name in names[:_NAMED]]
    yield finding(
        "FD502",
        "Not the dtype or strides of the eager run: "
        + "; ".join(f"{row.what} has {row.detail}" for row in shown)
        + (f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        + f", {_passes(other, rows)}",
        remedy="Code that calls view() or reads strides sees it: use reshape(), or .contiguous() first.",
    )


def random_by_statistics(report: Report, context: Context) -> Iterable[Finding]:
    """FD503: results that depend on random numbers."""
    rows = [row for row in report.verification if row.by == "statistics"]
    if not rows:
        return
    names = list(dict.fromkeys(row.what for row in rows))
    ops = list(dict.fromkeys(op for row in rows for op in row.random))
    yield finding(
        "FD503",
        f"{', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''} depend{'s' * (len(names) == 1)}"
        f" on random numbers ({', '.join(ops) or 'of an operator that is not in the graph'}) that the fused"
        " and the eager run draw differently by design: compared by mean, standard deviation and share of"
        " zeros",
        remedy="To compare values, set dropout to 0 or put the model into eval mode.",
    )


NUMBERS = (numbers_differ, layout_differs, random_by_statistics)
