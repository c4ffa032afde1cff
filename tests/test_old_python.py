"""Python 3.8 can import every module: held by reading the source, so that newer Pythons find it out too."""

from __future__ import annotations

import ast
import collections.abc
from pathlib import Path
from typing import Iterator

import pytest

import fusiondoc

PACKAGE = Path(fusiondoc.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
BUILTIN = {"dict", "list", "tuple", "set", "frozenset", "type"}


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of annotations, which ``from __future__ import annotations`` leaves unread."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from evaluated(child)


def from_abc(tree: ast.AST) -> set:
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "collections.abc")
    return {alias.asname or alias.name for node in imports for alias in node.names}


def subscripts_too_new(source: str) -> list:
    """Subscripts such as ``Sequence[int]`` of collections.abc, or ``list[int]``, that Python 3.8 refuses."""
    tree = ast.parse(source, feature_version=(3, 8))
    too_new = (BUILTIN | from_abc(tree)) & (BUILTIN | set(collections.abc.__all__))
    return [
        (node.value.id, node.lineno)
        for node in evaluated(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in too_new
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_python_38_can_import_it(path: Path) -> None:
    source = path.read_text("utf-8")
    assert subscripts_too_new(source) == []
    called = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    assert not called & {"removeprefix", "removesuffix"}, "methods of str that came with Python 3.9"


def test_the_check_finds_what_38_refuses() -> None:
    assert subscripts_too_new("from collections.abc import Sequence\nclass A(Sequence[int]): ...")
    assert subscripts_too_new("from __future__ import annotations\nNames = list[str]")
    assert not subscripts_too_new(
        "from __future__ import annotations\ndef f(x: list[int]) -> dict[str, int]: ..."
    )
    assert not subscripts_too_new("from typing import Sequence\nclass A(Sequence[int]): ...")
