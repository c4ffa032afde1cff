"""``dynamic=True`` in a program's calls of torch.compile: one compilation for any
size instead of one for each (torch/__init__.py, ``compile``, 2.0 on)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.source_file import FUNCTIONS, ParsedFile

_COMPILE = "torch.compile"


def calls_compile(file: ParsedFile) -> bool:
    """True if a file names ``torch.compile``: then its program compiles by itself,
    and options of a run have no effect on that."""
    return any(file.meaning(node) == _COMPILE for node in file.nodes)


def compiled_for_any_size(file: ParsedFile) -> Iterator[tuple[ast.AST, TextEdit]]:
    """Each call of ``torch.compile`` that leaves ``dynamic`` out, and each
    decorator, with its edit."""
    for node in file.nodes:
        if isinstance(node, ast.Call) and file.meaning(node.func) == _COMPILE:
            if all(given.arg not in ("dynamic", None) for given in node.keywords):
                yield node, _with_option(file, node)
        elif isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                if file.meaning(decorator) == _COMPILE:
                    yield (
                        decorator,
                        file.inserted(file.span(decorator)[1], "(dynamic=True)"),
                    )


def _with_option(file: ParsedFile, call: ast.Call) -> TextEdit:
    """Insert the option before the closing parenthesis."""
    closing = file.span(call)[1] - 1
    if not call.args and not call.keywords:
        return file.inserted(closing, "dynamic=True")
    last = max(file.span(given)[1] for given in (*call.args, *call.keywords))
    has_comma = "," in _without_comments(file.source.text[last:closing])
    return file.inserted(closing, "dynamic=True" if has_comma else ", dynamic=True")


def _without_comments(text: str) -> str:
    return "\n".join(line.partition("#")[0] for line in text.split("\n"))
