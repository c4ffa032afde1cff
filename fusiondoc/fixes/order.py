"""Operators moved out of the middle: views, permutations and concatenations behind what is computed of them
element by element, and statements that do something beside computing (a print) behind all of it.

``torch.tanh(x.view(4, -1))`` becomes ``torch.tanh(x).view(4, -1)``; ``torch.tanh(torch.cat([x, y], 1))``
becomes ``torch.cat([torch.tanh(x), torch.tanh(y)], 1)``; ``h = torch.flip(a, [0])`` comes after the lines
that compute each element of ``h`` of its own. What stood between two groups then stands at the edge of one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fusiondoc.diagnosis.changed_statements import SAID, said_among
from fusiondoc.diagnosis.operators import OF_EACH_ELEMENT, PERMUTATIONS, plain_name
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.fixes.source_file import Edit, ParsedFile, dotted, walk
from fusiondoc.model.change_plan import ChangeKind

with contextlib.suppress(ImportError):
    import libcst as cst

_VIEWS = frozenset(
    ["view", "reshape", "permute", "transpose", "t", "flatten", "unsqueeze", "squeeze", "contiguous"]
)
_PERMUTATIONS = frozenset([*map(plain_name, PERMUTATIONS), "index_select"])
"""Operators whose results are elements of their input, each at another place."""

_JOINED, _OWNERS = ("torch.cat", "torch.stack", "torch.concat"), ("torch", "torch.nn.functional")
_NAMES = OF_EACH_ELEMENT | {"silu", "gelu", "hardswish", "softplus", "expm1", "log1p", "reciprocal", "square"}
"""Functions and methods of one tensor that compute each element of its own."""


class _Moved(NamedTuple):
    """Operators that can be moved, one of the other: the call of the last, the tensor that the first is of,
    and whether the first is a method of it."""

    call: cst.Call
    tensor: cst.BaseExpression
    of_method: bool


def propose(program: Program) -> Iterator[Proposal]:
    """One for each line where such an operator is outside every group, and one for each such statement."""
    for site in (*program.sites, *program.idle_sites):
        name = plain_name(site.row.op)
        kind = ChangeKind.MOVE if name in _PERMUTATIONS else ChangeKind.MOVE_VIEW
        if name in (*_VIEWS, *_PERMUTATIONS, "cat", "stack"):
            yield from _after_lines(site, kind)
            for node in site.file.on_line(site.line):
                edits = _moved(site.file, node)
                if edits:
                    title = " ".join(f"{site.file.text(node)}: {site.row.op} after it".split())
                    yield Proposal(kind, title, edits, (site.where,), fewer=True)
                    break
    yield from _statements(program)


# -- within an expression -----------------------------------------------------------------------------------


def _moved(file: ParsedFile, node: cst.CSTNode) -> tuple[Edit, ...]:
    """The edits if the node is the outermost expression that computes each element of a moved operator's."""
    if not isinstance(node, cst.BaseExpression) or _inner(file, node) is None:
        return ()
    above = file.parent(node)
    above = file.parent(above) if isinstance(above, (cst.Arg, cst.Attribute)) else above
    if isinstance(above, cst.BaseExpression) and _inner(file, above) is not None:
        return ()  # an expression around it does too
    found: cst.BaseExpression = node
    while (inner := _inner(file, found)) is not None:
        found = inner
    if isinstance(found, cst.Call) and file.meaning(found.func) in _JOINED:
        return _around_parts(file, node, found)
    moved = _movable(file, found)
    if moved is None:
        return ()
    whole = _with(file, node, moved.call, moved.tensor)
    return (file.replaced(node, _again(file, moved, whole, _is_atom(node))),)


def _with(
    file: ParsedFile, node: cst.BaseExpression, old: cst.BaseExpression, new: cst.BaseExpression
) -> str:
    """The expression with another one in the place of one in it."""
    first, last = file.span(node)
    start, end = file.span(old)
    text, tensor = file.source.text, file.text(new)
    if not _is_atom(new) and not isinstance(file.parent(old), cst.Arg):
        tensor = f"({tensor})"
    return f"{text[first:start]}{tensor}{text[end:last]}"


def _is_atom(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))


def _inner(file: ParsedFile, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The only tensor of an expression that computes each element of its own."""
    if isinstance(node, cst.Call):
        owner, _, name = (file.meaning(node.func) or "").rpartition(".")
        plain = [one for one in node.args if one.keyword is None and not one.star]
        if owner in _OWNERS and name in _NAMES and len(node.args) == len(plain) == 1:
            return plain[0].value
        method = node.func
        is_method = isinstance(method, cst.Attribute) and file.meaning(method) is None
        if is_method and isinstance(method, cst.Attribute) and method.attr.value in _NAMES and not node.args:
            return method.value
        return None
    if isinstance(node, cst.BinaryOperation):
        usual = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)
        if isinstance(node.operator, usual):
            if _is_number(node.right):
                return node.left
            if _is_number(node.left):
                return node.right
        return None
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return None if _is_number(node.expression) else node.expression
    return None


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus) and _is_number(node.expression)
    return isinstance(node, (cst.Integer, cst.Float))


def _movable(file: ParsedFile, node: cst.BaseExpression) -> _Moved | None:
    """``torch.flip(x.view(4, -1), [0])``: both, which are of ``x``."""
    moved = _one_movable(file, node)
    while moved is not None and (inner := _one_movable(file, moved.tensor)) is not None:
        moved = _Moved(moved.call, inner.tensor, inner.of_method)
    return moved


def _one_movable(file: ParsedFile, node: cst.BaseExpression) -> _Moved | None:
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    if node.func.attr.value not in (*_VIEWS, *_PERMUTATIONS):
        return None
    meaning = file.meaning(node.func)
    if meaning is None:
        return _Moved(node, node.func.value, True)
    first = node.args[0] if node.args else None
    if meaning.rpartition(".")[0] != "torch" or first is None or first.keyword is not None or first.star:
        return None
    return _Moved(node, first.value, False)


def _again(file: ParsedFile, moved: _Moved, tensor: str, is_atom: bool = True) -> str:
    """The calls of the operators with another tensor, in the same place of the first."""
    if moved.of_method and not is_atom:
        tensor = f"({tensor})"
    start, end = file.span(moved.call)
    first, last = file.span(moved.tensor)
    before, after = file.source.text[start:first], file.source.text[last:end]
    if moved.tensor.lpar and before.endswith("("):
        before, after = before[:-1], after[1:] if after.startswith(")") else after
    return f"{before}{tensor}{after}"


def _around_parts(file: ParsedFile, node: cst.BaseExpression, joined: cst.Call) -> tuple[Edit, ...]:
    """What is computed of it around each part: the parts have to be written out in a list."""
    parts = joined.args[0].value if joined.args else None
    if not isinstance(parts, (cst.List, cst.Tuple)) or any(
        not isinstance(one, cst.Element) for one in parts.elements
    ):
        return ()
    start, end = file.span(joined)
    made, place = [], start
    for one in parts.elements:
        first, last = file.span(one.value)
        made += [file.source.text[place:first], _with(file, node, joined, one.value)]
        place = last
    return (file.replaced(node, "".join([*made, file.source.text[place:end]])),)


# -- over lines ---------------------------------------------------------------------------------------------


def _after_lines(site: Site, kind: ChangeKind) -> Iterator[Proposal]:
    """``h = x.view(4, -1)``, more such lines on ``h``, and lines that compute each element of it of its own:
    what is moved comes after them."""
    file = site.file
    for node in file.on_line(site.line):
        line = file.parent(node)
        block = file.parent(line) if line is not None else None
        if not isinstance(node, cst.Assign) or not isinstance(block, cst.IndentedBlock):
            continue
        lines = block.body[next(place for place, one in enumerate(block.body) if one is line) :]
        stack = _stack(file, lines)
        found = _placed(file, stack, lines[len(stack) :])
        if found:
            texts = [file.text(one.node) for one in stack]
            title = " ".join(f"{'; '.join(texts)} after what is computed of its elements".split())
            where = tuple(file.where(one.line) for one in stack)
            yield Proposal(kind, title, found, where, fewer=True)


class _Line(NamedTuple):
    """A line that gives a moved operator's result a name."""

    line: cst.SimpleStatementLine
    node: cst.Assign
    moved: _Moved
    target: str
    computed: str
    """What the line computes without the operator."""


def _stack(file: ParsedFile, lines: Sequence[cst.CSTNode]) -> list[_Line]:
    """The first line, and those directly after it that move the result of the one before, which nothing else
    reads."""
    found: list[_Line] = []
    for line in lines:
        node = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        target = _name_of(node) if node is not None else None
        moved = _behind_elements(file, node.value, bool(found)) if isinstance(node, cst.Assign) else None
        if not isinstance(line, cst.SimpleStatementLine) or moved is None or target is None:
            break
        assert isinstance(node, cst.Assign)
        if found:
            name = found[-1].target
            alone = list(_reads(line, name)) == [moved.tensor]
            if not alone or (name != target and file.reads_after(line, name)):
                break
        computed = _with(file, node.value, moved.call, moved.tensor)
        found.append(_Line(line, node, moved, target, computed))
    return found


def _behind_elements(file: ParsedFile, value: cst.BaseExpression, bare: bool) -> _Moved | None:
    """``torch.flip(x, [0])`` in ``torch.flip(x, [0]) * 2``, unless it has to be all."""
    found: cst.BaseExpression | None = value
    while found is not None:
        moved = _movable(file, found)
        if moved is not None:
            return moved if found is value or not bare else None
        found = _inner(file, found)
    return None


def _placed(file: ParsedFile, stack: Sequence[_Line], rest: Sequence[cst.CSTNode]) -> tuple[Edit, ...]:
    """The lines of the stack taken out, and their operators in their new place: around what the line after
    those that compute element by element computes so itself, else in a line of their own."""
    if not stack:
        return ()
    target, tensor = stack[-1].target, stack[0].moved.tensor
    before = list(_that_leave(rest, target))
    rest = rest[len(before) :]
    lines = _lines_of(file, rest, target)
    name = (_name_of(lines[-1].body[0]) if lines else target) or target
    if lines and name != target and file.reads_after(lines[-1], target):
        return ()
    others = list(_that_leave(rest[len(lines) :], name))
    behind = rest[len(lines) + len(others) :]
    around = _around_name(file, behind[0], name) if behind else None
    passed = (*before, *lines, *(others if around is not None else ()))
    read = set().union(*(_read_beside(one.moved) for one in stack))
    own_name = {tensor.value} if isinstance(tensor, cst.Name) and (before or not lines) else set()
    if {_name_of(one.body[0]) for one in passed} & (read | own_name):
        return ()
    edits = [_without(file, one) for one in stack]
    own = tensor if isinstance(tensor, cst.Name) and stack[0].moved.call is stack[0].node.value else None
    use = next((one for one in _reads(lines[0] if lines else around, target)), None)
    if own is None:
        edits[0:1] = _given(file, stack[0], target)
    elif lines and use is not None and own.value != target:
        edits.append(file.replaced(use, own.value))
    if around is not None:
        whole, is_atom = file.text(around), _is_atom(around)
        if own is not None and use is not None and not lines:
            whole = _with(file, around, use, own)
        return (*edits, file.replaced(around, _all_again(file, stack, whole, is_atom)))
    if not lines:
        return ()
    end = file.after(lines[-1])
    text = f"{file.lead(stack[0].line)}{name} = {_all_again(file, stack, name, True)}{file.newline}"
    return (*edits, file.inserted(end, file.ends_line(end) + text))


def _that_leave(lines: Sequence[cst.CSTNode], name: str) -> Iterator[cst.SimpleStatementLine]:
    """The next lines that give something to a name, or print, and leave another name alone."""
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return
        only = line.body[0]
        called = only.value.func if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) else None
        names = {one.value for one in walk(line) if isinstance(one, cst.Name)}
        if name in names or (_name_of(only) is None and dotted(called) not in SAID):
            return
        yield line


def _given(file: ParsedFile, one: _Line, target: str) -> Iterator[Edit]:
    """The line with what its operator is of under the name of the last one's result."""
    if target != one.target:
        yield file.replaced(one.node.targets[0].target, target)
    yield file.replaced(one.node.value, one.computed)


def _reads(node: cst.CSTNode | None, name: str) -> Iterator[cst.Name]:
    """Where a name is read in a line or expression."""
    line = node.body[0] if isinstance(node, cst.SimpleStatementLine) else node
    value = line.value if isinstance(line, cst.Assign) else line
    for one in walk(value) if value is not None else ():
        if isinstance(one, cst.Name) and one.value == name:
            yield one


def _read_beside(moved: _Moved) -> set[str]:
    """Names that the calls read beside the tensor."""
    inside = set(walk(moved.tensor))
    return {one.value for one in walk(moved.call) if isinstance(one, cst.Name) and one not in inside}


def _all_again(file: ParsedFile, stack: Sequence[_Line], whole: str, is_atom: bool) -> str:
    for one in stack:
        whole, is_atom = _again(file, one.moved, whole, is_atom), True
    return whole


def _without(file: ParsedFile, one: _Line) -> Edit:
    """The line taken out; of one with a comment that stays."""
    comment = one.line.trailing_whitespace.comment
    if comment is None:
        return Edit(file.source.path, file.start_of_line(one.line), file.after(one.line), "")
    start, end = file.span(one.node)
    return Edit(file.source.path, start, file.source.text.index("#", end), "")


def _around_name(file: ParsedFile, line: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """The largest expression of a line that computes each element of a name, which is read there alone."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    statement = line.body[0]
    if not isinstance(statement, (cst.Assign, cst.Return)) or statement.value is None:
        return None
    if _name_of(statement) != name and file.reads_after(line, name):
        return None
    uses = list(_reads(line, name))
    if len(uses) != 1:
        return None
    node: cst.BaseExpression = uses[0]
    while True:
        above = file.parent(node)
        above = file.parent(above) if isinstance(above, (cst.Arg, cst.Attribute)) else above
        if not isinstance(above, cst.BaseExpression) or _inner(file, above) is not node:
            return node if node is not uses[0] else None
        node = above


def _name_of(node: cst.CSTNode) -> str | None:
    """``x`` of ``x = ...``."""
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
        return target.value if isinstance(target, cst.Name) else None
    return None


def _lines_of(file: ParsedFile, lines: Sequence[cst.CSTNode], name: str) -> list[cst.SimpleStatementLine]:
    """The next lines that compute each element of the name of its own, one of the other."""
    found: list[cst.SimpleStatementLine] = []
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            break
        statement = line.body[0]
        target = _name_of(statement)
        if target is None or not isinstance(statement, cst.Assign):
            break
        inner: cst.BaseExpression | None = statement.value
        while inner is not None and (deeper := _inner(file, inner)) is not None:
            inner = deeper
        if inner is statement.value or not isinstance(inner, cst.Name) or inner.value != name:
            break
        if target != name and file.reads_after(line, name):
            break
        found.append(line)
        name = target
    return found


# -- statements that do something beside computing ----------------------------------------------------------


def _statements(program: Program) -> Iterator[Proposal]:
    """A print, a warning or an assignment to an attribute among operators that ran goes to the end of its
    block. Tracing records none."""
    if program.options.trace:
        return
    for file in program.files:
        ran = [line for path, line in program.lines_that_ran if path == file.source.path]
        for one in said_among(file.source.text, str(file.source.path), ran):
            title = f"{'; '.join(text for _, text in one.moved)} after what is computed"
            where = tuple(f"{file.source.path}:{line}" for line, _ in one.moved)
            yield Proposal(ChangeKind.SPLIT, title, tuple(file.of_lines(one.edits)), where)
