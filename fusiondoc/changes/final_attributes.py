"""Declare an attribute that decides a branch ``torch.jit.Final`` in its class: then
``self.mode == "sum"`` is known when the module is scripted, and the branch is
removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.declared_constants import attributes_at
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import before, is_docstring, lines_at, spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import Condition, ControlFlow
from fusiondoc.model.reasons.lacking_constants import (
    condition_of,
    constant_attribute,
)


def write(line: Line) -> Iterator[Rewritten]:
    """Yield a rewrite for the attribute that the branch of the line depends on, if
    only ``__init__`` sets it."""
    found = constant_attribute(condition_of(line.shown.detail))
    if found is None:
        return
    flag, kind = found
    for owner, name in dict.fromkeys(attributes_at(line)):
        if name == flag:
            torch, imports = spelled(line.file, "torch")
            declared = _declared(
                line.file, owner, name, f"{torch}.jit.Final[{kind}]"
            )
            yield Rewritten(
                f"{name} of {owner.name} declared Final", (*imports, declared)
            )


def _declared(
    file: ParsedFile, owner: ast.ClassDef, name: str, annotation: str
) -> TextEdit:
    """Return the annotation added in the class, or a line with it at the start of
    the class."""
    for one in owner.body:
        if (
            isinstance(one, ast.AnnAssign)
            and isinstance(one.target, ast.Name)
            and one.target.id == name
        ):
            return file.replaced(one.annotation, annotation)
    first = owner.body[0]
    behind = is_docstring(first) and len(owner.body) > 1
    offset = file.after(first) if behind else before(file, first)
    return lines_at(
        file, offset, [f"{name}: {annotation}", ""], file.lead(first), rank=0
    )


_READS = """\
    def __init__(self, mode):
        self.mode = mode

    def forward(self, x):
        if self.mode == "sum":
            x = x + 1
        return x
"""


def _example(body: str, after: str | None, attribute: str = "mode") -> Example:
    """The example with the branch ``_READS`` after the beginning of a class."""
    shown = Shown(
        "prim::If",
        detail=ControlFlow(
            Condition("attribute", attribute, "str"), in_formula=False
        ),
    )
    given = f"class Net:\n{body}{_READS}"
    written = f"class Net:\n{after}{_READS}" if after is not None else None
    return Example(
        given,
        written,
        shown,
        line=given[: given.index("if ")].count("\n") + 1,
        whole=True,
    )


REWRITE = Rewrite(
    ChangeKind.ANNOTATION,
    write,
    fits=lambda line: (
        constant_attribute(condition_of(line.shown.detail)) is not None
    ),
    examples=(
        _example("", "    mode: torch.jit.Final[str]\n\n"),
        _example("    mode: str\n", "    mode: torch.jit.Final[str]\n"),
        _example(
            '    """A net."""\n\n',
            '    """A net."""\n    mode: torch.jit.Final[str]\n\n\n',
        ),
        _example("", None, attribute="other"),
        _example("    mode: torch.jit.Final[str]\n", None),
    ),
)
