"""Remove a copy of a tensor to another layout from a line, or insert one:
``x.t().contiguous()`` becomes ``x.t()``, and ``y = x.t()`` becomes ``y =
x.t().contiguous()``.

A run of the changed program shows which of the two makes kernels use one layout.
Without the copy both names are one tensor, so nothing is offered in a function that
changes tensors in place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.out_of_place import assigned_in_place, is_method_in_place
from fusiondoc.changes.rewrite import Rewritten
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.operators import TRANSPOSES, plain_name

_VIEWS = frozenset(map(plain_name, TRANSPOSES)) - {
    "adjoint"
}  # which conjugates, too
_NOTE = "results may have other strides: what needs these of them, such as view(), fails or copies then"


def without_copies(file: ParsedFile, line: int) -> Iterator[Rewritten]:
    """Yield the line without each call that only changes a tensor's layout."""
    for node in file.on_line(line):
        if (
            isinstance(node, ast.Call)
            and _is_copy(file, node)
            and not _changes_in_place(file, node)
        ):
            assert isinstance(node.func, ast.Attribute)
            tensor = node.func.value
            end = file.outer_span(tensor)[1]
            edits = (file.removed(end, file.span(node)[1]), *_reshaped(file, node))
            before = file.text(node)
            after = before[: end - file.span(node)[0]]
            yield replace(
                Rewritten.expression(before, after, edits), note=_NOTE, sure=False
            )


def with_copies(file: ParsedFile, line: int) -> Iterator[Rewritten]:
    """Yield the line with each named view that reorders elements replaced by a copy
    in that order."""
    for node in file.on_line(line):
        if isinstance(node, ast.Call) and _is_reordered(file, node):
            statement = file.parent(node)
            if isinstance(statement, ast.Assign) and not _changes_in_place(
                file, node
            ):
                edit = file.inserted(file.outer_span(node)[1], ".contiguous()")
                text = file.text(node)
                made = Rewritten.expression(text, f"{text}.contiguous()", (edit,))
                yield replace(made, sure=False)


def _is_copy(file: ParsedFile, node: ast.Call) -> bool:
    """True for ``x.contiguous()``, with or without a memory format, and
    ``x.to(memory_format=...)``."""
    method = node.func
    if not isinstance(method, ast.Attribute) or file.meaning(method) is not None:
        return False
    options = [given.arg for given in node.keywords]
    if method.attr == "contiguous":
        return len(node.args) + len(options) <= 1
    return method.attr == "to" and not node.args and options == ["memory_format"]


def _is_reordered(file: ParsedFile, node: ast.Call) -> bool:
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr not in _VIEWS:
        return False
    meaning = file.meaning(method)
    return meaning is None or meaning.rpartition(".")[0] == "torch"


def _reshaped(file: ParsedFile, copy: ast.Call) -> Iterator[TextEdit]:
    """Replace a ``view`` of the copy by ``reshape``."""
    method = file.parent(copy)
    called = file.parent(method) if method is not None else None
    if (
        isinstance(method, ast.Attribute)
        and method.attr == "view"
        and isinstance(called, ast.Call)
    ):
        end = file.span(method)[1]
        yield TextEdit(file.source.path, end - len("view"), end, "reshape")


def _changes_in_place(file: ParsedFile, node: ast.AST) -> bool:
    """True if the enclosing function changes a tensor in place, or may do so."""
    function = file.function_of(node)
    return function is None or any(map(_is_change, ast.walk(function)))


def _is_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return is_method_in_place(node)
    return assigned_in_place(node) is not None
