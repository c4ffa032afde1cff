"""Sizes and shapes that came out wrong. FD307 for the one failure that nvFuser puts before a group: the size
of a reduction's result.

FD308: a gradient of the wrong shape that a differentiable graph gave.
"""

from __future__ import annotations

import re
from itertools import permutations
from typing import Iterable, NamedTuple, Tuple

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.fd3_crashes import describe
from fusiondoc.model.report import Evidence, Finding, Group, Report
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


RULES = (sizes_failed, wrong_gradient)
