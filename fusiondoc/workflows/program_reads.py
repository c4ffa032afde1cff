"""The environment variables that the text of a program reads, and whether it has an
input that no record of a run shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.model import dataclass
from fusiondoc.workflows.program_text import name_of, nodes_in

_LOOKS = (
    "exists",
    "isfile",
    "is_file",
    "isdir",
    "is_dir",
    "getmtime",
    "getsize",
    "stat",
    "lstat",
)
"""Calls that examine a file without opening it."""
_LOADS = ("load_library", "from_file", "import_ir_module")
"""Calls of torch that open a file in C++; and ``torch.jit.load``."""
_OF_ENVIRON = ("get", "setdefault", "pop")


@dataclass(frozen=True)
class Reads:
    """The variables that a program reads."""

    variables: frozenset[str] = frozenset()
    unknown: str | None = None
    """The first read whose name cannot be known from the text, with its line."""


def reads_of(text: str | bytes) -> Reads:
    """The variables that a Python file reads by name from the environment."""
    nodes = nodes_in(text)
    if nodes is None:
        return Reads(unknown="line 1: it cannot be parsed")
    named = dict(variable for node in nodes for variable in _named_variables(node))
    for node in nodes:
        if _is_environ(node) and id(node) not in named:
            return Reads(unknown=f"line {node.lineno}: the whole environment")  # type: ignore[attr-defined]
        call = _unseen_call(node)
        if call is not None:
            return Reads(unknown=call)
    return Reads(frozenset(named.values()))


def _is_environ(node: ast.AST) -> bool:
    return name_of(node) in ("environ", "environb")


def _named_variables(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The node that reads the environment, and the variable's name if it is a
    literal."""
    if isinstance(node, ast.Subscript) and _is_environ(node.value):
        yield from _constant(node.value, node.slice)
    elif (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and _is_environ(node.comparators[0])
    ):
        yield from _constant(node.comparators[0], node.left)
    elif isinstance(node, ast.Call) and node.args:
        function = node.func
        gets = isinstance(function, ast.Attribute) and function.attr in _OF_ENVIRON
        if (
            gets
            and isinstance(function, ast.Attribute)
            and _is_environ(function.value)
        ):
            yield from _constant(function.value, node.args[0])
        elif name_of(function) == "getenv":
            yield from _constant(function, node.args[0])


def _constant(reader: ast.AST, name: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield id(reader), name.value


def _unseen_call(node: ast.AST) -> str | None:
    """Describe a call that examines a file without opening it in Python."""
    if not isinstance(node, ast.Call):
        return None
    name = name_of(node.func)
    if name == "getenv" and not (
        node.args and isinstance(node.args[0], ast.Constant)
    ):
        return f"line {node.lineno}: a variable of the environment whose name is not written there"
    of_jit = (
        isinstance(node.func, ast.Attribute) and name_of(node.func.value) == "jit"
    )
    if name in _LOOKS or name in _LOADS or (name == "load" and of_jit):
        return f"line {node.lineno}: a file by {name}()"
    return None
