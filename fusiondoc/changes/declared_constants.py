"""Attributes of a module that its class declares constant.

TorchScript reads an attribute such as ``self.dim`` when it runs, unless the class
names it in ``__constants__`` (torch/jit/_recursive.py,
``infer_concrete_type_builder``); an axis or flag read then is not a constant to a
fuser, and a branch on it stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import before, is_docstring, lines_at
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten
from fusiondoc.changes.source_file import ParsedFile, walk
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons.lacking_constants import (
    is_test_for_none,
    lacks_constant,
)

_CONDITIONS = (ast.If, ast.BoolOp, ast.Compare, ast.UnaryOp)


def attributes_at(line: Line) -> Iterator[tuple[ast.ClassDef, str]]:
    """The attributes that a line reads and that can be declared constant, with
    their classes."""
    for node in line.file.on_line(line.number):
        found = own_attribute(line.file, node)
        if found is not None:
            yield found


def declared_constant(
    file: ParsedFile, owner: ast.ClassDef, names: Sequence[str]
) -> Rewritten:
    """Return the rewrite that declares these attributes constant in a class."""
    title = f"{', '.join(names)} of {owner.name} declared constant"
    return Rewritten(title, declared(file, owner, list(names)))


def write(line: Line) -> Iterator[Rewritten]:
    """Yield a rewrite for each class whose attributes the line reads."""
    classes: dict[ast.ClassDef, list[str]] = {}
    for owner, name in attributes_at(line):
        classes.setdefault(owner, []).append(name)
    for owner, names in classes.items():
        yield declared_constant(line.file, owner, list(dict.fromkeys(names)))


def decides(file: ParsedFile, node: ast.expr) -> bool:
    """True if a node is an argument of a call, or part of a condition."""
    return file.call_of_argument(node) is not None or isinstance(
        file.parent(node), _CONDITIONS
    )


def own_attribute(
    file: ParsedFile, node: ast.AST
) -> tuple[ast.ClassDef, str] | None:
    """The class and name of ``self.dim``, if only ``__init__`` sets it, to a plain
    value."""
    name = of_self(node)
    if (
        name is None
        or not isinstance(node, ast.Attribute)
        or not decides(file, node)
    ):
        return None
    owner = file.class_of(node)
    if owner is None or name == "training" or _is_constant(file, owner, name):
        return None
    assigned = [one for one in walk(owner) if name in _set_by(one)]
    function = file.function_of(assigned[0]) if len(assigned) == 1 else None
    if (
        function is None
        or function.name != "__init__"
        or not _is_plain(_value_of(assigned[0], name))
    ):
        return None
    return owner, name


def of_self(node: ast.AST) -> str | None:
    """Return ``dim`` for ``self.dim``."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    is_self = isinstance(owner, ast.Name) and owner.id == "self"
    if isinstance(node, ast.Attribute) and is_self:
        return node.attr
    return None


def _is_plain(value: ast.AST | None) -> bool:
    return isinstance(
        value, (ast.Name, ast.Constant, ast.UnaryOp, ast.Tuple, ast.BinOp)
    )


def _set_by(node: ast.AST) -> list[str]:
    """The attributes of ``self`` that a statement assigns."""
    return [name for name in map(of_self, _targets(node)) if name is not None]


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [node.target]
    targets = node.targets if isinstance(node, ast.Assign) else []
    parts = []
    for one in targets:
        parts.extend(one.elts if isinstance(one, _SEVERAL) else [one])
    return parts


_SEVERAL = (ast.Tuple, ast.List)


def _value_of(statement: ast.AST, name: str) -> ast.AST | None:
    """Return the value assigned to an attribute of ``self``; None if it is an
    unknown element of a value."""
    value: ast.AST | None = getattr(statement, "value", None)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if not any(isinstance(one, _SEVERAL) for one in targets):
        return value
    names = list(map(of_self, _targets(statement)))
    both = (
        len(targets) == 1
        and isinstance(value, _SEVERAL)
        and len(value.elts) == len(names)
    )
    if both and isinstance(value, _SEVERAL):
        return value.elts[names.index(name)]
    return None


def _is_constant(file: ParsedFile, owner: ast.ClassDef, name: str) -> bool:
    """True if the class declares it constant already, by ``Final`` or
    ``__constants__``."""
    listed = _constants(owner)
    texts = []
    if listed is not None:
        texts = [one.value for one in listed.elts if isinstance(one, ast.Constant)]
    if name in texts:
        return True
    annotated = (one for one in walk(owner) if isinstance(one, ast.AnnAssign))
    return any(
        name
        == (
            one.target.id
            if isinstance(one.target, ast.Name)
            else getattr(one.target, "attr", None)
        )
        and "Final" in file.text(one.annotation)
        for one in annotated
    )


def _constants(owner: ast.ClassDef) -> ast.List | ast.Tuple | None:
    """The value of ``__constants__`` in the body of a class."""
    for statement in owner.body:
        if isinstance(statement, ast.Assign) and isinstance(
            statement.value, (ast.List, ast.Tuple)
        ):
            names = []
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    names.append(target.id)
            if "__constants__" in names:
                return statement.value
    return None


def declared(
    file: ParsedFile, owner: ast.ClassDef, names: list[str]
) -> tuple[TextEdit, ...]:
    """Return the edits that add the names to ``__constants__``, or insert a line
    with it at the start of the class."""
    listed = _constants(owner)
    texts = ", ".join(f'"{name}"' for name in names)
    if listed is not None and listed.elts:
        return (file.inserted(file.span(listed.elts[-1])[1], f", {texts}"),)
    first = owner.body[0]
    has_more = len(owner.body) > 1
    if is_docstring(first) and has_more:
        offset = file.after(first)
    else:
        offset = before(file, first)
    return (
        lines_at(
            file,
            offset,
            [f"__constants__ = [{texts}]", ""],
            file.lead(first),
            rank=0,
        ),
    )


def _example(body: str, after: str | None = None) -> Example:
    before = f"class Net:\n{body}    def forward(self, x):\n        return torch.softmax(x, self.dim)\n"
    declared = None
    if after is not None:
        declared = before.replace("class Net:\n", f"class Net:\n{after}")
    return Example(before, declared, line=before.count("\n"), whole=True)


_INIT = "    def __init__(self, dim):\n        self.dim = dim\n"


def fits(line: Line) -> bool:
    """True if something has to be a constant, and the line is no test for None."""
    shown = line.shown
    needs = lacks_constant(shown.detail) or shown.op.startswith("prim::")
    return needs and not is_test_for_none(shown.detail)


REWRITE = Rewrite(
    ChangeKind.CONSTANT,
    write,
    fits=fits,
    examples=(
        _example(_INIT, '    __constants__ = ["dim"]\n\n'),
        _example(f"    dim: Final[int]\n{_INIT}"),
        _example(_INIT.replace("= dim", "= make(dim)")),  # type unknown
        _example(f"{_INIT}    def other(self):\n        self.dim = 3\n"),
        _example(f"{_INIT}    def other(self):\n        self.dim += 1\n"),
        _example(f"{_INIT}    def other(self):\n        self.dim, self.n = 3, 4\n"),
        _example(
            _INIT.replace("self.dim = dim", "self.dim, self.n = dim, 2"),
            '    __constants__ = ["dim"]\n\n',
        ),
        _example(
            _INIT.replace("self.dim = dim", "self.dim, self.n = make(dim), 2")
        ),
        _example(_INIT.replace("self.dim = dim", "self.dim, self.n = dim")),
    ),
)
