"""Lines that come into a file of the user's: imports, definitions after them, and
lines in the style of the file; and imports that go because nothing reads their
names any more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from fusiondoc.changes.edits import Edit, changed_text, overlapping
from fusiondoc.changes.source_file import ParsedFile, bound_by_import

_BLANK_LINE = r"[ \t]*(?:\r\n|\r|\n)"


def spelled(file: ParsedFile, meaning: str) -> tuple[str, tuple[Edit, ...]]:
    """How the top level of a file can name ``torch.nn.functional``, and the import
    that has to be added for that."""
    parts = meaning.split(".")
    names = {known: name for name, known in reversed(_top_imports(file).items())}
    for cut in range(len(parts), 0, -1):
        name = names.get(".".join(parts[:cut]))
        if name is not None:
            return ".".join([name, *parts[cut:]]), ()
    line = f"import {parts[0]}{file.newline}"
    return meaning, (file.inserted(after_imports(file), line, rank=-9),)


def _top_imports(file: ParsedFile) -> dict[str, str]:
    """Names that imports at the top level bind, in the order of the whole file's
    imports."""
    names = {
        name for statement in file.tree.body for name in bound_by_import(statement)
    }
    return {name: known for name, known in file.imported.items() if name in names}


def after_imports(file: ParsedFile) -> int:
    """The start of the line after the last import of the top level, or after
    docstring and comments."""
    body = file.tree.body
    imports = [one for one in body if isinstance(one, (ast.Import, ast.ImportFrom))]
    if imports:
        return file.after(imports[-1])
    if not body:
        return len(file.source.text)
    return (
        file.after(body[0])
        if is_docstring(body[0])
        else file.offset_of_line(_first_line(body[0]))
    )


def is_docstring(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _first_line(statement: ast.stmt) -> int:
    """That of its first decorator, if it has some."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def before(file: ParsedFile, statement: ast.stmt) -> int:
    """The start of a statement's first line, its decorators included."""
    return file.offset_of_line(_first_line(statement))


def defined(file: ParsedFile, lines: Sequence[str], rank: int) -> tuple[Edit, ...]:
    """Lines of definitions, indented with four spaces a level, at the top level
    after the imports, and the blank lines behind the last of several."""
    offset, text = after_imports(file), file.source.text
    behind = re.match(r"[\r\n]*", text[offset:])
    blank = (
        len(re.findall(r"\r\n|\r|\n", behind.group())) if behind is not None else 0
    )
    written = "".join(_in_style(file, line) for line in ["", "", *lines])
    own = file.inserted(offset, file.ends_line(offset) + written, rank)
    missing = file.newline * (2 - blank) if offset < len(text) else ""
    return (own, file.inserted(offset, missing, rank=-4)) if missing else (own,)


def lines_at(
    file: ParsedFile, offset: int, lines: Sequence[str], lead: str, rank: int
) -> Edit:
    """Lines, indented with four spaces a level, put before the line that begins at
    an offset, each after ``lead``."""
    written = [_in_style(file, line, lead) for line in lines]
    return file.inserted(offset, file.ends_line(offset) + "".join(written), rank)


def _in_style(file: ParsedFile, line: str, lead: str = "") -> str:
    depth = (len(line) - len(line.lstrip())) // 4
    return (
        f"{lead}{file.indent * depth}{line.lstrip()}" if line else ""
    ) + file.newline


# -- imports that go -----------------------------------------------------------------------------------------

_ANNOTATES = ("typing", "typing_extensions")


def without_unused(file: ParsedFile, edits: Sequence[Edit]) -> tuple[Edit, ...]:
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
        gone = [
            alias.asname is None
            and _left_unused(alias.name, file.source.text, after, own)
            for alias in names
        ]
        if all(gone) and file.comment_behind(statement) is None:
            found.append(_whole_lines(file, statement))
        elif any(gone) and not all(gone):
            found += _without_names(file, names, gone)
    return tuple(found) if not overlapping(found) else tuple(edits)


def _left_unused(name: str, before: str, after: str, own: str) -> bool:
    """Whether a name that stood elsewhere, in comments and strings too, stands in
    its import alone."""
    uses = [len(re.findall(rf"\b{name}\b", text)) for text in (before, after, own)]
    return uses[0] > uses[1] == uses[2]


def _whole_lines(file: ParsedFile, statement: ast.stmt) -> Edit:
    """The statement's lines removed, and a blank line behind it where one stands
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
) -> Iterator[Edit]:
    """The names of an import without some, and with one comma less for each."""
    last = max(number for number, is_gone in enumerate(gone) if not is_gone)
    for number, alias in enumerate(names):
        if gone[number] and number < last:
            yield file.removed(file.span(alias)[0], file.span(names[number + 1])[0])
    if last + 1 < len(names):
        yield file.removed(file.span(names[last])[1], file.span(names[-1])[1])
