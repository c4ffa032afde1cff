"""A Python file as ``ast`` and ``tokenize`` read it: its nodes with their
positions, and the meaning of its names.

``ast`` counts bytes of UTF-8 and leaves out parentheses and comments; ``tokenize``
finds these. An expression inside an f-string has the span of the whole string: its
own position is wrong before Python 3.12.
"""

from __future__ import annotations

import ast
import bisect
import copy
import keyword
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from fusiondoc.changes.edits import SourceText, TextEdit, changed_text, is_within

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_LINE_END = re.compile(r"\r\n|\r|\n")
_STRINGS = tuple(
    getattr(ast, name)
    for name in ("JoinedStr", "TemplateStr")
    if hasattr(ast, name)
)
_LAYOUT = frozenset(
    [
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    ]
)


class NotParsable(Exception):
    """The file is not Python for the interpreter that runs fusiondoc; the text is
    the reason."""


class Token(NamedTuple):
    """A token that is neither layout nor a comment."""

    start: int
    end: int
    text: str


class ParsedFile:
    """A source file of the user's.

    Raises:
        NotParsable: it is not Python.
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.edits: Sequence[TextEdit] = ()
        try:
            with (
                warnings.catch_warnings()
            ):  # of the compiler, on literals such as "\\d"
                warnings.simplefilter("ignore")
                self.tree = ast.parse(source.text)
        except SyntaxError as error:
            raise NotParsable(f"line {error.lineno}: {error.msg}") from None
        except ValueError as error:  # a null character
            raise NotParsable(str(error)) from None
        except (RecursionError, MemoryError):
            raise NotParsable("its expressions are nested too deeply") from None
        self._parents: dict[ast.AST, ast.AST] = {}
        self._string_of: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, _STRINGS):
                string = node
            else:
                string = self._string_of.get(node)
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
                if string is not None:
                    self._string_of[child] = string

    # -- characters and lines --------------------------------------------------------------------------------

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.source.text))]

    def offset_of_line(self, line: int) -> int:
        """The offset at which a line begins, counted from 1; the length of the text
        for the line after the last."""
        starts = self._line_starts
        if line <= len(starts):
            return starts[line - 1]
        return len(self.source.text)

    def line_at(self, offset: int) -> int:
        """The line of a character, from 1."""
        return bisect.bisect_right(self._line_starts, offset)

    def text_of_line(self, line: int) -> str:
        """A line without its line end."""
        return self.source.text[
            self.offset_of_line(line) : self.offset_of_line(line + 1)
        ].rstrip("\r\n")

    def _offset(self, line: int, byte: int) -> int:
        start = self._line_starts[line - 1]
        text = self.source.text[start : start + byte]
        if text.isascii():
            return start + byte
        return start + len(
            text.encode("utf-8", "surrogatepass")[:byte].decode("utf-8", "replace")
        )

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The characters of a node, without parentheses around it; a tuple's own
        parentheses belong to it."""
        node = self._string_of.get(node, node)
        assert isinstance(
            node, (ast.expr, ast.stmt, ast.arg, ast.keyword, ast.alias)
        )
        start = self._offset(node.lineno, node.col_offset)
        if node.end_lineno is None or node.end_col_offset is None:
            return start, start
        return start, self._offset(node.end_lineno, node.end_col_offset)

    def outer_span(self, node: ast.expr) -> tuple[int, int]:
        """The characters of a node with all parentheses around it, except those of
        a call."""
        start, end = self.span(node)
        first = bisect.bisect_left(self._tokens, (start,))
        last = bisect.bisect_left(self._tokens, (end,)) - 1
        while self._in_parentheses(first - 1, last + 1):
            first, last = first - 1, last + 1
            start, end = self._tokens[first].start, self._tokens[last].end
        return start, end

    def _in_parentheses(self, first: int, last: int) -> bool:
        """True if two tokens are grouping parentheses: those of a call follow an
        operand."""
        tokens = self._tokens
        if (
            first < 0
            or last >= len(tokens)
            or (tokens[first].text, tokens[last].text) != ("(", ")")
        ):
            return False
        before = tokens[first - 1].text if first else ""
        is_operand = before.isidentifier() and not keyword.iskeyword(before)
        return not is_operand and before[-1:] not in (")", "]", "}", '"', "'")

    @cached_property
    def _tokens(self) -> list[Token]:
        """The tokens; empty if ``tokenize`` refuses text that ``ast`` accepts: then
        no parentheses are found."""
        try:
            every = list(self._all_tokens())
        except (tokenize.TokenError, SyntaxError):
            return []
        tokens = []
        for token in every:
            if token.type not in _LAYOUT:
                tokens.append(
                    Token(
                        self._token_offset(token.start),
                        self._token_offset(token.end),
                        token.string,
                    )
                )
        return tokens

    def _all_tokens(self) -> Iterator[tokenize.TokenInfo]:
        lines = (
            self.text_of_line(line) + "\n"
            for line in range(1, len(self._line_starts) + 1)
        )
        return tokenize.generate_tokens(lambda: next(lines, ""))

    def _token_offset(self, position: tuple[int, int]) -> int:
        line, column = position
        return self.offset_of_line(line) + column

    def line(self, node: ast.AST) -> int:
        """The line on which a node begins, from 1."""
        return self.line_at(self.span(node)[0])

    def column(self, node: ast.AST) -> int:
        """Number of characters before a node on its line."""
        return self.span(node)[0] - self.start_of_line(node)

    def last_line(self, node: ast.AST) -> int:
        return self.line_at(max(self.span(node)[1] - 1, 0))

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source.text[start:end]

    def whole(self, node: ast.expr) -> str:
        """The text of a node with the parentheses around it."""
        start, end = self.outer_span(node)
        return self.source.text[start:end]

    def is_parenthesised(self, node: ast.expr) -> bool:
        return self.outer_span(node) != self.span(node)

    def where(self, node: ast.AST) -> str:
        """``file:line``"""
        return f"{self.source.path}:{self.line(node)}"

    def start_of_line(self, node: ast.AST) -> int:
        return self._line_starts[self.line(node) - 1]

    def after(self, statement: ast.AST) -> int:
        """The start of the line after a statement."""
        return self.offset_of_line(self.last_line(statement) + 1)

    def lead(self, node: ast.AST) -> str:
        """The indentation of a node's line."""
        line = self.source.text[self.start_of_line(node) : self.span(node)[0]]
        return line[: len(line) - len(line.lstrip())]

    def has_own_lines(self, statement: ast.stmt) -> bool:
        """True if no other statement shares its lines."""
        start, end = self.span(statement)
        before = self.source.text[self.start_of_line(statement) : start]
        behind = self.source.text[end : self.after(statement)].strip()
        return not before.strip() and (not behind or behind.startswith("#"))

    def comment_behind(self, statement: ast.stmt) -> int | None:
        """The offset of the comment after a statement, on its last line; None if
        there is none."""
        end = self.span(statement)[1]
        behind = self.source.text[end : self.after(statement)]
        if behind.strip().startswith("#"):
            return end + behind.index("#")
        return None

    @property
    def newline(self) -> str:
        """The line end of the file's first line."""
        first = self.source.text[: self.offset_of_line(2)]
        return first[len(self.text_of_line(1)) :] or "\n"

    @cached_property
    def indent(self) -> str:
        """The indentation of the file's first indented block; four spaces if there
        is none."""
        for node in walk(self.tree):
            if is_compound(node):
                first = next(
                    child
                    for child in walk(node)
                    if isinstance(child, ast.stmt) and child is not node
                )
                lead = self.lead(first)
                if lead and self.has_own_lines(first):
                    return lead
        return "    "

    def ends_line(self, offset: int) -> str:
        """Return the line end needed before text that is inserted at the end of a
        file that has no final line end."""
        text = self.source.text
        if offset and offset == len(text) and text[-1] not in "\r\n":
            return self.newline
        return ""

    # -- edits -----------------------------------------------------------------------------------------------

    def with_edits(self, edits: Sequence[TextEdit]) -> ParsedFile:
        """The same file with some parts already rewritten, for rewrites around
        them."""
        found = copy.copy(self)
        found.edits = edits
        return found

    def written(self, node: ast.AST) -> str:
        """The text of a node after the edits of ``with_edits``."""
        return self._written(*self.span(node))

    def whole_written(self, node: ast.expr) -> str:
        """The same, with the parentheses around it."""
        return self._written(*self.outer_span(node))

    def _written(self, start: int, end: int) -> str:
        own = []
        for edit in self.edits:
            if is_within(edit, start, end):
                own.append(edit.counted_from(start))
        return changed_text(self.source.text[start:end], own)

    def replaced(self, node: ast.AST, text: str) -> TextEdit:
        start, end = self.span(node)
        return TextEdit(self.source.path, start, end, text)

    def inserted(self, offset: int, text: str, rank: int = 0) -> TextEdit:
        return TextEdit(self.source.path, offset, offset, text, rank)

    def removed(self, start: int, end: int) -> TextEdit:
        return TextEdit(self.source.path, start, end, "")

    def parenthesised(self, node: ast.expr) -> tuple[TextEdit, TextEdit]:
        """Return the edits that put parentheses around an expression."""
        start, end = self.span(node)
        return self.inserted(start, "("), self.inserted(end, ")")

    # -- the tree --------------------------------------------------------------------------------------------

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """The enclosing nodes, from the nearest one outward."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def loops_around(self, node: ast.AST) -> list[ast.AST]:
        """The enclosing loops, from the nearest one outward."""
        return [above for above in self.parents(node) if isinstance(above, LOOPS)]

    def call_of_argument(self, node: ast.AST) -> ast.Call | None:
        """The call that an expression is an argument of."""
        above = self.parent(node)
        if isinstance(above, ast.keyword):
            above = self.parent(above)
        if isinstance(above, ast.Call) and above.func is not node:
            return above
        return None

    def function_of(self, node: ast.AST) -> Function | None:
        for above in self.parents(node):
            if isinstance(above, FUNCTIONS):
                return above
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        for above in self.parents(node):
            if isinstance(above, ast.ClassDef):
                return above
        return None

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """The simple statement that contains a node; None for a node in the header
        of a compound statement."""
        found = None
        for one in (node, *self.parents(node)):
            if isinstance(one, ast.stmt):
                found = one
                break
        if found is None or is_compound(found):
            return None
        return found

    def block_of(self, statement: ast.AST) -> list[ast.stmt]:
        """The statements of the block that a statement is in."""
        above = self.parent(statement)
        for name in _BLOCKS:
            block = getattr(above, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return []

    @cached_property
    def signatures(self) -> Sequence[tuple[int, int]]:
        """The spans of each function argument and of each annotated result."""
        parts: list[ast.AST | None] = []
        for function in self.nodes:
            if isinstance(function, FUNCTIONS):
                given = function.args
                parts += [
                    function.returns,
                    *arguments_of(function),
                    given.vararg,
                    given.kwarg,
                ]
                parts += [*given.defaults, *given.kw_defaults]
        signatures = []
        for part in parts:
            if part is not None:
                signatures.append(self.span(part))
        return signatures

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """All nodes, outer ones first."""
        return list(walk(self.tree))

    def on_line(self, line: int) -> Sequence[ast.AST]:
        """The nodes of the simple statements and headers that have this line, outer
        ones first, from left to right. Nodes in an f-string are left out: they have
        no position of their own."""
        return self._by_line.get(line, [])

    def inner_first(self, line: int) -> Sequence[ast.AST]:
        """The same nodes, each after the nodes inside it."""
        nodes = reversed(self.on_line(line))
        return sorted(nodes, key=lambda node: self.span(node)[1])

    @cached_property
    def _by_line(self) -> dict[int, list[ast.AST]]:
        found: dict[int, list[ast.AST]] = {}
        for node in self.nodes:
            if (
                not isinstance(node, (ast.expr, ast.stmt))
                or is_compound(node)
                or node in self._string_of
            ):
                continue
            around = self.statement_of(node) or node
            for line in range(self.line(around), self.last_line(around) + 1):
                found.setdefault(line, []).append(node)
        for nodes in found.values():
            nodes.sort(key=self._from_outside)
        return found

    def _from_outside(self, node: ast.AST) -> tuple[int, int]:
        start, end = self.span(node)
        return start, -end

    # -- names -----------------------------------------------------------------------------------------------

    @cached_property
    def imported(self) -> dict[str, str]:
        """Names that imports bind anywhere in the file -> their full names: F ->
        torch.nn.functional."""
        found: dict[str, str] = {}
        for node in self.nodes:
            found.update(bound_by_import(node))
        return found

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every name that occurs in the file."""
        names = []
        for token in self._tokens:
            if token.text.isidentifier():
                names.append(token.text)
        return frozenset(
            [
                *names,
                *(node.id for node in self.nodes if isinstance(node, ast.Name)),
            ]
        )

    def meaning(self, node: ast.AST) -> str | None:
        """Return the full name of a name or attribute of an imported module:
        ``torch.nn.functional.relu`` for ``F.relu``."""
        name = dotted(node)
        if name is None:
            return None
        first, dot, rest = name.partition(".")
        known = self.imported.get(first)
        if known is None:
            return None
        return f"{known}{dot}{rest}"

    def free_name(self, *wanted: str) -> str:
        """Return the first name that the file does not use."""
        numbered = (f"{wanted[0]}_{number}" for number in range(2, 1000))
        return next(
            name for name in (*wanted, *numbered) if name not in self.identifiers
        )

    def reads_after(self, node: ast.AST, name: str) -> bool:
        """True if the value that a name has at a statement is read after it, or in
        a loop around it."""
        function, statement = self.function_of(node), self.statement_of(node)
        if function is None or statement is None:
            return True
        if _assigns(statement, name):
            return False
        reads = []
        for use in names_in(function, name):
            if self._is_read(use):
                reads.append(self.span(use)[0])
        _, end = self.span(statement)
        loops = self.loops_around(statement)
        if not loops:
            return any(at >= end for at in reads)
        start, _ = self.span(loops[-1])
        block = self.block_of(statement)
        above = block[: block.index(statement)]
        made = max(
            (self.span(one)[0] for one in above if _assigns(one, name)), default=end
        )
        return any(start <= at < made or at >= end for at in reads)

    def _is_read(self, use: ast.Name) -> bool:
        return isinstance(use.ctx, ast.Load) or isinstance(
            self.parent(use), ast.AugAssign
        )


def _assigns(statement: ast.stmt, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return any(
        isinstance(target, ast.Name) and target.id == name for target in targets
    )


_MOST_TEXT = 300_000
"""Most characters of a file that a report parses: the tree takes some six hundred
times as much memory."""


@lru_cache(maxsize=8)
def parsed_text(text: str, name: str) -> ParsedFile | None:
    """Parse the text of a file, for a report; None if it is not Python, or very
    long."""
    if len(text) > _MOST_TEXT:
        return None
    try:
        return ParsedFile(SourceText(Path(name), text, "utf-8", False))
    except NotParsable:
        return None


def is_compound(node: ast.AST) -> bool:
    """True for a statement with a block of its own."""
    if not isinstance(node, ast.stmt):
        return False
    return isinstance(getattr(node, "body", None), list) or isinstance(
        getattr(node, "cases", None), list
    )


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, outer ones first."""
    left = [node]
    while left:
        current = left.pop()
        yield current
        left.extend(reversed(list(ast.iter_child_nodes(current))))


def names_in(node: ast.AST, name: str) -> Iterator[ast.Name]:
    """The occurrences of a name in an expression or statement."""
    return (
        one for one in walk(node) if isinstance(one, ast.Name) and one.id == name
    )


def dotted(node: ast.AST | None) -> str | None:
    """Return ``torch.nn.functional`` for such a chain of names; None for anything
    else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        if before is None:
            return None
        return f"{before}.{node.attr}"
    return None


def arguments_of(function: Function) -> list[ast.arg]:
    """The named arguments of a function, in order."""
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def default_of(function: Function, argument: ast.arg) -> ast.expr | None:
    """The default of an argument."""
    given = function.args
    if argument in given.kwonlyargs:
        return given.kw_defaults[given.kwonlyargs.index(argument)]
    positional = [*given.posonlyargs, *given.args]
    behind = positional.index(argument) - len(positional) + len(given.defaults)
    if behind >= 0:
        return given.defaults[behind]
    return None


def bound_by_import(node: ast.AST) -> dict[str, str]:
    """Names that an import statement binds -> their full names; empty for other
    statements."""
    if isinstance(node, ast.Import):
        short = {}
        for alias in node.names:
            if not alias.asname:
                short[alias.name.split(".")[0]] = alias.name.split(".")[0]
        return {
            **short,
            **{alias.asname: alias.name for alias in node.names if alias.asname},
        }
    if not isinstance(node, ast.ImportFrom):
        return {}
    base = "." * node.level + (node.module or "")
    dot = "" if base.endswith(".") or not base else "."
    bound = {}
    for alias in node.names:
        if alias.name != "*":
            bound[alias.asname or alias.name] = f"{base}{dot}{alias.name}"
    return bound
