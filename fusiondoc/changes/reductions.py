"""Write reductions in a form that a fuser takes: with named dimensions
(``x.mean()`` -> ``x.mean([0, 1])``), and a maximum without its indices
(``x.max(1)[0]`` -> ``x.amax(1)``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.rewrite import (
    Example,
    Line,
    Rewrite,
    Rewritten,
    Shown,
    on_one_line,
)
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.fusers import taken_by, with_dimensions_only
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import WITH_FORMULA, plain_name


def name_dimensions(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """``x.mean()`` -> ``x.mean([0, 1])``: the overload without dimensions has no
    rule."""
    if not line.shown.rank:
        return
    note = f"true for tensors of {line.shown.rank} dimensions, as in this run"
    edit = dimensions_named(
        line.file, node, plain_name(line.shown.op), line.shown.rank
    )
    if edit is not None:
        title = f"{line.file.text(node)} over the dimensions {list(range(line.shown.rank))}"
        yield Rewritten(title, (edit,), note=note)


def leave_indices_out(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """``x.max(1)[0]`` -> ``x.amax(1)``: the values alone."""
    name = plain_name(line.shown.op)
    note = "where several elements are equal, their gradient is shared among them"
    edits = without_indices(line.file, node, name)
    if edits:
        title = on_one_line(
            f"{line.file.text(node)} as a{name}, which finds no indices"
        )
        yield Rewritten(title, edits, note=note)


def dimensions_named(
    file: ParsedFile, node: ast.AST, name: str, rank: int
) -> TextEdit | None:
    """Name all dimensions of a tensor of that rank in the call of a full
    reduction."""
    dims = str(list(range(rank)))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    meaning = file.meaning(node.func)
    if node.func.attr != name or meaning not in (None, f"torch.{name}"):
        return None
    options = node.args[1:] if meaning is not None else node.args
    keywords = {given.arg for given in node.keywords}
    if options or keywords & {"dim", "axis", "correction", "input", None}:
        return None
    spread = name in ("std", "var") and "unbiased" not in keywords
    text = f"{dims}, unbiased=True" if spread else dims
    return _given_first(file, node, text, is_method=meaning is None)


def _given_first(
    file: ParsedFile, node: ast.Call, text: str, is_method: bool
) -> TextEdit:
    """Insert an argument before the options of a call, after the tensor of a
    function."""
    if not is_method:
        return file.inserted(file.outer_span(node.args[0])[1], f", {text}")
    if node.keywords:
        return file.inserted(file.span(node.keywords[0])[0], f"{text}, ")
    return file.inserted(file.span(node)[1] - 1, text)


def without_indices(
    file: ParsedFile, node: ast.AST, name: str
) -> tuple[TextEdit, ...]:
    """``x.max(1)[0]`` and ``torch.max(x, 1).values`` -> ``x.amax(1)``.

    Args:
        name: "max" or "min".
    """
    call = node.value if isinstance(node, (ast.Subscript, ast.Attribute)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ()
    end = file.outer_span(call)[1]
    picks = file.source.text[end : file.span(node)[1]].strip()
    meaning = file.meaning(call.func)
    given = len(call.args) + len(call.keywords) - (meaning is not None)
    if (
        call.func.attr != name
        or meaning not in (None, f"torch.{name}")
        or picks not in ("[0]", ".values")
        or given not in (1, 2)
    ):
        return ()
    last = file.span(call.func)[1]
    renamed = TextEdit(file.source.path, last - len(name), last, f"a{name}")
    return renamed, file.removed(end, file.span(node)[1])


def takes_values_alone(line: Line) -> bool:
    """True if the fuser takes ``amax`` instead of a maximum, and torch can
    differentiate it if necessary."""
    shown = line.shown
    if shown.plain_op not in ("aten::max", "aten::min"):
        return False
    values = f"aten::a{plain_name(shown.op)}"
    no_formula = shown.gradients and values not in WITH_FORMULA
    return not no_formula and taken_by(values, shown.fuser, shown.torch)


NAME_DIMENSIONS = Rewrite(
    ChangeKind.DIMENSIONS,
    partial(in_all_calls, name_dimensions),
    fits=lambda line: line.shown.plain_op in with_dimensions_only(),
    examples=(
        Example("h = x.mean()", "h = x.mean([0, 1])", Shown("aten::mean", rank=2)),
        Example(
            "h = torch.sum(x)",
            "h = torch.sum(x, [0, 1])",
            Shown("aten::sum", rank=2),
        ),
        Example(
            "h = x.mean(keepdim=True)",
            "h = x.mean([0, 1], keepdim=True)",
            Shown("aten::mean", rank=2),
        ),
        Example(
            "h = x.mean() + y.mean()",
            "h = x.mean([0]) + y.mean([0])",
            Shown("aten::mean", rank=1),
        ),
        Example(
            "h = torch.sum(x * x.sum())",
            "h = torch.sum(x * x.sum([0]), [0])",
            Shown("aten::sum", rank=1),
        ),
        Example("h = x.mean(1)", None, Shown("aten::mean", rank=2)),
        Example("h = mine.mean(x, 1)", None, Shown("aten::mean", rank=2)),
        Example("h = x.mean()", None, Shown("aten::mean")),
    ),
)

LEAVE_INDICES_OUT = Rewrite(
    ChangeKind.DIMENSIONS,
    partial(in_all_calls, leave_indices_out),
    fits=takes_values_alone,
    examples=(
        Example("h = x.max(1)[0]", "h = x.amax(1)", Shown("aten::max")),
        Example(
            "h = torch.min(x, 1).values + 1",
            "h = torch.amin(x, 1) + 1",
            Shown("aten::min"),
        ),
        Example(
            "h = x.max(1)[0] * y.max(0)[0]",
            "h = x.amax(1) * y.amax(0)",
            Shown("aten::max"),
        ),
        Example(
            "h = torch.max(x.max(2)[0] + 1, 1).values",
            "h = torch.amax(x.amax(2) + 1, 1)",
            Shown("aten::max"),
        ),
        Example("h = x.max(1)[1]", None, Shown("aten::max")),
        Example("h = x.max(1)", None, Shown("aten::max")),
        Example("h = x.max()", None, Shown("aten::max")),
    ),
)

REWRITES = (NAME_DIMENSIONS, LEAVE_INDICES_OUT)
