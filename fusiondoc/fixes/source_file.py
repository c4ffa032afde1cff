"""A source file: its text, edits of exact places in it, and the file as libcst reads it, with the place of
every node, and what its names stand for.

What no edit names stays as it is, byte for byte. Offsets count characters of the decoded text, in which line
ends are as they are in the file.

libcst (the extra ``fix``) is imported where it is there; who comes here has asked ``require_libcst`` first.
"""

from __future__ import annotations

import bisect
import contextlib
import importlib.util
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import Edit as LineEdit
from fusiondoc.whole_files import read_within

with contextlib.suppress(ImportError):
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, ParentNodeProvider


_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Edit:
    """``start`` to ``end`` of a file's text become ``text``; an insertion has them equal.

    Insertions at one place come in the order of ``rank``.
    """

    path: Path
    start: int
    end: int
    text: str
    rank: int = 0


@dataclass(frozen=True)
class SourceText:
    """A source file: its text, and how that is written to disk."""

    path: Path
    text: str
    encoding: str
    mark: bool
    """It begins with a byte order mark."""

    def bytes_of(self, text: str) -> bytes:
        """Another text, written as this file is."""
        return (_MARK if self.mark else b"") + text.encode(self.encoding)


def read_text(path: Path) -> SourceText:
    """A Python source file in its own encoding.

    Raises:
        UsageError: it cannot be read as what it says it is.
    """
    try:
        data = read_within(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        mark = data.startswith(_MARK)
        plain = "utf-8" if encoding == "utf-8-sig" else encoding
        return SourceText(path, data[len(_MARK) * mark :].decode(plain), plain, mark)
    except (OSError, SyntaxError, ValueError, LookupError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Check the file and its encoding.") from None


def overlapping(edits: Iterable[Edit]) -> bool:
    """Whether two of them change the same characters in different ways."""
    end = (Path(), -1)
    for edit in _in_order(edits):
        if edit.path == end[0] and edit.start < end[1]:
            return True
        end = (edit.path, max(edit.end, end[1] if edit.path == end[0] else -1))
    return False


def changed_text(text: str, edits: Iterable[Edit]) -> str:
    """The text of one file after its edits, which do not overlap; equal edits count once."""
    made, place = [], 0
    for edit in _in_order(edits):
        made += [text[place : edit.start], edit.text]
        place = edit.end
    return "".join([*made, text[place:]])


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    return sorted(dict.fromkeys(edits), key=lambda one: (str(one.path), one.start, one.end, one.rank))


def in_common(before: str, after: str) -> tuple[int, int]:
    """How many characters two lines have in common at their start, and at their end behind that."""
    most = min(len(before), len(after))
    first = next((i for i in range(most) if before[i] != after[i]), most)
    last = next((i for i in range(most - first) if before[-1 - i] != after[-1 - i]), most - first)
    return first, last


def require_libcst() -> None:
    """Raises CannotRun where libcst is not installed."""
    if importlib.util.find_spec("libcst") is None:
        raise CannotRun(
            "fix needs the package libcst, which reads Python with its comments, and it is not installed",
            "pip install 'fusiondoc[fix]' (or: pip install libcst)",
        )


class Unreadable(Exception):
    """The file is no Python that libcst reads; the text says why."""


class ParsedFile:
    """A source file of the user's.

    Raises:
        Unreadable: libcst cannot read it.
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        try:
            self._read(source)
        except cst.ParserSyntaxError as error:
            raise Unreadable(str(error).split("\n")[0]) from None
        except RecursionError:  # a sum of a thousand terms
            raise Unreadable("its expressions are nested too deeply") from None
        self._ascii = source.text.isascii()

    def _read(self, source: SourceText) -> None:
        module = cst.parse_module(source.text)
        if module.code != source.text:
            raise Unreadable("libcst does not write it as it is")
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self.module = module
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)

    # -- places -------------------------------------------------------------------------------------------

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Its characters, without parentheses around it."""
        told = self._spans[node]
        return self._place(told.start), self._place(told.start + told.length)

    def _place(self, offset: int) -> int:
        return offset if self._ascii else bisect.bisect_left(self._bytes, offset)

    @cached_property
    def _bytes(self) -> list[int]:
        """Where each character begins in UTF-8, in which libcst counts."""
        places, size = [], 0
        for character in self.source.text:
            places.append(size)
            size += len(character.encode("utf-8", "surrogatepass"))
        return [*places, size]

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(one.end() for one in re.finditer(r"\r\n|\r|\n", self.source.text))]

    def line(self, node: cst.CSTNode) -> int:
        """The line it begins on, from 1."""
        return bisect.bisect_right(self._line_starts, self.span(node)[0])

    def column(self, node: cst.CSTNode) -> int:
        """The characters before it on its line."""
        return self.span(node)[0] - self.start_of_line(node)

    def last_line(self, node: cst.CSTNode) -> int:
        return bisect.bisect_right(self._line_starts, max(self.span(node)[1] - 1, 0))

    def text(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.source.text[start:end]

    def whole(self, node: cst.CSTNode) -> str:
        """Its text with the parentheses around it."""
        return self.module.code_for_node(node).strip()

    def replaced(self, node: cst.CSTNode, text: str) -> Edit:
        start, end = self.span(node)
        return Edit(self.source.path, start, end, text)

    def inserted(self, place: int, text: str, rank: int = 0) -> Edit:
        return Edit(self.source.path, place, place, text, rank)

    def where(self, node: cst.CSTNode) -> str:
        """``file:line``"""
        return f"{self.source.path}:{self.line(node)}"

    # -- the tree -----------------------------------------------------------------------------------------

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """From the nearest one outward."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        return next((one for one in self.parents(node) if isinstance(one, cst.FunctionDef)), None)

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        return next((one for one in self.parents(node) if isinstance(one, cst.ClassDef)), None)

    @cached_property
    def signatures(self) -> Sequence[tuple[int, int]]:
        """The characters of each argument of a function and of each annotated result."""
        parts: list[cst.CSTNode | None] = []
        for function in self._nodes:
            if isinstance(function, cst.FunctionDef):
                parts.append(function.returns)
                for one in walk(function.params):
                    if isinstance(one, cst.Param):  # whose own span is its name
                        parts += [one.name, one.annotation, one.default]
        return [self.span(one) for one in parts if one is not None]

    def statement_of(self, node: cst.CSTNode) -> cst.BaseSmallStatement | None:
        """The simple statement that it is part of."""
        every = [node, *self.parents(node)]
        return next((one for one in every if isinstance(one, cst.BaseSmallStatement)), None)

    def nodes(self) -> Sequence[cst.CSTNode]:
        return self._nodes

    @cached_property
    def _nodes(self) -> list[cst.CSTNode]:
        return list(walk(self.module))

    def on_line(self, line: int) -> list[cst.CSTNode]:
        """The nodes of the simple statements and headers that have this line, outer ones first."""
        return self._by_line.get(line, [])

    @cached_property
    def _by_line(self) -> dict[int, list[cst.CSTNode]]:
        found: dict[int, list[cst.CSTNode]] = {}
        for node in self._nodes:
            if isinstance(node, (cst.BaseExpression, cst.BaseSmallStatement)) and node in self._spans:
                around = self.statement_of(node) or node
                for line in range(self.line(around), self.last_line(around) + 1):
                    found.setdefault(line, []).append(node)
        return found

    # -- names --------------------------------------------------------------------------------------------

    @cached_property
    def imported(self) -> dict[str, str]:
        """Names that imports bind anywhere in the file -> what they stand for: F -> torch.nn.functional."""
        found: dict[str, str] = {}
        for node in self._nodes:
            if isinstance(node, cst.Import):
                for alias in node.names:
                    name = dotted(alias.name) or ""
                    if alias.asname is not None:
                        found[dotted(alias.asname.name) or ""] = name
                    else:
                        found[name.split(".")[0]] = name.split(".")[0]
            elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
                base = "." * len(node.relative) + (dotted(node.module) or "" if node.module else "")
                for alias in node.names:
                    name = dotted(alias.name) or ""
                    bound = dotted(alias.asname.name) if alias.asname is not None else name
                    found[bound or ""] = f"{base}.{name}" if base and not base.endswith(".") else base + name
        return found

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every name that stands in the file."""
        return frozenset(one.value for one in self._nodes if isinstance(one, cst.Name))

    def meaning(self, node: cst.CSTNode) -> str | None:
        """What a name or attribute of an imported module stands for: ``F.relu`` is
        ``torch.nn.functional.relu``."""
        name = dotted(node)
        if name is None:
            return None
        first, dot, rest = name.partition(".")
        known = self.imported.get(first)
        return f"{known}{dot}{rest}" if known is not None else None

    def free_name(self, *wanted: str) -> str:
        """The first name that the file does not use."""
        for name in wanted:
            if name not in self.identifiers:
                return name
        return next(
            name for number in range(2, 1000) if (name := f"{wanted[0]}_{number}") not in self.identifiers
        )

    def spelled(self, meaning: str) -> tuple[str, tuple[Edit, ...]]:
        """How the top level of the file can name it, and the import that has to be added for that."""
        parts = meaning.split(".")
        for cut in range(len(parts), 0, -1):
            stem = ".".join(parts[:cut])
            for name, known in self._top_imports.items():
                if known == stem:
                    return ".".join([name, *parts[cut:]]), ()
        line = f"import {parts[0]}{self.newline}"
        return meaning, (self.inserted(self.after_imports, line, rank=-9),)

    @cached_property
    def _top_imports(self) -> dict[str, str]:
        tops = {
            one
            for line in self.module.body
            if isinstance(line, cst.SimpleStatementLine)
            for one in line.body
            if isinstance(one, (cst.Import, cst.ImportFrom))
        }
        names: set[str] = set()
        for one in tops:
            if isinstance(one.names, cst.ImportStar):
                continue
            for alias in one.names:
                bound = alias.asname.name if alias.asname is not None else alias.name
                names.add((dotted(bound) or "").split(".")[0])
        return {name: known for name, known in self.imported.items() if name in names}

    @property
    def newline(self) -> str:
        newline: str = self.module.default_newline
        return newline

    @property
    def indent(self) -> str:
        indent: str = self.module.default_indent
        return indent

    @cached_property
    def after_imports(self) -> int:
        """The start of the line after the last import of the top level, or after docstring and comments."""
        last: cst.CSTNode | None = None
        for number, line in enumerate(self.module.body):
            if not isinstance(line, cst.SimpleStatementLine):
                continue
            first = line.body[0]
            document = (
                number == 0 and isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
            )
            if document or isinstance(first, (cst.Import, cst.ImportFrom)):
                last = line
        return self.after(last) if last is not None else self._start

    @property
    def _start(self) -> int:
        body = self.module.body
        return self.start_of_line(body[0]) if body else len(self.source.text)

    def start_of_line(self, node: cst.CSTNode) -> int:
        return self._line_starts[self.line(node) - 1]

    def lead(self, node: cst.CSTNode) -> str:
        """The indentation of its line."""
        line = self.source.text[self.start_of_line(node) : self.span(node)[0]]
        return line[: len(line) - len(line.lstrip())]

    def reads_after(self, line: cst.CSTNode, name: str) -> bool:
        """Whether a name stands behind a line of its function, or in a loop around it."""
        function, end = self.function_of(line), self.span(line)[1]
        if function is None or any(isinstance(one, (cst.For, cst.While)) for one in self.parents(line)):
            return True
        names = (one for one in walk(function) if isinstance(one, cst.Name) and one.value == name)
        return any(self.span(one)[0] >= end for one in names)

    def of_lines(self, edits: Iterable[LineEdit]) -> Iterator[Edit]:
        """Edits of whole lines as edits of what differs in them."""
        path, places = self.source.path, [*self._line_starts, len(self.source.text)]
        for edit in edits:
            start, after = places[edit.line - 1], places[edit.line]
            lines = edit.after.split("\n") if edit.after else []
            if not lines:
                yield Edit(path, start, after, "")
                continue
            kept = lines.index(edit.before) if edit.before in lines else 0
            first, last = in_common(edit.before, lines[kept])
            if kept:
                yield self.inserted(start, "".join(line + self.newline for line in lines[:kept]))
            if lines[kept] != edit.before:
                text = lines[kept][first : len(lines[kept]) - last]
                yield Edit(path, start + first, start + len(edit.before) - last, text)
            if lines[kept + 1 :]:
                text = "".join(line + self.newline for line in lines[kept + 1 :])
                yield self.inserted(after, self.ends_line(after) + text)

    def after(self, statement: cst.CSTNode) -> int:
        """The start of the line after a statement."""
        line = self.last_line(statement)
        text = self.source.text
        return min(self._line_starts[line], len(text)) if line < len(self._line_starts) else len(text)

    def defined(self, lines: Sequence[str], rank: int) -> tuple[Edit, ...]:
        """Lines of definitions, indented with four spaces a level, at the top level after the imports, and
        the blank lines behind the last of several."""
        place, text = self.after_imports, self.source.text
        blank = len(re.findall(r"\r\n|\r|\n", re.match(r"[\r\n]*", text[place:]).group()))  # type: ignore[union-attr]
        written = "".join(self._in_style(line) for line in ["", "", *lines])
        own = self.inserted(place, self.ends_line(place) + written, rank)
        behind = self.newline * (2 - blank) if place < len(text) else ""
        return (own, self.inserted(place, behind, rank=-4)) if behind else (own,)

    def _in_style(self, line: str, lead: str = "") -> str:
        depth = (len(line) - len(line.lstrip())) // 4
        return (f"{lead}{self.indent * depth}{line.lstrip()}" if line else "") + self.newline

    def lines_at(self, place: int, lines: Sequence[str], lead: str, rank: int) -> Edit:
        """Lines put before the line that begins at ``place``, each after ``lead``."""
        written = [self._in_style(line, lead) for line in lines]
        return self.inserted(place, self.ends_line(place) + "".join(written), rank)

    def ends_line(self, place: int) -> str:
        """The line end that has to come before what is put at the end of a file without one."""
        text = self.source.text
        return self.newline if place and place == len(text) and text[-1] not in "\r\n" else ""


_ANNOTATES = ("typing", "typing_extensions")


def without_unused(file: ParsedFile, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits of a file, and what they leave unused of ``from typing import Optional`` taken out. Other
    imports stay: another file may take their names from this one."""
    after, found = changed_text(file.source.text, edits), list(edits)
    for line in file.module.body:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            continue
        only = line.body[0]
        if not isinstance(only, cst.ImportFrom) or isinstance(only.names, cst.ImportStar):
            continue
        if only.relative or dotted(only.module) not in _ANNOTATES:
            continue
        own, names = file.text(only), list(only.names)
        gone = [
            alias.asname is None and _left_unused(dotted(alias.name) or "", file.source.text, after, own)
            for alias in names
        ]
        if all(gone) and line.trailing_whitespace.comment is None:
            start, text = file.start_of_line(line), file.source.text
            blank = re.match(r"[ \t]*(?:\r\n|\r|\n)", text[file.after(line) :])
            both = blank is not None and re.search(r"(?:\A|[\r\n])[ \t]*(?:\r\n|\r|\n)\Z", text[:start])
            end = file.after(line) + (blank.end() if both and blank is not None else 0)
            found.append(Edit(file.source.path, start, end, ""))
        elif any(gone) and not all(gone):
            found += _taken_out(file, names, gone)
    return tuple(found) if not overlapping(found) else tuple(edits)


def _left_unused(name: str, before: str, after: str, own: str) -> bool:
    """Whether a name that stood elsewhere, in comments and strings too, stands in its import alone."""
    uses = [len(re.findall(rf"\b{name}\b", text)) for text in (before, after, own)]
    return uses[0] > uses[1] == uses[2]


def _taken_out(file: ParsedFile, names: Sequence[cst.ImportAlias], gone: Sequence[bool]) -> Iterator[Edit]:
    """The names of an import without some, and with one comma less for each."""
    last = max(number for number, is_gone in enumerate(gone) if not is_gone)
    for number, alias in enumerate(names):
        if gone[number] and number < last:
            yield Edit(file.source.path, file.span(alias.name)[0], file.span(names[number + 1].name)[0], "")
    if last + 1 < len(names):
        start, end = file.span(names[last].asname or names[last].name)[1], file.span(names[-1].name)[1]
        yield Edit(file.source.path, start, end, "")


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all below it, outer ones first."""
    left = [node]
    while left:
        one = left.pop()
        yield one
        left.extend(reversed(one.children))


def dotted(node: cst.CSTNode | None) -> str | None:
    """``torch.nn.functional`` of such a chain of names; None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr.value}" if before is not None else None
    return None
