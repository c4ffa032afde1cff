"""FD307 and FD308: failures outside nvFuser's groups that its rules cause.

FD307: the size of a reduction's result, which its pass computes before a group.
FD308: the shape of a gradient from a differentiable graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import NamedTuple

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.groups_in_words import describe
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence, Finding, Group, Report
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.lines.error_texts import invalid_gradient
from fusiondoc.parsers.observed import NOT_IN_SCOPE, SizedReduction


def sizes_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD307: a plan of nvFuser computes the size of a reduction that it does not
    return, and fails."""
    texts: list[tuple[str, Evidence | None]] = []
    if context.error is not None:
        texts.append((context.error.message, None))
    texts += [(logged.text, logged.line) for logged in context.observed.errors]
    for text, line in texts:
        sized = context.observed.sized_for(text)
        if sized:
            yield _finding(
                report, sized, line, early=NOT_IN_SCOPE.search(text) is not None
            )
            return


def _finding(
    report: Report, sized: list[SizedReduction], line: Evidence | None, early: bool
) -> Finding:
    """Return the finding.

    Args:
        early: the size is computed before its tensor; else a dimension is negative.
    """
    last = sized[-1]
    group = next(group for group in report.groups if group.id == last.group)
    names = " and ".join(dict.fromkeys(one.op for one in sized))
    lines = set()
    for node in group.nodes:
        if node.user_source and any(
            (node.op, node.source) == (one.op, one.source) for one in sized
        ):
            lines.add(node.user_source)
    where = f" ({', '.join(sorted(lines))})" if lines else ""
    if early:
        why = "from a tensor that the group has yet to compute"
    else:
        why = f"which fails for the dimension {min(last.dims)} with keepdim"
    if len(last.dims) > 1:
        which, how = (
            "dimensions",
            "f(x, dims: List[int]): then they are no constants",
        )
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


_MOST_DIMENSIONS = 6
"""Dimensions of a tensor for which all orders (at most 720) are tried."""

_COPIES = ("prim::permute_copy", "prim::transpose_copy")

_Sizes = tuple[int, ...]


class _Culprit(NamedTuple):
    group: Group
    op: str
    taken: TensorType


def wrong_gradient(report: Report, context: Context) -> Iterable[Finding]:
    """FD308: autograd refused a gradient from the backward of a differentiable
    graph."""
    for logged in context.observed.errors:
        wrong = invalid_gradient(logged.text)
        if wrong is None:
            continue
        got, expected = wrong
        culprit = _culprit(report, got, expected)
        if culprit is None:
            yield finding(
                "FD308",
                f"The backward graph that torch made for a differentiable graph gave a gradient of"
                f" {list(got)} where {list(expected)} was expected",
                evidence=[logged.line],
                remedy="Run that function with torch.jit.optimized_execution(False): then autograd computes"
                " its gradients, and none of it is fused.",
            )
            continue
        plain = "aten::" + culprit.op.split("::")[1][: -len("_copy")]
        yield finding(
            "FD308",
            f"nvFuser's rule for {plain} gave a gradient of {list(got)} where {list(expected)} was expected:"
            f" group {culprit.group.id} takes a tensor of {list(culprit.taken.sizes or ())} with the strides"
            f" {list(culprit.taken.strides or ())}, and {culprit.op} reorders it in the order of its memory",
            source=culprit.group.first_line,
            evidence=[logged.line, *culprit.group.evidence[:1]],
            remedy=Remedy(
                f"Keep {plain} out of nvFuser's groups: --knob skip_node_kind={culprit.op}"
                f' (torch._C._jit_set_nvfuser_skip_node_kind("{culprit.op}", True));',
                "or choose another fuser.",
            ),
        )


def _culprit(report: Report, got: _Sizes, expected: _Sizes) -> _Culprit | None:
    """Return the group whose permute, done in the order of memory, gives exactly
    the wrong sizes. nvFuser of 2.0 and 2.1 takes the input of these copies in its
    memory format and applies the dimensions as they were given
    (third_party/nvfuser/csrc/parser.cpp, the rules for prim::permute_copy and
    prim::transpose_copy)."""
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
    """True if some order of the dimensions gives ``expected`` for the tensor, and
    ``got`` for its memory."""
    sizes, strides = taken.sizes, taken.strides
    if (
        sizes is None
        or strides is None
        or len(sizes) != len(got)
        or len(strides) != len(got)
    ):
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
