"""Python 3.8 can import every module: held by reading the source, so that newer Pythons find it out too."""

from __future__ import annotations

import ast
import collections.abc
from collections.abc import Iterator
from pathlib import Path

import fusiondoc

PACKAGE = Path(fusiondoc.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
BUILTIN = {"dict", "list", "tuple", "set", "frozenset", "type"}


def evaluated(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of annotations, which ``from __future__ import annotations`` leaves unread."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in node.__dict__.items():
            if name in ("annotation", "returns"):
                continue
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(one for one in value if isinstance(one, ast.AST))


def too_new(source: str) -> list[tuple[str, int]]:
    """What Python 3.8 refuses, with its line: subscripts such as ``Sequence[int]`` of collections.abc or
    ``list[int]``, and methods of str that came with Python 3.9."""
    nodes = list(evaluated(ast.parse(source, feature_version=(3, 8))))
    imports = (n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "collections.abc")
    from_abc = {alias.asname or alias.name for node in imports for alias in node.names}
    classes = BUILTIN | (from_abc & set(collections.abc.__all__))
    found = []
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in classes:
            found.append((node.value.id, node.lineno))
        elif isinstance(node, ast.Attribute) and node.attr in ("removeprefix", "removesuffix"):
            found.append((node.attr, node.lineno))
    return found


def test_python_38_can_import_every_file() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): too_new(path.read_text("utf-8")) for path in FILES}
    assert len(found) > 100 and {name: lines for name, lines in found.items() if lines} == {}


def test_the_check_finds_what_38_refuses() -> None:
    assert too_new("from collections.abc import Sequence\nclass A(Sequence[int]): ...")
    assert too_new("from __future__ import annotations\nNames = list[str]")
    assert not too_new("from __future__ import annotations\ndef f(x: list[int]) -> dict[str, int]: ...")
    assert too_new("'a'.removeprefix('b')") == [("removeprefix", 1)]
    assert not too_new("from typing import Sequence\nclass A(Sequence[int]): ...")
