"""Statements of the user's program, changed over several lines: what is printed goes behind what is computed,
a number that is read from a tensor stays the tensor, and a view goes behind the line that computes each
element of it.

As in ``changed_lines.py``, only what is sure to mean the same is done, nothing is run, and the changed
file is parsed again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusiondoc.diagnosis.changed_lines import (
    ParsedText,
    dotted,
    functions_of,
    is_alone,
    is_python,
    last_line,
    parsed_file,
    shown_lines,
    statement_at,
)
from fusiondoc.fusers import is_fusible
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import Edit
from fusiondoc.model.operators import OF_EACH_ELEMENT, REDUCTIONS

SAID = frozenset(["print", "warnings.warn"])
"""Calls that do something beside computing: torch moves no operator past them (``hasSideEffects`` of
torch/csrc/jit/ir/ir.cpp, 1.12 to 2.13). NNC of torch 2.13 was seen to move operators past assignments to
attributes and past ``assert``."""


def is_said(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and dotted(call.func) in SAID


# -- prints -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SaidLater:
    """Statements of a block that can go behind what is computed."""

    pairs: frozenset[int]
    """Which pairs of lines they stand between, by their place in what was asked for."""
    edits: tuple[Edit, ...]
    before: str
    after: str
    moved: tuple[tuple[int, str], ...]
    """Line and text of each statement."""


def said_later(text: str, file: str, pairs: Sequence[tuple[int, int]]) -> list[SaidLater]:
    """What is printed between lines that compute, moved behind the last of them; one for each function.

    Args:
        text: of the whole file.
        pairs: the last line of what is computed before, and the first of what is computed after.
    """
    parsed = parsed_file(text)
    if parsed is None:
        return []
    found = []
    for block in (node.body for node in functions_of(parsed)):
        firsts = {}
        for number, pair in enumerate(pairs):
            start, stop = (statement_at(block, line) for line in pair)
            if start is not None and stop is not None and start < stop:
                between = block[start + 1 : stop]
                if any(map(_says, between)) and all(_says(one) or isinstance(one, _QUIET) for one in between):
                    firsts[number] = start
        if firsts:
            said = [one for one in block[min(firsts.values()) + 1 :] if _says(one)]
            made = _behind(parsed, file, block, said)
            if made is not None:
                found.append(replace(made, pairs=frozenset(firsts)))
    return found


def said_among(text: str, file: str, ran: Sequence[int]) -> list[SaidLater]:
    """What is printed, or assigned to an attribute, among lines that compute, moved to the end of its block:
    all of it, else what can go there alone.

    Args:
        ran: lines with operators of the run.
    """
    parsed = parsed_file(text)
    found: list[SaidLater] = []
    for function in functions_of(parsed) if parsed is not None else ():
        own = sorted(line for line in ran if function.lineno < line <= last_line(function))
        for block in _blocks(function):
            said = [one for one in block if _says(one) or _keeps(one)]
            said = [one for one in said if own and own[0] < one.lineno < own[-1]]
            assert parsed is not None
            made = _behind(parsed, file, block, said)
            singly = (_behind(parsed, file, block, [one]) for one in said) if made is None else (made,)
            found += [one for one in singly if one is not None]
    return found


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The body of a function, and the blocks in it that are of no other function."""
    todo: list[ast.AST] = [function]
    while todo:
        node = todo.pop()
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block
                todo += [one for one in block if not isinstance(one, (ast.FunctionDef, ast.ClassDef))]


_QUIET = (ast.Assign, ast.AnnAssign, ast.Assert)


def _says(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and is_said(node.value)


def _keeps(node: ast.stmt) -> bool:
    """``self.last = y``"""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)


def _behind(
    parsed: ParsedText, file: str, block: Sequence[ast.stmt], said: Sequence[ast.stmt]
) -> SaidLater | None:
    """The edits, and the lines that they are about, as they are and as they will be."""
    computed = [i for i, one in enumerate(block) if one not in said and not _returns_name(one)]
    moved = [one for one in said if computed and block.index(one) < computed[-1]]
    last = block[-1]
    if not moved or not all(is_alone(parsed, block, one) for one in (*moved, last)) or last in said:
        return None
    rest = [one for one in block[block.index(moved[0]) :] if one not in moved]
    if any(_says(one) or _may_change(one, moved) for one in rest) or isinstance(last, _LEAVES):
        return None
    numbers = [line for one in moved for line in range(one.lineno, last_line(one) + 1)]
    lines = [parsed.lines[number - 1] for number in numbers]
    said_again = "\n".join(lines)
    first, end = parsed.lines[last.lineno - 1], parsed.lines[last_line(last) - 1]
    edits = [Edit(file, number, line, "") for number, line in zip(numbers, lines)]
    lead = first[: len(first) - len(first.lstrip())]
    if isinstance(last, ast.Return) and not _returns_name(last):
        name = next((one for one in ("result", "computed") if one not in parsed.names), None)
        if name is None:
            return None
        named = f"{lead}{name} =" + first[len(lead) + len("return") :]
        back = f"{said_again}\n{lead}return {name}"
        if last.lineno == last_line(last):
            edits.append(Edit(file, last.lineno, first, f"{named}\n{back}"))
        else:
            edits.append(Edit(file, last.lineno, first, named))
            edits.append(Edit(file, last_line(last), end, f"{end}\n{back}"))
    elif isinstance(last, ast.Return):
        edits.append(Edit(file, last.lineno, first, f"{said_again}\n{first}"))
    else:
        edits.append(Edit(file, last_line(last), end, f"{end}\n{said_again}"))
    if not is_python(parsed, edits):
        return None
    shown = shown_lines(parsed, edits, moved[0].lineno, last_line(last))
    texts = tuple((one.lineno, _text(parsed, one)) for one in moved)
    return SaidLater(frozenset(), tuple(edits), *shown, texts)


_LEAVES = (ast.Continue, ast.Break, ast.Raise)


def _text(parsed: ParsedText, node: ast.stmt) -> str:
    lines = parsed.lines[node.lineno - 1 : last_line(node)]
    _, end = parsed.span(node)
    end = parsed.column(last_line(node), node.end_col_offset or 0)
    return " ".join("\n".join([*lines[:-1], lines[-1][:end]]).split())


def _returns_name(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Return)
        and isinstance(node.value, (ast.Name, ast.Constant))
        and node.lineno == last_line(node)
    )


def _may_change(later: ast.stmt, said: Sequence[ast.stmt]) -> bool:
    """Whether a statement behind may change what would be printed, or not come to its end: names bound again,
    tensors in place (which changes no shape)."""
    inside = [one for statement in said for one in ast.walk(statement)]
    if any(isinstance(one, ast.Call) and not is_said(one) and not _only_reads(one) for one in inside):
        return True
    names = {one.id for one in inside if isinstance(one, ast.Name)} - {"print", "warnings", "self"}
    values = any(map(_reads_values, said))
    attributes = {one.attr for one in inside if isinstance(one, ast.Attribute)}
    kept = {one.attr for one in inside if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    if isinstance(later, ast.Return) and later.value is None:
        return True
    for node in ast.walk(later):
        if isinstance(node, (ast.Return, *_LEAVES)) and node is not later:
            return True
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if stored and isinstance(node, ast.Name) and node.id in names:
            return True
        if isinstance(node, ast.Attribute) and (node.attr in kept or (stored and node.attr in attributes)):
            return True
        if values and (isinstance(node, ast.AugAssign) or (stored and isinstance(node, ast.Subscript))):
            return True
        if values and isinstance(node, ast.Call):
            called = dotted(node.func)
            in_place = {k.arg for k in node.keywords} & _IN_PLACE
            if called.endswith("_") or called.startswith("self.") or in_place:
                return True
    return False


_OF_NO_VALUES = frozenset(["shape", "dtype", "device", "ndim", "size", "dim", "numel", "__class__"])


def _reads_values(said: ast.stmt) -> bool:
    """Whether it reads more of a name than ``x.shape`` and the like."""
    plain = {
        one.value
        for one in ast.walk(said)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.attr in _OF_NO_VALUES
    }
    return any(
        isinstance(one, ast.Name) and one not in plain and one.id not in _NOT_READ for one in ast.walk(said)
    )


_NOT_READ = frozenset(["print", "warnings", "self", "len", "str", "int", "float"])

_IN_PLACE = frozenset(["inplace", "out"])

_READS = frozenset(
    [
        *("len", "float", "int", "str", "bool", "item", "size", "dim", "numel", "tolist", "detach"),
        *("max", "min", "sum", "mean", "std", "norm", "abs"),
    ]
)


def _only_reads(call: ast.Call) -> bool:
    """Whether a call among what is printed neither changes anything nor takes random numbers."""
    return dotted(call.func).rpartition(".")[2] in _READS or (
        isinstance(call.func, ast.Attribute) and call.func.attr in _READS
    )


# -- numbers ------------------------------------------------------------------------------------------------

_OF_ALL = frozenset(op.rpartition(":")[2] for op in REDUCTIONS)
"""Methods and functions whose result without further arguments has no dimensions."""


def number_kept(text: str, file: str, line: int, detached: bool) -> tuple[tuple[Edit, ...], str, str] | None:
    """The tensor instead of the number that is read from it (``.item()``), where every use of the number
    computes with a tensor, or prints it; with the expression before and after.

    Args:
        line: of an operator that takes the number.
        detached: gradients are recorded: as the number, the tensor takes no part in them.
    """
    parsed = parsed_file(text)
    if parsed is None:
        return None
    for function in functions_of(parsed):
        if function.lineno <= line <= last_line(function):
            for read, uses in _numbers_at(parsed, function, line):
                made = _kept(parsed, file, function, read, uses, detached)
                if made is not None:
                    return made
    return None


def _numbers_at(
    parsed: ParsedText, function: ast.FunctionDef, line: int
) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    """Calls of ``.item()`` whose number a line takes, each with all uses of the number."""
    every = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    here = [node for node in parsed.nodes.get(line, ()) if isinstance(node, ast.expr)]
    for node in here:
        if isinstance(node, ast.Call) and _reads(node) and isinstance(parsed.parents[node], ast.BinOp):
            yield node, [node]
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        stores = [one for one in every if one.id == node.id and not isinstance(one.ctx, ast.Load)]
        made = parsed.parents[stores[0]] if len(stores) == 1 else None
        if not isinstance(made, ast.Assign) or len(made.targets) != 1:
            continue
        if isinstance(made.value, ast.Call) and _reads(made.value) and made.targets[0] is stores[0]:
            yield made.value, [one for one in every if one.id == node.id and one is not stores[0]]


def _reads(call: ast.Call) -> bool:
    """``x.max().item()`` and ``torch.max(x).item()``, of a tensor without dimensions."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "item" or call.args or call.keywords:
        return False
    of = func.value
    if call.lineno != (call.end_lineno or 0) or not isinstance(of, ast.Call) or of.keywords:
        return False
    owner, _, name = dotted(of.func).rpartition(".")
    return name in _OF_ALL and len(of.args) == (owner == "torch")


def _kept(
    parsed: ParsedText,
    file: str,
    function: ast.FunctionDef,
    read: ast.Call,
    uses: Sequence[ast.expr],
    detached: bool,
) -> tuple[tuple[Edit, ...], str, str] | None:
    func = read.func
    assert isinstance(func, ast.Attribute)
    tensor = parsed.text(func.value)
    kept = f"{tensor}.detach()" if detached else tensor
    pieces = {read.lineno: [(*parsed.span(read), kept)]}
    for use in uses:
        above = parsed.parents[use]
        if (
            isinstance(above, ast.Call)
            and is_said(above)
            and use in above.args
            and dotted(above.func) == "print"
        ):
            _, end = parsed.span(use)
            pieces.setdefault(use.lineno, []).append((end, end, ".item()"))
            continue
        usual = isinstance(above, ast.BinOp) and isinstance(above.op, (ast.Add, ast.Sub, ast.Mult, ast.Div))
        if not usual or not isinstance(above, ast.BinOp):
            return None
        if not _is_tensor(function, above.right if above.left is use else above.left):
            return None
    edits = []
    for line, of in sorted(pieces.items()):
        after = parsed.lines[line - 1]
        for start, end, text in sorted(of, reverse=True):
            after = after[:start] + text + after[end:]
        edits.append(Edit(file, line, parsed.lines[line - 1], after))
    return (tuple(edits), f"{tensor}.item()", kept) if is_python(parsed, edits) else None


def _is_tensor(function: ast.FunctionDef, node: ast.expr, deep: int = 6) -> bool:
    """Whether an expression is a tensor for sure: an argument without a type, or computed of tensors."""
    if not deep:
        return False
    if isinstance(node, ast.BinOp):
        return _is_tensor(function, node.left, deep - 1) or _is_tensor(function, node.right, deep - 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner, _, name = dotted(node.func).rpartition(".")
        plain = is_fusible(f"aten::{name}")
        if owner in ("torch", "F", "torch.nn.functional"):
            return plain
        return plain and _is_tensor(function, node.func.value, deep - 1)
    if not isinstance(node, ast.Name):
        return False
    stores = [
        one
        for one in ast.walk(function)
        if isinstance(one, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == node.id for name in one.targets)
    ]
    bound = [name for name in ast.walk(function) if isinstance(name, ast.Name) and name.id == node.id]
    if sum(isinstance(name.ctx, ast.Store) for name in bound) != len(stores):
        return False
    given = function.args
    without = given.args[: len(given.args) - len(given.defaults)]  # a default may be a number
    for argument in without:
        if argument.arg == node.id and not stores:
            told = argument.annotation
            return argument.arg != "self" and (told is None or dotted(told).rpartition(".")[2] == "Tensor")
    return bool(stores) and all(_is_tensor(function, one.value, deep - 1) for one in stores)


# -- what only places elements ------------------------------------------------------------------------------


def placed_later(text: str, file: str, line: int, name: str) -> tuple[tuple[Edit, ...], str, str] | None:
    """``h = x.view(4, 8)`` and a next line that computes each element of ``h``: the view around that line's
    value; with the lines before and after.

    Args:
        name: of the operator that only places elements, such as ``view`` or ``flip``.
    """
    parsed = parsed_file(text)
    for function in functions_of(parsed) if parsed is not None else ():
        block = function.body
        place = statement_at(block, line)
        if parsed is None or place is None or place + 1 >= len(block):
            continue
        view, last = block[place], block[place + 1]
        if not isinstance(view, ast.Assign) or not isinstance(last, (ast.Assign, ast.Return)):
            return None
        whole = all(one.lineno == last_line(one) and is_alone(parsed, block, one) for one in (view, last))
        target, call, value = view.targets[0], view.value, last.value
        if not whole or len(view.targets) != 1 or not isinstance(target, ast.Name) or value is None:
            return None
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr != name
        ):
            return None
        of = dotted(call.func) == f"torch.{name}"
        tensor = (call.args[0] if call.args else None) if of else call.func.value
        if not isinstance(tensor, ast.Name) or not _each_element_of(value, target.id):
            return None
        rebound = isinstance(last, ast.Assign) and dotted(last.targets[0]) == target.id
        behind = [one for later in block[place + 2 :] for one in ast.walk(later)]
        if not rebound and any(isinstance(one, ast.Name) and one.id == target.id for one in behind):
            return None
        start, end = parsed.span(tensor)
        first, stop = parsed.span(call)
        row = parsed.lines[view.lineno - 1]
        computed = parsed.text(value)
        computed = computed if of or isinstance(value, ast.Call) else f"({computed})"
        placed = f"{row[first:start]}{computed}{row[end:stop]}"
        kept = "" if tensor.id == target.id else row[:first] + tensor.id + row[stop:]
        after = parsed.lines[last.lineno - 1]
        value_start, value_end = parsed.span(value)
        edits = [
            Edit(file, view.lineno, row, kept),
            Edit(file, last.lineno, after, after[:value_start] + placed + after[value_end:]),
        ]
        if not is_python(parsed, edits):
            return None
        return tuple(edits), *shown_lines(parsed, edits, view.lineno, last.lineno)
    return None


def _each_element_of(node: ast.expr, name: str, deep: int = 0) -> bool:
    """Whether an expression computes each element of a name, and of nothing else but numbers."""
    if isinstance(node, ast.Name):
        return deep > 0 and node.id == name
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        sides = [one for one in (node.left, node.right) if not isinstance(one, ast.Constant)]
        return len(sides) == 1 and _each_element_of(sides[0], name, deep + 1)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in OF_EACH_ELEMENT
    ):
        if node.keywords:
            return False
        if dotted(node.func.value) == "torch":
            return len(node.args) == 1 and _each_element_of(node.args[0], name, deep + 1)
        return not node.args and _each_element_of(node.func.value, name, deep + 1)
    return False
