"""Lines to insert into the user's file: imports, definitions after them, and lines
in the style of the file; and removal of imports whose names are no longer read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from fusiondoc.changes.edits import TextEdit, changed_text, overlapping
from fusiondoc.changes.source_file import ParsedFile, bound_by_import

_BLANK_LINE = r"[ \t]*(?:\r\n|\r|\n)"


def spelled(file: ParsedFile, meaning: str) -> tuple[str, tuple[TextEdit, ...]]:
    """Return a name for ``torch.nn.functional`` at the top level of a file, and the
    import that this needs."""
    parts = meaning.split(".")
    names = {known: name for name, known in reversed(_top_imports(file).items())}
    for cut in range(len(parts), 0, -1):
        name = names.get(".".join(parts[:cut]))
        if name is not None:
            return ".".join([name, *parts[cut:]]), ()
    line = f"import {parts[0]}{file.newline}"
    return meaning, (file.inserted(after_imports(file), line, rank=-9),)


def _top_imports(file: ParsedFile) -> dict[str, str]:
    """Names bound by imports at the top level, in the order of all imports of the
    file."""
    names: set[str] = set()
    for statement in file.tree.body:
        names.update(bound_by_import(statement))
    top_imports = {}
    for name, known in file.imported.items():
        if name in names:
            top_imports[name] = known
    return top_imports


def after_imports(file: ParsedFile) -> int:
    """The start of the line after the last import of the top level, or after
    docstring and comments."""
    body = file.tree.body
    imports = []
    for one in body:
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            imports.append(one)
    if imports:
        return file.after(imports[-1])
    if not body:
        return len(file.source.text)
    if is_docstring(body[0]):
        return file.after(body[0])
    return file.offset_of_line(_first_line(body[0]))


def is_docstring(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _first_line(statement: ast.stmt) -> int:
    """The line of a statement, or of its first decorator."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def before(file: ParsedFile, statement: ast.stmt) -> int:
    """The start of a statement's first line, its decorators included."""
    return file.offset_of_line(_first_line(statement))


def defined(
    file: ParsedFile, lines: Sequence[str], rank: int
) -> tuple[TextEdit, ...]:
    """Insert lines of definitions, indented with four spaces a level, at the top
    level after the imports, with blank lines after them."""
    offset, text = after_imports(file), file.source.text
    behind = re.match(r"[\r\n]*", text[offset:])
    blank = 0
    if behind is not None:
        blank = len(re.findall(r"\r\n|\r|\n", behind.group()))
    written = "".join(_in_style(file, line) for line in ["", "", *lines])
    own = file.inserted(offset, file.ends_line(offset) + written, rank)
    missing = file.newline * (2 - blank) if offset < len(text) else ""
    if missing:
        return own, file.inserted(offset, missing, rank=-4)
    return (own,)


def lines_at(
    file: ParsedFile, offset: int, lines: Sequence[str], lead: str, rank: int
) -> TextEdit:
    """Insert lines, indented with four spaces a level, before the line that begins
    at an offset, each after ``lead``."""
    written = [_in_style(file, line, lead) for line in lines]
    return file.inserted(offset, file.ends_line(offset) + "".join(written), rank)


def _in_style(file: ParsedFile, line: str, lead: str = "") -> str:
    depth = (len(line) - len(line.lstrip())) // 4
    return (
        f"{lead}{file.indent * depth}{line.lstrip()}" if line else ""
    ) + file.newline


# -- imports that go -----------------------------------------------------------------------------------------

_ANNOTATES = ("typing", "typing_extensions")


def without_unused(
    file: ParsedFile, edits: Sequence[TextEdit]
) -> tuple[TextEdit, ...]:
    """The edits of a file, and removals of the names that they leave unused in
    ``from typing import Optional``. Other imports stay: another file may take their
    names from this one."""
    after, found = changed_text(file.source.text, edits), list(edits)
    for statement in file.tree.body:
        if not isinstance(statement, ast.ImportFrom) or not file.has_own_lines(
            statement
        ):
            continue
        if (
            statement.level
            or statement.module not in _ANNOTATES
            or statement.names[0].name == "*"
        ):
            continue
        own, names = file.text(statement), statement.names
        gone = []
        for alias in names:
            gone.append(
                alias.asname is None
                and _left_unused(alias.name, file.source.text, after, own)
            )
        if all(gone) and file.comment_behind(statement) is None:
            found.append(_whole_lines(file, statement))
        elif any(gone) and not all(gone):
            found += _without_names(file, names, gone)
    if overlapping(found):
        return tuple(edits)
    return tuple(found)


def _left_unused(name: str, before: str, after: str, own: str) -> bool:
    """True if a name that occurred elsewhere before, also in comments and strings,
    now occurs in its import alone."""
    uses = [len(re.findall(rf"\b{name}\b", text)) for text in (before, after, own)]
    return uses[0] > uses[1] == uses[2]


def _whole_lines(file: ParsedFile, statement: ast.stmt) -> TextEdit:
    """Remove the statement's lines, and the blank line after it if there is one
    before it too."""
    start, end, text = (
        file.start_of_line(statement),
        file.after(statement),
        file.source.text,
    )
    blank = re.match(_BLANK_LINE, text[end:])
    if blank is not None and re.search(
        rf"(?:\A|[\r\n]){_BLANK_LINE}\Z", text[:start]
    ):
        end += blank.end()
    return file.removed(start, end)


def _without_names(
    file: ParsedFile, names: Sequence[ast.alias], gone: Sequence[bool]
) -> Iterator[TextEdit]:
    """Remove some names, each with a comma, from an import."""
    last = max(number for number, is_gone in enumerate(gone) if not is_gone)
    for number, alias in enumerate(names):
        if gone[number] and number < last:
            yield file.removed(file.span(alias)[0], file.span(names[number + 1])[0])
    if last + 1 < len(names):
        yield file.removed(file.span(names[last])[1], file.span(names[-1])[1])
