"""Statements of the user's program, changed over several lines: what is printed goes behind what is computed,
and a number that is read from a tensor stays the tensor.

As in ``changed_lines.py``, only what is sure to mean the same is done, nothing is run, and the changed
file is parsed again.
"""

from __future__ import annotations

import ast
from typing import Iterator, Sequence

from fusiondoc.diagnosis.changed_lines import ParsedText, parsed_file
from fusiondoc.diagnosis.operators import is_fusible
from fusiondoc.model.change_plan import Edit
from fusiondoc.model.quick_dataclass import dataclass

SAID = frozenset(["print", "warnings.warn"])
"""Calls that do something beside computing: torch moves no operator past them (``hasSideEffects`` of
torch/csrc/jit/ir/ir.cpp, 1.12 to 2.13). NNC of torch 2.13 was seen to move operators past assignments to
attributes and past ``assert``."""


def is_said(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and dotted(call.func) in SAID


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


# -- prints -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SaidLater:
    """Statements of a function that can go behind what is computed."""

    pairs: frozenset[int]
    """Which pairs of lines they stand between, by their place in what was asked for."""
    edits: tuple[Edit, ...]
    before: str
    after: str


def said_later(text: str, file: str, pairs: Sequence[tuple[int, int]]) -> list[SaidLater]:
    """What is printed between lines that compute, moved behind the last of them; one for each function.

    Args:
        text: of the whole file.
        pairs: the last line of what is computed before, and the first of what is computed after.
    """
    parsed = parsed_file(text)
    if parsed is None:
        return []
    blocks = [node.body for node in functions_of(parsed)]
    found = []
    for block in blocks:
        firsts = {}
        for number, pair in enumerate(pairs):
            start, stop = (statement_at(block, line) for line in pair)
            if start is not None and stop is not None and start < stop:
                between = block[start + 1 : stop]
                if any(map(_says, between)) and all(_says(one) or isinstance(one, _QUIET) for one in between):
                    firsts[number] = start
        if firsts:
            made = _behind(parsed, file, block, min(firsts.values()) + 1)
            if made is not None:
                found.append(SaidLater(frozenset(firsts), *made))
    return found


_QUIET = (ast.Assign, ast.AnnAssign, ast.Assert)


def functions_of(parsed: ParsedText) -> list[ast.FunctionDef]:
    around = dict.fromkeys(node for node in parsed.parents.values() if isinstance(node, ast.FunctionDef))
    return list(around)


def last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def statement_at(block: Sequence[ast.stmt], line: int) -> int | None:
    """The statement, alone on its lines, that a line is of."""
    found = [i for i, one in enumerate(block) if one.lineno <= line <= last_line(one)]
    return found[0] if len(found) == 1 else None


def _says(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and is_said(node.value)


def _behind(
    parsed: ParsedText, file: str, block: Sequence[ast.stmt], start: int
) -> tuple[tuple[Edit, ...], str, str] | None:
    """The edits, and the lines that they are about, as they are and as they will be."""
    computed = [i for i, one in enumerate(block) if not _says(one) and not _returns_name(one)]
    moved = [one for one in block[start : computed[-1]] if _says(one)]
    rest = [one for one in block[start:] if not _says(one)]
    last = block[-1]
    alone = all(one.lineno == last_line(one) and is_alone(parsed, block, one) for one in moved)
    if not moved or not alone or not is_alone(parsed, block, last) or _says(last):
        return None
    if any(_may_change(one, moved) for one in rest):
        return None
    lines = [parsed.lines[one.lineno - 1] for one in moved]
    said = "\n".join(lines)
    first, end = parsed.lines[last.lineno - 1], parsed.lines[last_line(last) - 1]
    edits = [Edit(file, one.lineno, line, "") for one, line in zip(moved, lines)]
    lead = first[: len(first) - len(first.lstrip())]
    if isinstance(last, ast.Return) and not _returns_name(last):
        name = next((one for one in ("result", "computed") if one not in parsed.names), None)
        if name is None:
            return None
        named = f"{lead}{name} =" + first[len(lead) + len("return") :]
        back = f"{said}\n{lead}return {name}"
        if last.lineno == last_line(last):
            edits.append(Edit(file, last.lineno, first, f"{named}\n{back}"))
        else:
            edits.append(Edit(file, last.lineno, first, named))
            edits.append(Edit(file, last_line(last), end, f"{end}\n{back}"))
    elif isinstance(last, ast.Return):
        edits.append(Edit(file, last.lineno, first, f"{said}\n{first}"))
    else:
        edits.append(Edit(file, last_line(last), end, f"{end}\n{said}"))
    if not is_python(parsed, edits):
        return None
    return tuple(edits), *shown_lines(parsed, edits, moved[0].lineno, last_line(last))


_MOST_SHOWN = 8
"""Lines of a function that are shown; of a longer one those that change."""


def shown_lines(parsed: ParsedText, edits: Sequence[Edit], first: int, last: int) -> tuple[str, str]:
    """The lines without indentation, and the same changed."""
    changed = {edit.line: edit.after for edit in edits}
    before, after = [], []
    for line in range(first, last + 1):
        if line in changed or last - first < _MOST_SHOWN:
            before.append(parsed.lines[line - 1].strip())
            after += [row.strip() for row in changed.get(line, parsed.lines[line - 1]).split("\n")]
        elif before[-1] != "...":
            before.append("...")
            after.append("...")
    return "\n".join(row for row in before if row), "\n".join(row for row in after if row)


def _returns_name(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Return)
        and isinstance(node.value, (ast.Name, ast.Constant))
        and node.lineno == last_line(node)
    )


def is_alone(parsed: ParsedText, block: Sequence[ast.stmt], node: ast.stmt) -> bool:
    line = parsed.lines[node.lineno - 1]
    start = parsed.column(node.lineno, node.col_offset)
    others = [one for one in block if one is not node and one.lineno <= last_line(node)]
    return not line[:start].strip() and all(last_line(one) < node.lineno for one in others)


def _may_change(later: ast.stmt, said: Sequence[ast.stmt]) -> bool:
    """Whether a statement behind may change what would be printed: names bound again, tensors in place."""
    inside = [one for statement in said for one in ast.walk(statement)]
    if any(isinstance(one, ast.Call) and not is_said(one) and not _only_reads(one) for one in inside):
        return True
    names = {one.id for one in inside if isinstance(one, ast.Name)} - {"print", "warnings"}
    attributes = {one.attr for one in inside if isinstance(one, ast.Attribute)}
    if isinstance(later, ast.Return) and later.value is None:
        return True
    for node in ast.walk(later):
        if isinstance(node, ast.Return) and node is not later:
            return True
        if not names:
            continue
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.AugAssign) or (stored and isinstance(node, ast.Subscript)):
            return True
        if stored and isinstance(node, ast.Name) and node.id in names:
            return True
        if stored and isinstance(node, ast.Attribute) and node.attr in attributes:
            return True
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            if (
                called.endswith("_")
                or called.startswith("self.")
                or {k.arg for k in node.keywords} & _IN_PLACE
            ):
                return True
    return False


_IN_PLACE = frozenset(["inplace", "out"])

_READS = frozenset(
    [
        *("len", "float", "int", "str", "bool", "item", "size", "dim", "numel", "tolist"),
        *("max", "min", "sum", "mean", "std", "norm", "abs"),
    ]
)


def _only_reads(call: ast.Call) -> bool:
    """Whether a call among what is printed neither changes anything nor takes random numbers."""
    return dotted(call.func).rpartition(".")[2] in _READS or (
        isinstance(call.func, ast.Attribute) and call.func.attr in _READS
    )


def is_python(parsed: ParsedText, edits: Sequence[Edit]) -> bool:
    lines = list(parsed.lines)
    for edit in edits:
        lines[edit.line - 1] = edit.after
    try:
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


# -- numbers ------------------------------------------------------------------------------------------------

_OF_ALL = frozenset(["max", "min", "sum", "mean", "amax", "amin", "std", "var", "norm", "prod", "median"])
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
