"""Move statements with side effects, such as a print, behind the operators of their
block. Only statements that certainly do the same there are moved: no statement in
between changes a value that they read."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import (
    FUNCTIONS,
    Function,
    ParsedFile,
    dotted,
    walk,
)
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import NAMES_OF_REDUCTIONS, OF_EACH_ELEMENT

PRINTS = frozenset(["print", "warnings.warn"])
"""Calls with side effects: torch moves no operator past them (``hasSideEffects`` of
torch/csrc/jit/ir/ir.cpp, 1.12 to 2.13). Fusion passes of torch 2.13 were seen to
move operators past assignments to attributes and past ``assert``."""


def is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in PRINTS


@dataclass(frozen=True)
class PrintedLater:
    """Statements of a block that can be moved behind its operators."""

    statements: tuple[ast.stmt, ...]
    last: ast.stmt
    """The last statement of the block."""
    edits: tuple[TextEdit, ...]
    pairs: frozenset[int] = frozenset()
    """The pairs of lines between which they are, by their index in the argument."""

    def texts(self, file: ParsedFile) -> tuple[str, ...]:
        """The statements, each as one line of text."""
        texts = []
        for statement in self.statements:
            texts.append(" ".join(file.text(statement).split()))
        return tuple(texts)


def prints_between(
    file: ParsedFile, pairs: Sequence[tuple[int, int]]
) -> list[PrintedLater]:
    """Move prints between computing lines behind the last of these; one result for
    each function.

    Args: pairs: the last line of the operators before the print, and the first line
        of those after it.
    """
    found = []
    for function in _functions(file):
        block = function.body
        firsts = {}
        for number, pair in enumerate(pairs):
            start = _print_between(block, pair)
            if start is not None:
                firsts[number] = start
        if firsts:
            prints = []
            for statement in block[min(firsts.values()) + 1 :]:
                if _prints(statement):
                    prints.append(statement)
            made = _behind(file, block, prints)
            if made is not None:
                found.append(
                    PrintedLater(
                        made.statements, made.last, made.edits, frozenset(firsts)
                    )
                )
    return found


def _functions(file: ParsedFile) -> Iterator[Function]:
    return (node for node in file.nodes if isinstance(node, FUNCTIONS))


_QUIET = (ast.Assign, ast.AnnAssign, ast.Assert)


def _print_between(block: Sequence[ast.stmt], lines: tuple[int, int]) -> int | None:
    """The index of the first line's statement, if there are prints and no branches
    between the two lines."""
    start, stop = (_statement_at(block, line) for line in lines)
    if start is None or stop is None or start >= stop:
        return None
    between = block[start + 1 : stop]
    quiet = all(
        _prints(statement) or isinstance(statement, _QUIET) for statement in between
    )
    if quiet and any(map(_prints, between)):
        return start
    return None


def _statement_at(block: Sequence[ast.stmt], line: int) -> int | None:
    """The index of the statement that has this line, if it shares its lines with no
    other statement."""
    found = []
    for i, one in enumerate(block):
        if one.lineno <= line <= (one.end_lineno or one.lineno):
            found.append(i)
    if len(found) == 1:
        return found[0]
    return None


def write(line: Line) -> Iterator[Rewritten]:
    """Yield rewrites of prints and assignments to attributes among lines of the
    file that ran."""
    file = line.file
    for found in _prints_among(file, line.shown.lines_that_ran or ()):
        title = f"{'; '.join(found.texts(file))} after what is computed"
        yield Rewritten(
            title, found.edits, lines=tuple(map(file.line, found.statements))
        )


def _prints_among(file: ParsedFile, ran: Collection[int]) -> Iterator[PrintedLater]:
    """Move prints and assignments to attributes among computing lines to the end of
    their block: all of them, else those that can be moved alone.

    Args:
        ran: lines that have operators in the run.
    """
    for function in _functions(file):
        own = []
        for line in ran:
            if function.lineno < line <= (function.end_lineno or 0):
                own.append(line)
        own.sort()
        for block in _blocks(function) if own else ():
            among = []
            for one in block:
                if own[0] < one.lineno < own[-1] and (_prints(one) or _keeps(one)):
                    among.append(one)
            together = _behind(file, block, among)
            singly = (
                [together]
                if together
                else [_behind(file, block, [one]) for one in among]
            )
            yield from (one for one in singly if one is not None)


def _blocks(function: Function) -> Iterator[list[ast.stmt]]:
    """The body of a function, and its inner blocks, without those of nested
    functions."""
    todo: list[ast.AST] = [function]
    while todo:
        node = todo.pop()
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block
                todo += [
                    one
                    for one in block
                    if not isinstance(one, (ast.FunctionDef, ast.ClassDef))
                ]


def _prints(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and is_print(node.value)


def _keeps(node: ast.stmt) -> bool:
    """True for ``self.last = y``."""
    target = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)


_LEAVES = (ast.Continue, ast.Break, ast.Raise)


def _behind(
    file: ParsedFile, block: Sequence[ast.stmt], moving: Sequence[ast.stmt]
) -> PrintedLater | None:
    """Return the edits that move statements behind the last computing statement of
    their block."""
    moved, last = _before_computing(block, moving), block[-1]
    if not moved or last in moving or isinstance(last, _LEAVES):
        return None
    if not all(map(file.has_own_lines, (*moved, last))):
        return None
    rest = [one for one in block[block.index(moved[0]) :] if one not in moved]
    if any(_prints(one) or _may_change(one, moved) for one in rest):
        return None
    edits = []
    for one in moved:
        edits.append(file.removed(file.start_of_line(one), file.after(one)))
    lines = "".join(_whole_lines(file, one) for one in moved)
    return PrintedLater(
        tuple(moved), last, (*edits, *_before_end(file, last, lines))
    )


def _before_computing(
    block: Sequence[ast.stmt], moving: Sequence[ast.stmt]
) -> list[ast.stmt]:
    """The statements that have a computing statement after them in their block."""
    last = -1
    for index, statement in enumerate(block):
        if statement not in moving and not _returns_name(statement):
            last = index
    return [statement for statement in moving if block.index(statement) < last]


def _whole_lines(file: ParsedFile, statement: ast.stmt) -> str:
    """The whole lines of a statement, with a line end."""
    text = file.source.text[file.start_of_line(statement) : file.after(statement)]
    if text.endswith(("\n", "\r")):
        return text
    return text + file.newline


def _before_end(file: ParsedFile, last: ast.stmt, lines: str) -> list[TextEdit]:
    """Insert lines at the end of a block, or before its ``return``, which then
    returns a name."""
    if not isinstance(last, ast.Return):
        end = file.after(last)
        return [file.inserted(end, file.ends_line(end) + lines)]
    start = file.start_of_line(last)
    if _returns_name(last):
        return [file.inserted(start, lines)]
    name = file.free_name("result", "computed")
    word = file.span(last)[0]
    end = file.after(last)
    back = f"{lines}{file.lead(last)}return {name}{file.newline}"
    named = TextEdit(file.source.path, word, word + len("return"), f"{name} =")
    return [named, file.inserted(end, file.ends_line(end) + back)]


def _returns_name(node: ast.stmt) -> bool:
    is_name = isinstance(node, ast.Return) and isinstance(
        node.value, (ast.Name, ast.Constant)
    )
    return is_name and node.lineno == node.end_lineno


# -- statements that may change a value that is printed ------------------------------------------------------


def _may_change(later: ast.stmt, moved: Sequence[ast.stmt]) -> bool:
    """True if a later statement may change a value that is printed, or may leave
    the block: names are bound again, or tensors are changed in place (which changes
    no shape)."""
    reads = _Reads(moved)
    if reads.call_something or (
        isinstance(later, ast.Return) and later.value is None
    ):
        return True
    return any(reads.may_be_changed_by(node, node is later) for node in walk(later))


class _Reads:
    """The names and attributes that statements read and assign."""

    def __init__(self, moved: Sequence[ast.stmt]) -> None:
        inside: list[ast.AST] = []
        for statement in moved:
            inside.extend(walk(statement))
        calls = []
        for node in inside:
            if isinstance(node, ast.Call) and not is_print(node):
                calls.append(node)
        attributes = [node for node in inside if isinstance(node, ast.Attribute)]
        self.call_something = not all(map(_only_reads, calls))
        self.names = {node.id for node in inside if isinstance(node, ast.Name)} - {
            "print",
            "warnings",
            "self",
        }
        self.values = any(map(_reads_values, moved))
        self.attributes = {node.attr for node in attributes}
        self.kept = set()
        for node in attributes:
            if isinstance(node.ctx, ast.Store):
                self.kept.add(node.attr)

    def may_be_changed_by(self, node: ast.AST, is_statement: bool) -> bool:
        """True if a node of a later statement changes one of them, or leaves the
        block."""
        if isinstance(node, (ast.Return, *_LEAVES)):
            return not is_statement
        is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.Name):
            return is_stored and node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.kept or (
                is_stored and node.attr in self.attributes
            )
        if not self.values:
            return False
        if isinstance(node, ast.Call):
            return _may_work_in_place(node)
        return isinstance(node, ast.AugAssign) or (
            is_stored and isinstance(node, ast.Subscript)
        )


def _may_work_in_place(call: ast.Call) -> bool:
    """True for an in-place method, a module or method of the user's own, or a call
    with ``inplace`` or ``out``."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr.endswith("_"):
        return True
    name = dotted(func) or ""
    keywords = {given.arg for given in call.keywords}
    return (
        name.startswith("self.")
        or name.endswith("_")
        or bool(keywords & {"inplace", "out"})
    )


_OF_NO_VALUES = frozenset(
    ["shape", "dtype", "device", "ndim", "size", "dim", "numel", "__class__"]
)

_NOT_READ = frozenset(["print", "warnings", "self", "len", "str", "int", "float"])


def _reads_values(moved: ast.stmt) -> bool:
    """True if it reads more of a name than ``x.shape`` and the like."""
    nodes = list(walk(moved))
    plain = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in _OF_NO_VALUES:
            plain.add(node.value)
    names = (
        node for node in nodes if isinstance(node, ast.Name) and node not in plain
    )
    return any(node.id not in _NOT_READ for node in names)


_READS = OF_EACH_ELEMENT.union(
    NAMES_OF_REDUCTIONS,
    [
        "len",
        "float",
        "int",
        "str",
        "bool",
        "item",
        "size",
        "dim",
        "numel",
        "tolist",
        "detach",
    ],
)


def _only_reads(call: ast.Call) -> bool:
    """True if a call inside a print changes nothing and draws no random numbers."""
    func = call.func
    return (
        func.attr if isinstance(func, ast.Attribute) else dotted(func)
    ) in _READS


_ALL_RAN = Shown(lines_that_ran=range(99))

REWRITE = Rewrite(
    ChangeKind.SPLIT,
    write,
    fits=lambda line: bool(line.shown.lines_that_ran),
    examples=(
        Example(
            "h = x + y\nprint(h.shape)\ng = h * 2\nreturn g",
            "h = x + y\ng = h * 2\nprint(h.shape)\nreturn g",
            _ALL_RAN,
        ),
        Example(
            "h = x + y\nself.last = h\nreturn h * 2",
            "h = x + y\nresult = h * 2\nself.last = h\nreturn result",
            _ALL_RAN,
        ),
        Example(
            "h = x + y\nprint(h)\nh = h * 2\nreturn h", None, _ALL_RAN
        ),  # another value by then
        Example("h = x + y\nprint(h.shape)\nh = h * 2\nreturn h", None),
    ),
)
