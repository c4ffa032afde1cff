"""A line of the user's program, changed for real: out of place, a flag, or an operator written by a recipe.

Only what can be done within one line and is sure to mean the same is done; for all else the plan shows the
general form. Nothing is run or imported: the file is parsed (``ast``), and the changed line is parsed again.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from fusiondoc.diagnosis.recipes import ALL_DIMENSIONS, Recipe
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import Edit
from fusiondoc.model.operators import CALLED_BY, FLAGS, ONLY_IN_PLACE, is_in_place, sign_of
from fusiondoc.model.report import Program
from fusiondoc.model.signs import NODE_OF_SIGN
from fusiondoc.parsers.ir.types import TensorType, parse_type

_NAMESPACES = frozenset(["torch", "F", "functional", "nn", "special", "linalg", "nnf"])

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Tuple)

Piece = tuple[int, int, str]
"""Columns of a line (from, to) and what takes their place."""


@dataclass(frozen=True)
class ParsedText:
    """A parsed file of the user's."""

    lines: tuple[str, ...]
    nodes: Mapping[int, tuple[ast.AST, ...]]
    """Line -> the nodes that begin and end on it."""
    parents: Mapping[ast.AST, ast.AST]
    names: frozenset[str]

    def column(self, line: int, offset: int) -> int:
        """``ast`` counts bytes of UTF-8."""
        return len(self.lines[line - 1].encode("utf-8")[:offset].decode("utf-8", "replace"))

    def text(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.lines[node.lineno - 1][start:end]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return self.column(node.lineno, node.col_offset), self.column(node.lineno, end)

    def calls(self, line: int) -> Iterator[ast.Call]:
        return (node for node in self.nodes.get(line, ()) if isinstance(node, ast.Call))

    def statement(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node


_MOST_TEXT = 300_000
"""Characters of a file that is parsed: its tree takes some six hundred times as much memory."""


@lru_cache(maxsize=8)
def parsed_file(text: str) -> ParsedText | None:
    if len(text) > _MOST_TEXT:
        return None
    try:
        with warnings.catch_warnings():  # of the compiler, on literals such as "\\d"
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes: dict[int, list[ast.AST]] = {}
    parents: dict[ast.AST, ast.AST] = {}
    names = set()
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        if isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno == node.lineno:
            nodes.setdefault(node.lineno, []).append(node)
    lines = tuple(re.split(r"\r\n|\r|\n", text))
    return ParsedText(lines, {line: tuple(of) for line, of in nodes.items()}, parents, frozenset(names))


# -- statements and blocks -----------------------------------------------------------------------------------


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def functions_of(parsed: ParsedText) -> list[ast.FunctionDef]:
    around = dict.fromkeys(node for node in parsed.parents.values() if isinstance(node, ast.FunctionDef))
    return list(around)


def last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def statement_at(block: Sequence[ast.stmt], line: int) -> int | None:
    """The statement, alone on its lines, that a line is of."""
    found = [i for i, one in enumerate(block) if one.lineno <= line <= last_line(one)]
    return found[0] if len(found) == 1 else None


def is_alone(parsed: ParsedText, block: Sequence[ast.stmt], node: ast.stmt) -> bool:
    line = parsed.lines[node.lineno - 1]
    start = parsed.column(node.lineno, node.col_offset)
    others = [one for one in block if one is not node and one.lineno <= last_line(node)]
    return not line[:start].strip() and all(last_line(one) < node.lineno for one in others)


def is_python(parsed: ParsedText, edits: Sequence[Edit]) -> bool:
    lines = list(parsed.lines)
    for edit in edits:
        lines[edit.line - 1] = edit.after
    try:
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


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


# -- lines changed ------------------------------------------------------------------------------------------


def out_of_place(text: str, file: str, line: int, op: str) -> Edit | None:
    """The line with the operator's version that makes a new tensor.

    Args:
        text: of the whole file.
        op: as printed, such as ``aten::add_``.
    """
    parsed, name = parsed_file(text), op.rpartition("::")[2]
    if parsed is None:
        return None
    sign = sign_of(op)
    for node in parsed.nodes.get(line, ()):
        if sign is not None and isinstance(node, ast.AugAssign) and isinstance(node.op, NODE_OF_SIGN[sign]):
            return _augmented(parsed, node, sign, file)
    for call in parsed.calls(line):
        if _called(call) == name:
            return _method(parsed, call, file)
    return _flag(parsed, file, line, name[:-1])


def _augmented(parsed: ParsedText, node: ast.AugAssign, sign: str, file: str) -> Edit | None:
    if not _is_chain(node.target):
        return None
    target, value = parsed.text(node.target), parsed.text(node.value)
    first = isinstance(node.value, _ATOMS) or (
        isinstance(node.value, ast.BinOp) and isinstance(node.value.op, (ast.Mult, ast.Div)) and sign in "+-"
    )
    value = value if first else f"({value})"
    return _edit(parsed, file, node.lineno, [(*parsed.span(node), f"{target} = {target} {sign} {value}")])


def _is_chain(node: ast.expr) -> bool:
    """``x`` and ``self.x``, which can stand twice: ``self.make().x`` would be made twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _method(parsed: ParsedText, call: ast.Call, file: str) -> Edit | None:
    """``x.relu_()`` or ``torch.relu_(x)``; alone on the line its result gets the name of its tensor. All of
    ``x.mul_(y).add_(z)`` is written out of place: what follows would change the new tensor."""
    chain = _in_place_chain(parsed, call)
    tensor = changed_tensor(chain[0])
    if isinstance(parsed.parents[chain[-1]], ast.Expr):
        if tensor is None or not _is_chain(tensor):
            return None
        start, _ = parsed.span(chain[-1])
        pieces = [_without_underscore(parsed, one) for one in chain]
        return _edit(parsed, file, call.lineno, [(start, start, f"{parsed.text(tensor)} = "), *pieces])
    # What an attribute holds stays as it was until it is assigned to.
    lost = isinstance(tensor, ast.Attribute) and not _assigned_to(parsed, chain[-1], tensor)
    if lost or isinstance(parsed.statement(call), ast.Expr):
        return None
    those = [one for one in chain if one is call or f"aten::{_called(one)}" not in ONLY_IN_PLACE]
    return _edit(parsed, file, call.lineno, [_without_underscore(parsed, one) for one in those])


def _without_underscore(parsed: ParsedText, call: ast.Call) -> Piece:
    _, end = parsed.span(call.func)
    return end - 1, end, ""


def _in_place_chain(parsed: ParsedText, call: ast.Call) -> list[ast.Call]:
    """The calls of methods in place on one another that it is one of, in the order in which they run."""
    chain = [call]
    while isinstance(inner := changed_tensor(chain[0]), ast.Call) and is_in_place(_called(inner)):
        chain.insert(0, inner)
    while True:
        method = parsed.parents[chain[-1]]
        outer = parsed.parents.get(method)
        in_place = isinstance(method, ast.Attribute) and is_in_place(method.attr)
        if not in_place or not isinstance(outer, ast.Call) or outer.func is not method:
            return chain
        chain.append(outer)


def changed_tensor(call: ast.Call) -> ast.expr | None:
    """The tensor of a call of a method, or of ``torch.relu_(x)``."""
    if not isinstance(call.func, ast.Attribute):
        return None
    return next(iter(call.args), None) if _is_namespace(call.func.value) else call.func.value


def _assigned_to(parsed: ParsedText, value: ast.expr, tensor: ast.expr) -> bool:
    statement = parsed.parents[value]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(one, ast.Attribute) and dotted(one) == dotted(tensor) for one in targets)


def _flag(parsed: ParsedText, file: str, line: int, name: str) -> Edit | None:
    """``F.relu(x, inplace=True)`` and ``nn.ReLU(inplace=True)``."""
    wanted = {name, *CALLED_BY.get(name, ())}
    for call in parsed.calls(line):
        called = _called(call)
        if called not in wanted:
            continue
        flag: ast.expr | None = next((k.value for k in call.keywords if k.arg == "inplace"), None)
        place = FLAGS.get(called)
        if flag is None and place is not None and place < len(call.args):
            flag = call.args[place]
        if isinstance(flag, ast.Constant) and flag.value is True:
            return _edit(parsed, file, line, [(*parsed.span(flag), "False")])
    return None


def modules_in_place(text: str, file: str, op: str) -> tuple[Edit, ...]:
    """Every line of the file that makes a module which calls the operator in place."""
    parsed, name = parsed_file(text), op.rpartition("::")[2][:-1]
    if parsed is None or not any(module in text for module in CALLED_BY.get(name, ())):
        return ()
    found = (_flag(parsed, file, line, name) for line in sorted(parsed.nodes))
    return tuple(edit for edit in found if edit is not None and re.search(r"\b[A-Z]\w*\(", edit.before))


_IMPORTS_TORCH = re.compile(r"^\s*import torch\s*($|[,;#])", re.MULTILINE)
"""Recipes write ``torch.`` before what they call."""


def by_recipe(
    text: str,
    file: str,
    line: int,
    recipe: Recipe,
    rank: int | None = None,
    attribute: str | None = None,
    as_tensor: bool = False,
) -> Edit | None:
    """The line with the operator written by the recipe.

    Args:
        rank: dimensions of the operator's input, for recipes that list them all.
        attribute: the name of the module that calls the operator: ``self.act(x)`` is such a call too, if the
            module is made without arguments in the same file.
        as_tensor: a number where the recipe needs a tensor becomes one.
    """
    parsed = parsed_file(text)
    if parsed is None or recipe.helper or recipe.shown or not _IMPORTS_TORCH.search(text):
        return None
    before = _expression(recipe.before)
    if not isinstance(before, ast.Call):
        return None
    name = _called(before)
    for call in parsed.calls(line):
        if _called(call) == name and not _is_self(call):
            return _rewritten(parsed, file, call, recipe, before, rank, as_tensor)
        if attribute is not None and _is_self(call) and _called(call) == attribute:
            made = any(f"self.{attribute} = " in row and f".{m}()" in row
                       for row in parsed.lines for m in _module_names(recipe))  # fmt: skip
            if made and len(call.args) == 1 and not call.keywords:
                return _rewritten(parsed, file, call, recipe, before, rank, as_tensor)
    return None


def _module_names(recipe: Recipe) -> Sequence[str]:
    return [recipe.module.rpartition(".")[2]] if recipe.module else []


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _rewritten(
    parsed: ParsedText,
    file: str,
    call: ast.Call,
    recipe: Recipe,
    before: ast.Call,
    rank: int | None,
    as_tensor: bool,
) -> Edit | None:
    bound = _bound(parsed, call, recipe.before, before)
    if bound is None:
        return None
    made: dict[str, str] = {}
    if as_tensor and recipe.numbers_too:
        value, mask = bound["value"], bound["mask"]
        if not _is_number(value) or not isinstance(mask, ast.Name):
            return None
        # The mask's device: to ask the tensor itself would keep what computes it out of the group (FD227).
        made["value"] = f"torch.full([], {parsed.text(value)}, device={mask.id}.device)"
    after = recipe.after
    if recipe.arguments or ALL_DIMENSIONS in after:
        if rank is None or ALL_DIMENSIONS not in after:
            return None
        after = recipe.over_all(rank)
    tree = ast.parse(after, mode="eval").body
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in bound]
    arguments = {
        one.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for one in call.args
        if isinstance(one, ast.Name)
    }
    lead = ""
    indent = re.match(r"\s*", parsed.lines[call.lineno - 1])
    for name in {node.id for node in uses}:
        node = bound[name]
        if sum(use.id == name for use in uses) < 2 or isinstance(node, (ast.Name, ast.Constant)):
            continue
        if lead or not _can_lead(parsed, call):
            return None
        fresh = next((one for one in ("h", "hidden", "inner") if one not in parsed.names), None)
        if fresh is None:
            return None
        lead = f"{indent.group() if indent else ''}{fresh} = {parsed.text(node)}\n"
        bound[name] = ast.Name(fresh, ast.Load(), lineno=0)
    for use in sorted(uses, key=lambda use: -use.col_offset):
        given = bound[use.id]
        text = given.id if isinstance(given, ast.Name) else parsed.text(given)
        if not isinstance(given, _ATOMS) and not (_is_number(given) and use.id in arguments):
            text = f"({text})"
        text = made.get(use.id, text)
        after = after[: use.col_offset] + text + after[use.col_offset + len(use.id) :]
    alone = isinstance(parsed.parents[call], (ast.Return, ast.Assign, ast.Expr, ast.Call, ast.AnnAssign))
    if not alone and not isinstance(_expression(after), _ATOMS):
        after = f"({after})"
    return _edit(parsed, file, call.lineno, [(*parsed.span(call), after)], lead)


_NOT_ALWAYS = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
"""What does not compute all that stands in it, or computes it more than once."""


def _can_lead(parsed: ParsedText, call: ast.Call) -> bool:
    """A line can go before the statement: it has lines of its own, computes the call once whatever happens,
    and changes nothing before it."""
    statement = parsed.statement(call)
    if (
        not isinstance(statement, (ast.Return, ast.Assign, ast.AnnAssign))
        or last_line(statement) != call.lineno
    ):
        return False
    start, _ = parsed.span(statement)
    if statement.lineno != call.lineno or parsed.lines[call.lineno - 1][:start].strip():
        return False  # the body of "if x: return f(x)"
    node: ast.AST = call
    while node is not statement:
        if isinstance(node, _NOT_ALWAYS) or (isinstance(node, ast.Compare) and len(node.ops) > 1):
            return False
        node = parsed.parents[node]
    first = (call.lineno, call.col_offset)
    return not any(_changes(one) and (one.lineno, one.col_offset) < first for one in _expressions(statement))


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    return (one for one in ast.walk(node) if isinstance(one, ast.expr))


def _changes(node: ast.expr) -> bool:
    """Whether it changes a tensor or binds a name."""
    return isinstance(node, ast.NamedExpr) or (isinstance(node, ast.Call) and is_in_place(_called(node)))


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _bound(parsed: ParsedText, call: ast.Call, text: str, before: ast.Call) -> dict[str, ast.expr] | None:
    """The user's expressions for the names of the recipe; None where the call has other arguments."""
    theirs, ours = _arguments(call), _arguments(before)
    if len(theirs) != len(ours) or any(k.arg is None for k in call.keywords):
        return None
    wanted = {k.arg: k.value for k in before.keywords}
    given = {k.arg: k.value for k in call.keywords}
    if set(wanted) != set(given):
        return None
    bound: dict[str, ast.expr] = {}
    for one, pattern in [*zip(theirs, ours), *((given[name], wanted[name]) for name in wanted)]:
        if isinstance(one, ast.Starred):
            return None
        if isinstance(pattern, ast.Name):
            bound[pattern.id] = one
        elif ast.dump(one) != ast.dump(pattern):
            return None
    return bound


def _arguments(call: ast.Call) -> list[ast.expr]:
    """The positional ones; the tensor of a method is the first."""
    method = (
        isinstance(call.func, ast.Attribute) and not _is_namespace(call.func.value) and not _is_self(call)
    )
    return [call.func.value, *call.args] if method and isinstance(call.func, ast.Attribute) else call.args


def _is_self(call: ast.Call) -> bool:
    func = call.func
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"


def _is_namespace(node: ast.expr) -> bool:
    """``torch``, ``F``, ``torch.nn.functional`` ..."""
    if isinstance(node, ast.Attribute):
        return node.attr in _NAMESPACES and _is_namespace(node.value)
    return isinstance(node, ast.Name) and node.id in _NAMESPACES


def _called(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _edit(parsed: ParsedText, file: str, line: int, pieces: Sequence[Piece], lead: str = "") -> Edit | None:
    """The line with its pieces replaced, if that is Python still."""
    before = after = parsed.lines[line - 1]
    for start, end, text in sorted(pieces, reverse=True):
        after = after[:start] + text + after[end:]
    whole = "\n".join([*parsed.lines[: line - 1], lead + after, *parsed.lines[line:]])
    try:
        ast.parse(whole)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Edit(file, line, before, lead + after) if lead + after != before else None


def ranks_of(programs: Iterable[Program]) -> dict[int | None, int]:
    """Row (``Unfused.index``) of operators outside groups -> dimensions of their first input, where all nodes
    of the row agree."""
    found: dict[int, set[int | None]] = {}
    for program in programs:
        for node in program.nodes:
            if node.kind == "operator" and node.inputs:
                tensor = parse_type(node.inputs[0])
                known = isinstance(tensor, TensorType) and tensor.sizes is not None
                rank = len(tensor.sizes or ()) if known and isinstance(tensor, TensorType) else None
                for row in node.rows:
                    found.setdefault(row, set()).add(rank)
    agreed = {row: next(iter(ranks)) for row, ranks in found.items() if len(ranks) == 1}
    return {row: rank for row, rank in agreed.items() if rank is not None}
