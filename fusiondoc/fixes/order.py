"""Operators moved out of the middle: views, permutations and concatenations behind what is computed of them
element by element, and statements that do something beside computing (a print) behind all of it.

``torch.tanh(x.view(4, -1))`` becomes ``torch.tanh(x).view(4, -1)``; ``torch.tanh(torch.cat([x, y], 1))``
becomes ``torch.cat([torch.tanh(x), torch.tanh(y)], 1)``; ``h = torch.flip(a, [0])`` comes after the lines
that compute each element of ``h`` of its own. What stood between two groups then stands at the edge of one.
"""

from __future__ import annotations

import contextlib
from typing import Iterator, NamedTuple, Sequence

from fusiondoc.diagnosis.changed_statements import SAID
from fusiondoc.diagnosis.edge_moves import EACH
from fusiondoc.diagnosis.operators import PERMUTATIONS, plain_name
from fusiondoc.fixes.edits import Edit, Proposal
from fusiondoc.fixes.fixable import Program, Site
from fusiondoc.fixes.syntax import ParsedFile, walk
from fusiondoc.model.change_plan import ChangeKind

with contextlib.suppress(ImportError):
    import libcst as cst

_VIEWS = frozenset(
    ["view", "reshape", "permute", "transpose", "t", "flatten", "unsqueeze", "squeeze", "contiguous"]
)
_PERMUTATIONS = frozenset([*map(plain_name, PERMUTATIONS), "index_select"])
"""Operators whose results are elements of their input, each at another place."""

_JOINED = frozenset(["torch.cat", "torch.stack", "torch.concat"])
_OWNERS = ("torch", "torch.nn.functional")
_NAMES = EACH | {"silu", "gelu", "hardswish", "softplus", "expm1", "log1p", "reciprocal", "square"}
"""Functions and methods of one tensor that compute each element of its own."""


class _Moved(NamedTuple):
    """An operator that can be moved: its call, and the tensor that it is of."""

    call: cst.Call
    tensor: cst.BaseExpression


def propose(program: Program) -> Iterator[Proposal]:
    """One for each line where such an operator is outside every group, and one for each such statement."""
    for site in (*program.sites, *program.idle_sites):
        name = plain_name(site.row.op)
        kind = ChangeKind.MOVE if name in _PERMUTATIONS else ChangeKind.MOVE_VIEW
        if name in (*_VIEWS, *_PERMUTATIONS, "cat", "stack"):
            for node in site.file.on_line(site.line):
                edits = _moved(site.file, node)
                if edits:
                    title = " ".join(f"{site.file.text(node)}: {site.row.op} after it".split())
                    yield Proposal(kind, title, edits, (site.where,), fewer=True)
                    break
            else:
                yield from _after_lines(site, name, kind)
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
    if not _is_atom(node) and file.meaning(moved.call.func) is None:
        whole = f"({whole})"
    return (file.replaced(node, _again(file, moved, whole)),)


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
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    meaning = file.meaning(node.func)
    if node.func.attr.value not in (*_VIEWS, *_PERMUTATIONS):
        return None
    if meaning is None:
        return _Moved(node, node.func.value)
    first = node.args[0] if node.args else None
    if meaning.rpartition(".")[0] != "torch" or first is None or first.keyword is not None or first.star:
        return None
    return _Moved(node, first.value)


def _again(file: ParsedFile, moved: _Moved, tensor: str) -> str:
    """The call of the operator with another tensor, of the same place in it."""
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


def _after_lines(site: Site, name: str, kind: ChangeKind) -> Iterator[Proposal]:
    """``h = x.view(4, -1)`` and lines that compute each element of ``h`` of its own: the view after them."""
    file = site.file
    for node in file.on_line(site.line):
        line = file.parent(node)
        block = file.parent(line) if line is not None else None
        if not (isinstance(node, cst.Assign) and isinstance(line, cst.SimpleStatementLine)):
            continue
        target, moved = _name_of(node), _movable(file, node.value)
        if moved is None or target is None or not isinstance(block, cst.IndentedBlock) or len(line.body) > 1:
            continue
        rest = block.body[list(block.body).index(line) + 1 :]
        after = _lines_of(file, rest, target)
        put = _put_back(file, moved, target, after, rest[len(after) :], _lead(file, line))
        if put is not None:
            edits = (_without(file, line, node, moved.tensor), put)
            title = " ".join(f"{file.text(node)} after what is computed of its elements".split())
            yield Proposal(kind, title, edits, (site.where,), fewer=True)


def _without(
    file: ParsedFile, line: cst.SimpleStatementLine, node: cst.Assign, tensor: cst.BaseExpression
) -> Edit:
    """The assignment without the operator; where nothing is left to do, its comment alone."""
    if not (isinstance(tensor, cst.Name) and tensor.value == _name_of(node)):
        return file.replaced(node.value, file.whole(tensor))
    comment = line.trailing_whitespace.comment
    if comment is None:
        return Edit(file.source.path, file.start_of_line(line), file.after(line), "")
    start = file.span(node)[0]
    return Edit(file.source.path, start, file.source.text.index("#", file.span(node)[1]), "")


def _put_back(
    file: ParsedFile,
    moved: _Moved,
    target: str,
    lines: Sequence[cst.SimpleStatementLine],
    rest: Sequence[cst.CSTNode],
    lead: str,
) -> Edit | None:
    """The operator in its new place: in the line after those ``lines``, around what that computes element by
    element, else in a line of its own."""
    name = (_name_of(lines[-1].body[0]) if lines else target) or target
    if lines and name != target and _read_after(file, lines[-1], target):
        return None
    around = _around_name(file, rest[0], name) if rest else None
    if around is not None:
        whole = file.text(around)
        if not _is_atom(around) and file.meaning(moved.call.func) is None:
            whole = f"({whole})"
        return file.replaced(around, _again(file, moved, whole))
    if not lines:
        return None
    place = file.after(lines[-1])
    text = f"{lead}{name} = {_again(file, moved, name)}{file.newline}"
    return file.inserted(place, file.ends_line(place) + text)


def _around_name(file: ParsedFile, line: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """The largest expression of a line that computes each element of a name, which is read there alone."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    statement = line.body[0]
    if not isinstance(statement, (cst.Assign, cst.Return)) or statement.value is None:
        return None
    if _name_of(statement) != name and _read_after(file, line, name):
        return None
    uses = [one for one in walk(statement.value) if isinstance(one, cst.Name) and one.value == name]
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
        if target != name and _read_after(file, line, name):
            break
        found.append(line)
        name = target
    return found


def _read_after(file: ParsedFile, line: cst.CSTNode, name: str) -> bool:
    """Whether a name stands behind a line of its function, or in a loop around it."""
    function = file.function_of(line)
    if function is None or any(isinstance(one, (cst.For, cst.While)) for one in file.parents(line)):
        return True
    end = file.span(line)[1]
    return any(
        isinstance(one, cst.Name) and one.value == name and file.span(one)[0] >= end for one in walk(function)
    )


def _lead(file: ParsedFile, line: cst.CSTNode) -> str:
    start = file.start_of_line(line)
    text = file.source.text[start : file.span(line)[0]]
    return text[: len(text) - len(text.lstrip())]


# -- statements that do something beside computing ----------------------------------------------------------


def _statements(program: Program) -> Iterator[Proposal]:
    """A print, a warning or an assignment to an attribute among operators that ran: torch moves no operator
    past it (hasSideEffects of torch/csrc/jit/ir/ir.cpp), so it goes to the end of its block. Tracing records
    none."""
    if program.options.trace:
        return
    for file in program.files:
        ran = sorted(line for path, line in program.lines_that_ran if path == file.source.path)
        for node in file.nodes():
            line, function = file.parent(node), file.function_of(node)
            if not isinstance(line, cst.SimpleStatementLine) or function is None or len(line.body) > 1:
                continue
            at, last = file.line(line), file.last_line(function)
            around = [one for one in ran if file.line(function) < one <= last]
            if not around or not around[0] < at < around[-1] or not _only_says(file, node):
                continue
            block = file.parent(line)
            if isinstance(block, cst.IndentedBlock):
                edits = _to_the_end(file, line, list(block.body)[list(block.body).index(line) + 1 :])
                if edits:
                    title = " ".join(f"{file.text(node)} after what is computed".split())
                    yield Proposal(ChangeKind.SPLIT, title, edits, (file.where(node),))


def _only_says(file: ParsedFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        called = node.value.func
        name = called.value if isinstance(called, cst.Name) else file.meaning(called)
        return name in SAID
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
        return isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)
    return False


def _to_the_end(
    file: ParsedFile, line: cst.SimpleStatementLine, rest: Sequence[cst.CSTNode]
) -> tuple[Edit, ...]:
    """The line cut out, and put after the last line of its block or before its ``return``, whose value is
    computed first."""
    if not rest:
        return ()
    read = {one.value for one in walk(line) if isinstance(one, cst.Name)} - {"self"}
    attributes = {one.attr.value for one in walk(line) if isinstance(one, cst.Attribute)}
    for one in (node for later in rest for node in walk(later)):
        set_here = isinstance(one, cst.AssignTarget) and any(
            isinstance(name, cst.Name) and name.value in read for name in walk(one)
        )
        changed = isinstance(one, cst.AugAssign) and any(
            isinstance(name, cst.Name) and name.value in read for name in walk(one.target)
        )
        same = isinstance(one, cst.Attribute) and one.attr.value in attributes
        if set_here or changed or same:
            return ()
    start, end = file.start_of_line(line), file.after(line)
    text, lead, last = file.source.text[start:end], _lead(file, line), rest[-1]
    if not text.endswith(("\n", "\r")):
        return ()
    cut = Edit(file.source.path, start, end, "")
    if not (isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)):
        place = file.after(last)
        return cut, file.inserted(place, file.ends_line(place) + text)
    returned = last.body[-1]
    if len(last.body) > 1 or returned.value is None:
        return ()
    if isinstance(returned.value, cst.Name):
        return cut, file.inserted(file.start_of_line(last), text)
    first = file.span(returned)[0]
    name, place = file.free_name("result", "computed"), file.after(last)
    back = f"{file.ends_line(place)}{text}{lead}return {name}{file.newline}"
    return cut, Edit(file.source.path, first, first + len("return"), f"{name} ="), file.inserted(place, back)
