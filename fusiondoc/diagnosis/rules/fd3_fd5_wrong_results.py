"""What came out wrong. FD307: sizes, of the one failure that nvFuser puts before a group (the size of a
reduction's result). FD308: the shape of a gradient that a differentiable graph gave. FD501 to FD503: numbers,
as ``--verify`` found them when it compared fused passes with eager ones.
"""

from __future__ import annotations

import re
from itertools import permutations
from typing import Iterable, NamedTuple, Sequence, Tuple

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.fd3_crashes import describe
from fusiondoc.model.numbers import count
from fusiondoc.model.report import Evidence, Finding, Group, Report
from fusiondoc.model.runs import Verification
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.observed import SizedReduction


def sizes_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD307: a plan of nvFuser computes the size of a reduction over a negative dimension."""
    texts: list[tuple[str, Evidence | None]] = []
    if context.error is not None:
        texts.append((context.error.message, None))
    texts += [(logged.text, logged.line) for logged in context.observed.errors]
    for text, line in texts:
        sized = context.observed.sized_for(text)
        if sized:
            yield _finding(report, sized, line)
            return


def _finding(report: Report, sized: list[SizedReduction], line: Evidence | None) -> Finding:
    last = sized[-1]
    group = next(group for group in report.groups if group.id == last.group)
    names = " and ".join(dict.fromkeys(one.op for one in sized))
    lines = {
        node.user_source
        for node in group.nodes
        if node.user_source and any((node.op, node.source) == (one.op, one.source) for one in sized)
    }
    where = ", " + ", ".join(sorted(lines)) if lines else ""
    return finding(
        "FD307",
        f"nvFuser failed, and the error ended the program: before group {describe(group)} it computes the"
        f" size of the result of {names} (prim::ReductionSizes), which fails for the dimension {last.dim}"
        " with keepdim",
        source=min(lines, default=None),
        evidence=[*([line] if line is not None else []), last.line],
        advice=f"Write dimension {last.from_front} for {last.dim} in {names}{where}, or leave the operator"
        f" out of groups (--knob skip_node_kind={last.op}). The fallback does not catch this error: it is not"
        " in the group.",
    )


_WRONG = re.compile(
    r"DifferentiableGraphBackward returned an invalid gradient at index \d+ - got \[([\d, ]*)\] but expected"
    r" shape compatible with \[([\d, ]*)\]"
)
"""torch/csrc/autograd/engine.cpp, validate_outputs."""

_MOST_DIMENSIONS = 6
"""720 orders of dimensions to try."""

_COPIES = ("prim::permute_copy", "prim::transpose_copy")

_Sizes = Tuple[int, ...]


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
                advice="Run that function with torch.jit.optimized_execution(False): then autograd computes"
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
            advice=f"Keep {plain} out of nvFuser's groups: --knob skip_node_kind={culprit.op}"
            f' (torch._C._jit_set_nvfuser_skip_node_kind("{culprit.op}", True)); or choose another fuser.',
        )


def _sizes(text: str) -> _Sizes:
    return tuple(int(one) for one in text.split(",") if one.strip())


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
        if not wrong:
            continue
        names = list(dict.fromkeys(row.what for row in wrong))
        total = len({row.what for row in rows})
        groups = [group for group in report.groups if group.phase in (phase, None)]
        before = _before_fusion(report, wrong, phase)
        only = groups[0] if len(groups) == 1 and not before else None
        yield finding(
            "FD501",
            f"{len(names)} of {count(total, kind)} differ{'s' * (len(names) == 1)} from eager: "
            + "; ".join(_worst([row for row in wrong if row.what == name]) for name in names[:_NAMED])
            + (f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
            + f", {_passes(wrong, rows)}",
            source=next((n.user_source for n in only.nodes if n.user_source), None) if only else None,
            severity="warning" if all(row.by == "statistics" for row in wrong) else None,
            advice=_advice(before, only, len(groups)),
        )


def _worst(rows: Sequence[Verification]) -> str:
    row = max(rows, key=lambda one: (one.max_rel is None, one.max_rel or 0.0))
    text = row.what
    if row.max_abs is not None and row.by == "value":
        text += f" by up to {row.max_abs:.3g}"
        if row.max_rel is not None and row.tolerance:
            text += f" ({row.max_rel:.2g} of its size, {row.tolerance:g} is allowed)"
    if row.detail:
        text += f" ({row.detail})"
    return text


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


def _advice(before: bool, only: Group | None, groups: int) -> str:
    if before:
        return (
            "A pass that only profiles, without any group, differs already, so it is not the fusion: compare"
            " with --fuser none, and look at what scripting, tracing (--trace) or freezing changes."
        )
    if only is not None:
        return (
            f"Group {describe(only)} makes it: take an operator out of it (nvFuser: --knob"
            " skip_node_kind=OPERATOR), or use another fuser (--fuser), and report it to torch."
        )
    if groups:
        return (
            "Passes before the fusion agree: find the group by taking operators out of fusion (nvFuser:"
            " --knob skip_node_kind=OPERATOR), or use another fuser (--fuser)."
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
        advice="Code that calls view() or reads strides sees it: use reshape(), or .contiguous() first.",
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
        advice="To compare values, set dropout to 0 or put the model into eval mode.",
    )


NUMBERS = (numbers_differ, layout_differs, random_by_statistics)
