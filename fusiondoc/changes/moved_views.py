"""Move views, permutations and concatenations behind the elementwise operators on
them.

``torch.tanh(x.view(4, -1))`` becomes ``torch.tanh(x).view(4, -1)``;
``torch.tanh(torch.cat([x, y], 1))`` becomes ``torch.cat([torch.tanh(x),
torch.tanh(y)], 1)``; ``h = torch.flip(a, [0])`` comes after the lines that compute
each element of ``h`` of its own. An operator between two groups then stands at the
edge of one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fusiondoc import operators
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.printed_later import is_print
from fusiondoc.changes.rewrite import (
    Example,
    Line,
    Rewrite,
    Rewritten,
    Shown,
    on_one_line,
)
from fusiondoc.changes.source_file import ParsedFile, is_compound, names_in, walk
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import OF_EACH_ELEMENT, SAME_ELEMENTS, plain_name

_VIEWS = frozenset(map(plain_name, [*SAME_ELEMENTS, "aten::contiguous"]))
_MOVED_ELEMENTS = frozenset(
    [*map(plain_name, operators.PERMUTATIONS), "index_select"]
)
"""Operators that only move elements of their input to other positions."""

_JOINED, _OWNERS = (
    ("torch.cat", "torch.stack", "torch.concat"),
    ("torch", "torch.nn.functional"),
)

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


class _Moved(NamedTuple):
    """A chain of operators that can be moved: the call of the last one, the input
    tensor of the first one, and whether the first one is a method of that
    tensor."""

    call: ast.Call
    tensor: ast.expr
    of_method: bool


def write(line: Line) -> Iterator[Rewritten]:
    """Yield the line with the operator behind the lines, or the expression, that
    compute elementwise on its result. It is not visible here if later lines go on
    computing, so that nothing is gained."""
    file = line.file
    for found in moved_over_lines(file, line.number):
        texts = "; ".join(map(file.text, found.statements))
        title = on_one_line(f"{texts} after what is computed of its elements")
        lines = tuple(map(file.line, found.statements))
        yield Rewritten(title, found.edits, lines=lines, sure=found.is_all)
    for node in file.on_line(line.number):
        edits = moved_in_expression(file, node)
        if edits:
            yield Rewritten(
                on_one_line(f"{file.text(node)}: {line.shown.op} after it"),
                edits,
                sure=False,
            )
            break


# -- within an expression ------------------------------------------------------------------------------------


def moved_in_expression(file: ParsedFile, node: ast.AST) -> tuple[TextEdit, ...]:
    """Return the edits if the node is the outermost elementwise expression on the
    result of a moved operator."""
    if not isinstance(node, ast.expr) or _inner(file, node) is None:
        return ()
    above = _expression_around(file, node)
    if above is not None and _inner(file, above) is not None:
        return ()  # an expression around it does too
    found: ast.expr = node
    while (inner := _inner(file, found)) is not None:
        found = inner
    if isinstance(found, ast.Call) and file.meaning(found.func) in _JOINED:
        return _around_parts(file, node, found)
    moved = _movable(file, found)
    if moved is None:
        return ()
    whole = _with(file, node, moved.call, moved.tensor)
    return (
        file.replaced(node, _again(file, moved, whole, isinstance(node, _ATOMS))),
    )


def _expression_around(file: ParsedFile, node: ast.expr) -> ast.expr | None:
    """The expression that uses this one; for the tensor of a method the call."""
    above = file.parent(node)
    if isinstance(above, ast.Attribute):
        above = file.parent(above)
    if isinstance(above, ast.expr):
        return above
    return None


def _with(file: ParsedFile, node: ast.expr, old: ast.expr, new: ast.expr) -> str:
    """Return the text of an expression in which ``old`` is replaced by ``new``."""
    first, last = file.span(node)
    start, end = file.span(old)
    text, tensor = file.source.text, file.text(new)
    if not isinstance(new, _ATOMS) and file.call_of_argument(old) is None:
        tensor = f"({tensor})"
    return f"{text[first:start]}{tensor}{text[end:last]}"


def _inner(file: ParsedFile, node: ast.expr) -> ast.expr | None:
    """The only tensor of an elementwise expression."""
    if isinstance(node, ast.Call):
        return _tensor_of_call(file, node)
    if isinstance(node, ast.BinOp):
        return _tensor_beside_number(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if _is_number(node.operand):
            return None
        return node.operand
    return None


def _tensor_of_call(file: ParsedFile, node: ast.Call) -> ast.expr | None:
    """Return ``x`` for ``torch.tanh(x)`` and for ``x.tanh()``."""
    meaning = file.meaning(node.func)
    given = len(node.args) + len(node.keywords)
    if meaning is not None:
        owner, _, name = meaning.rpartition(".")
        fits = (
            owner in _OWNERS
            and name in OF_EACH_ELEMENT
            and given == len(node.args) == 1
        )
        if fits and not isinstance(node.args[0], ast.Starred):
            return node.args[0]
        return None
    method = node.func
    if given or not isinstance(method, ast.Attribute):
        return None
    if method.attr in OF_EACH_ELEMENT:
        return method.value
    return None


def _tensor_beside_number(node: ast.BinOp) -> ast.expr | None:
    """Return ``x`` for ``x * 2`` and ``2 * x``."""
    if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
        return None
    if _is_number(node.right):
        return node.left
    if _is_number(node.left):
        return node.right
    return None


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _movable(file: ParsedFile, node: ast.expr) -> _Moved | None:
    """Return the chain of movable operators: ``torch.flip(x.view(4, -1), [0])`` is
    both of them, on ``x``."""
    moved = _single_movable(file, node)
    while (
        moved is not None
        and (inner := _single_movable(file, moved.tensor)) is not None
    ):
        moved = _Moved(moved.call, inner.tensor, inner.of_method)
    return moved


def _single_movable(file: ParsedFile, node: ast.expr) -> _Moved | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in _VIEWS | _MOVED_ELEMENTS:
        return None
    meaning = file.meaning(node.func)
    if meaning is None:
        return _Moved(node, node.func.value, True)
    if (
        meaning.rpartition(".")[0] != "torch"
        or not node.args
        or isinstance(node.args[0], ast.Starred)
    ):
        return None
    return _Moved(node, node.args[0], False)


def _again(
    file: ParsedFile, moved: _Moved, tensor: str, is_atom: bool = True
) -> str:
    """Return the text of the operators' calls with another tensor in the position
    of the first."""
    if moved.of_method and not is_atom:
        tensor = f"({tensor})"
    start, end = file.span(moved.call)
    first, last = file.span(moved.tensor)
    before, after = file.source.text[start:first], file.source.text[last:end]
    if before.endswith("(") and file.is_parenthesised(moved.tensor):
        before, after = before[:-1], after[1:] if after.startswith(")") else after
    return f"{before}{tensor}{after}"


def _around_parts(
    file: ParsedFile, node: ast.expr, joined: ast.Call
) -> tuple[TextEdit, ...]:
    """Apply the elementwise expression to each part: the parts must be written out
    in a list."""
    parts = joined.args[0] if joined.args else None
    if not isinstance(parts, (ast.List, ast.Tuple)):
        return ()
    if any(isinstance(part, ast.Starred) for part in parts.elts):
        return ()
    start, end = file.span(joined)
    made, offset = [], start
    for part in parts.elts:
        first, last = file.span(part)
        made += [file.source.text[offset:first], _with(file, node, joined, part)]
        offset = last
    return (file.replaced(node, "".join([*made, file.source.text[offset:end]])),)


# -- over lines ----------------------------------------------------------------------------------------------


class MovedLines(NamedTuple):
    """The edits that move operators of separate lines."""

    statements: tuple[ast.Assign, ...]
    edits: tuple[TextEdit, ...]
    is_all: bool
    """True if no computation of the next statement is left after them."""


def moved_over_lines(file: ParsedFile, line: int) -> Iterator[MovedLines]:
    """``h = x.view(4, -1)`` on a line, more such lines on ``h``, and elementwise
    lines on that: move the operators after these lines."""
    for node in file.on_line(line):
        if not isinstance(node, ast.Assign) or isinstance(
            file.parent(node), ast.Module
        ):
            continue
        block = file.block_of(node)
        lines = block[block.index(node) :]
        stack = _stack(file, lines)
        placed = _placed(file, stack, lines[len(stack) :])
        if placed is not None:
            yield MovedLines(tuple(one.node for one in stack), *placed)


class _Line(NamedTuple):
    """A line that assigns a moved operator's result to a name."""

    node: ast.Assign
    moved: _Moved
    target: str
    computed: str
    """The line's value without the operator."""


def _stack(file: ParsedFile, lines: Sequence[ast.stmt]) -> list[_Line]:
    """Return the first line, and the lines directly after it that move the result
    of the line before, if nothing else reads that result."""
    found: list[_Line] = []
    for node in lines:
        if not isinstance(node, ast.Assign) or not file.has_own_lines(node):
            break
        target = _name_of(node)
        moved = _behind_elements(file, node.value, bool(found))
        if moved is None or target is None:
            break
        if found and not _only_moves(file, node, moved, found[-1].target):
            break
        computed = _with(file, node.value, moved.call, moved.tensor)
        found.append(_Line(node, moved, target, computed))
    return found


def _only_moves(
    file: ParsedFile, node: ast.Assign, moved: _Moved, name: str
) -> bool:
    """True if a line moves the tensor of that name, and nothing else reads it."""
    if list(names_in(node.value, name)) != [moved.tensor]:
        return False
    return name == _name_of(node) or not file.reads_after(node, name)


def _behind_elements(
    file: ParsedFile, value: ast.expr, bare: bool
) -> _Moved | None:
    """The operator ``torch.flip(x, [0])`` inside ``torch.flip(x, [0]) * 2``; with
    ``bare``, only if it is the whole value."""
    found: ast.expr | None = value
    while found is not None:
        moved = _movable(file, found)
        if moved is not None:
            if found is value or not bare:
                return moved
            return None
        found = _inner(file, found)
    return None


class _Behind(NamedTuple):
    """The statements after the lines of the moved operators."""

    before: Sequence[ast.stmt]
    """Lines that leave their result unchanged."""
    lines: Sequence[ast.stmt]
    """Elementwise lines on their result, each on the result of the one before."""
    name: str
    """The name of the last of these results."""
    others: Sequence[ast.stmt]
    """Lines that leave that result unchanged."""
    around: ast.expr | None
    """The elementwise expression on it in the line after all these."""


def _behind(file: ParsedFile, target: str, rest: Sequence[ast.stmt]) -> _Behind:
    """Split the statements that follow in a block.

    Args:
        target: the name of the moved operators' result.
        rest: the statements behind them.
    """
    before = list(_that_leave(file, rest, target))
    rest = rest[len(before) :]
    lines = _lines_of(file, rest, target)
    name = (_name_of(lines[-1]) if lines else target) or target
    others = list(_that_leave(file, rest[len(lines) :], name))
    last = rest[len(lines) + len(others) :]
    return _Behind(
        before,
        lines,
        name,
        others,
        _around_name(file, last[0], name) if last else None,
    )


def _placed(
    file: ParsedFile, stack: Sequence[_Line], rest: Sequence[ast.stmt]
) -> tuple[tuple[TextEdit, ...], bool] | None:
    """Remove the lines of the stack, and insert their operators in the new
    position: around the elementwise value in the line after the elementwise lines,
    else in a line of their own."""
    if not stack:
        return None
    target, tensor = stack[-1].target, stack[0].moved.tensor
    behind = _behind(file, target, rest)
    if _changes_operand(stack, behind):
        return None
    edits = [_without(file, one) for one in stack]
    own = None
    if isinstance(tensor, ast.Name) and stack[0].moved.call is stack[0].node.value:
        own = tensor
    use = next(
        _reads(behind.lines[0] if behind.lines else behind.around, target), None
    )
    if own is None:
        edits[0:1] = _given(file, stack[0], target)
    elif behind.lines and use is not None and own.id != target:
        edits.append(file.replaced(use, own.id))
    if behind.around is not None:
        replaced = own if not behind.lines else None
        return _around_last(file, stack, behind.around, edits, use, replaced)
    if not behind.lines:
        return None
    end = file.after(behind.lines[-1])
    value = _all_again(file, stack, behind.name, True)
    text = f"{file.lead(stack[0].node)}{behind.name} = {value}{file.newline}"
    return (*edits, file.inserted(end, file.ends_line(end) + text)), True


def _changes_operand(stack: Sequence[_Line], behind: _Behind) -> bool:
    """True if a line that the operators move over assigns a name that they read."""
    tensor = stack[0].moved.tensor
    read = set().union(*(_read_beside(one.moved) for one in stack))
    if isinstance(tensor, ast.Name) and (behind.before or not behind.lines):
        read.add(tensor.id)
    others = behind.others if behind.around is not None else ()
    return any(
        _name_of(statement) in read
        for statement in (*behind.before, *behind.lines, *others)
    )


def _around_last(
    file: ParsedFile,
    stack: Sequence[_Line],
    around: ast.expr,
    edits: Sequence[TextEdit],
    use: ast.Name | None,
    own: ast.Name | None,
) -> tuple[tuple[TextEdit, ...], bool]:
    """Insert the operators around an expression. Args: edits: edits of the lines
    before it. use: the position where it reads the operators' result; ``own``:
    the tensor to read there instead, if another.
    """
    whole, is_atom = file.text(around), isinstance(around, _ATOMS)
    if own is not None and use is not None:
        whole = _with(file, around, use, own)
    is_all = isinstance(file.parent(around), ast.stmt)
    return (
        *edits,
        file.replaced(around, _all_again(file, stack, whole, is_atom)),
    ), is_all


def _that_leave(
    file: ParsedFile, lines: Sequence[ast.stmt], name: str
) -> Iterator[ast.stmt]:
    """The next lines that assign names, or print, without changing another name."""
    for statement in lines:
        if is_compound(statement) or not file.has_own_lines(statement):
            return
        prints = isinstance(statement, ast.Expr) and is_print(statement.value)
        if any(names_in(statement, name)) or (
            _name_of(statement) is None and not prints
        ):
            return
        yield statement


def _given(file: ParsedFile, one: _Line, target: str) -> Iterator[TextEdit]:
    """The line that assigns the tensor that its operator moves to the name of the
    last operator's result."""
    if target != one.target:
        yield file.replaced(one.node.targets[0], target)
    yield file.replaced(one.node.value, one.computed)


def _reads(node: ast.AST | None, name: str) -> Iterator[ast.Name]:
    """The reads of a name in a line or expression."""
    value = node.value if isinstance(node, ast.Assign) else node
    if value is not None:
        return names_in(value, name)
    return iter(())


def _read_beside(moved: _Moved) -> set[str]:
    """Names that the calls read, beside the tensor."""
    inside = set(walk(moved.tensor))
    names = set()
    for node in walk(moved.call):
        if isinstance(node, ast.Name) and node not in inside:
            names.add(node.id)
    return names


def _all_again(
    file: ParsedFile, stack: Sequence[_Line], whole: str, is_atom: bool
) -> str:
    for one in stack:
        whole, is_atom = _again(file, one.moved, whole, is_atom), True
    return whole


def _without(file: ParsedFile, one: _Line) -> TextEdit:
    """Remove the line, but keep its comment."""
    comment = file.comment_behind(one.node)
    if comment is None:
        return file.removed(file.start_of_line(one.node), file.after(one.node))
    return file.removed(file.span(one.node)[0], comment)


def _around_name(file: ParsedFile, line: ast.stmt, name: str) -> ast.expr | None:
    """The largest elementwise expression of a line on a name that is read there
    alone."""
    if (
        not isinstance(line, (ast.Assign, ast.Return))
        or line.value is None
        or not file.has_own_lines(line)
    ):
        return None
    if _name_of(line) != name and file.reads_after(line, name):
        return None
    uses = list(_reads(line, name))
    if len(uses) != 1:
        return None
    node: ast.expr = uses[0]
    while (above := _expression_around(file, node)) is not None and _inner(
        file, above
    ) is node:
        node = above
    if node is not uses[0]:
        return node
    return None


def _name_of(node: ast.AST) -> str | None:
    """Return ``x`` for ``x = ...``."""
    target = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    if isinstance(target, ast.Name):
        return target.id
    return None


def _lines_of(
    file: ParsedFile, lines: Sequence[ast.stmt], name: str
) -> list[ast.stmt]:
    """The next elementwise lines on a name, each on the result of the one
    before."""
    found: list[ast.stmt] = []
    for statement in lines:
        target = _name_of(statement)
        if (
            target is None
            or not isinstance(statement, ast.Assign)
            or not file.has_own_lines(statement)
        ):
            break
        inner: ast.expr = statement.value
        while (deeper := _inner(file, inner)) is not None:
            inner = deeper
        if (
            inner is statement.value
            or not isinstance(inner, ast.Name)
            or inner.id != name
        ):
            break
        if target != name and file.reads_after(statement, name):
            break
        found.append(statement)
        name = target
    return found


_MOVABLE = frozenset([*_VIEWS, "cat", "stack"])

VIEWS = Rewrite(
    ChangeKind.MOVE_VIEW,
    write,
    fits=lambda line: plain_name(line.shown.op) in _MOVABLE,
    examples=(
        Example(
            "return torch.tanh(x.view(4, -1)) * 2",
            "return (torch.tanh(x) * 2).view(4, -1)",
            Shown("aten::view"),
            sure=False,
        ),
        Example(
            "h = torch.exp(torch.cat([x, y * 2], 1))",
            "h = torch.cat([torch.exp(x), torch.exp(y * 2)], 1)",
            Shown("aten::cat"),
            sure=False,
        ),
        Example(
            "h = x.view(4, -1)\nh = torch.tanh(h)\nreturn h.t()",
            "h = torch.tanh(x)\nh = h.view(4, -1)\nreturn h.t()",
            Shown("aten::view"),
        ),
        Example("h = torch.softmax(x.view(4, -1), 1)", None, Shown("aten::view")),
        Example(
            "h = torch.tanh(torch.cat(y, 1))", None, Shown("aten::cat")
        ),  # parts not written out
        Example("h = torch.add(x.view(4, -1), y)", None, Shown("aten::view")),
    ),
)

PERMUTATIONS = Rewrite(
    ChangeKind.MOVE,
    write,
    fits=lambda line: plain_name(line.shown.op) in _MOVED_ELEMENTS,
    examples=(
        Example(
            "h = torch.flip(x, [0])\nh = torch.tanh(h)\nreturn h + y",
            "h = torch.tanh(x)\nh = torch.flip(h, [0])\nreturn h + y",
            Shown("aten::flip"),
        ),
        Example("h = torch.flip(x, [0])\nreturn h + y", None, Shown("aten::flip")),
    ),
)

REWRITES = (VIEWS, PERMUTATIONS)
