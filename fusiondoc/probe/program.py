"""What a Python file is: a module that names a model and inputs, or a script of its own. Nothing is run."""

from __future__ import annotations

import ast
from typing import Iterator


class Program:
    """A parsed source file. Raises SyntaxError as Python would."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            self.source = file.read()
        self.tree = ast.parse(self.source, path)

    def binds(self, name: str) -> bool:
        """Whether the module's top level may define ``name`` (also inside if, try, with and for)."""
        return any(name in _bound(statement) for statement in _top_level(self.tree.body))

    def runs_nothing(self) -> bool:
        """Whether running the file as a script does nothing but define things."""
        return all(_only_defines(statement) for statement in self.tree.body)

    def candidates(self) -> list[str]:
        """Public functions and names that a user may have meant by ``FILE.py:NAME``."""
        return [
            node.name
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        ]


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            for inner in _top_level(getattr(statement, field, [])):
                yield inner
        for handler in getattr(statement, "handlers", []):
            for inner in _top_level(handler.body):
                yield inner


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
        targets = [statement.target]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(
        statement,
        (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass),
    ):
        return True
    if isinstance(statement, ast.Assign) and _bound(statement) & {"model", "inputs"}:
        return True
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return True
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) and statement.value is not None:
        return not any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(statement.value))
    return False
