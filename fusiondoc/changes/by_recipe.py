"""An operator written by the table of recipes: ``F.hardswish(x)`` becomes ``x *
(torch.clamp(x + 3, 0, 6) / 6)``.

An operand that the recipe reads more than once is computed once: in a line of its
own before the statement, or, where the statement does not always compute the call,
in a function of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.assigned_names import assigned_to
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import defined, spelled
from fusiondoc.changes.out_of_place import (
    assigned_name,
    is_method_in_place,
    module_class,
)
from fusiondoc.changes.pattern import (
    Bound,
    MatchedText,
    Pattern,
    is_atom,
    operand,
    parse_expression,
)
from fusiondoc.changes.recipes import ALL_DIMENSIONS, RECIPES, Recipe, may_be_tried
from fusiondoc.changes.rewrite import (
    Example,
    Line,
    Rewrite,
    Rewritten,
    Shown,
)
from fusiondoc.changes.source_file import ParsedFile, dotted
from fusiondoc.fusers import with_dimensions_only
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import defaults_of, is_in_place, plain_name

_MODULES = {"torch": "torch", "F": "torch.nn.functional"}


def write(line: Line) -> Iterator[Rewritten]:
    """Yield the rewrites of the line's calls by one of the recipes."""
    for recipe in line.shown.recipes:
        made = by_recipe(line, recipe)
        if made is not None:
            yield made
            return


def by_recipe(line: Line, recipe: Recipe) -> Rewritten | None:
    """Apply a recipe to all calls of a line that it replaces. None if it does not
    fit, if another rewrite covers it, or if the recipe is only an example."""
    if recipe.shown or recipe.numbers_too:
        return None
    if ALL_DIMENSIONS in recipe.after:
        if not line.shown.rank or recipe.replaces <= with_dimensions_only():
            return None
        recipe = replace(recipe, after=recipe.over_all(line.shown.rank))
    of = recipe.of.split()[0]
    if recipe.difference in ("rounding", "exact"):
        difference = None
    else:
        difference = f"{of}: {recipe.difference}"
    note = (
        "; ".join(filter(None, [difference, recipe.at_kinks, recipe.half])) or None
    )
    conditional = not may_be_tried(recipe)
    for called in (_called, _called_as_module):
        for made in in_all_calls(partial(called, recipe), line):
            return replace(made, note=note, conditional=conditional)
    return None


def _called(recipe: Recipe, line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """An expression that the recipe's ``before`` matches, written as its
    ``after``; also the method of an operator that changes its first argument, such
    as ``x.addcdiv_(y, z)``."""
    file = line.file
    names = frozenset(word.partition("=")[0] for word in recipe.inputs.split())
    pattern = Pattern(
        recipe.before, names, recipe.after, is_in_place(line.shown.op)
    )
    bound = pattern.match(file, node)
    if bound is None or not isinstance(node, ast.expr):
        return
    if isinstance(node, ast.Call) and is_method_in_place(node):
        yield from _method_in_place(file, node, recipe, bound, names)
    elif not isinstance(file.parent(node), ast.Expr):
        yield rewritten_call(file, node, recipe, bound, names)


def _method_in_place(
    file: ParsedFile,
    node: ast.Call,
    recipe: Recipe,
    bound: Bound,
    names: frozenset[str],
) -> Iterator[Rewritten]:
    """Write ``x.addcdiv_(y, z)`` as ``x = x + y / z``; nothing if the change of
    ``x`` would be missed."""
    assigned = assigned_name(file, node)
    if assigned is None:
        return
    made = rewritten_call(file, node, recipe, bound, names)
    own = file.replaced(node, "")
    edits = []
    for edit in made.edits:
        if (edit.start, edit.end) == (own.start, own.end):
            edits.append(replace(edit, text=f"{assigned}{edit.text}"))
        else:
            edits.append(edit)
    yield replace(made, edits=tuple(edits))


def _called_as_module(
    recipe: Recipe, line: Line, node: ast.AST
) -> Iterator[Rewritten]:
    """The same for ``self.act(x)``, if a line of the file assigns to that attribute
    a module of torch.nn, made without arguments, that calls the operator."""
    file, attribute = line.file, f"self.{line.shown.layer}"
    if (
        line.shown.layer is None
        or not isinstance(node, ast.Call)
        or dotted(node.func) != attribute
        or node.keywords
    ):
        return
    kind = recipe.module.rpartition(".")[2] if recipe.module is not None else None
    made = assigned_to(file, attribute)
    if kind is None or not any(_makes(file, value, kind) for value in made):
        return
    pattern = parse_expression(recipe.before)
    tensor = None
    if isinstance(pattern, ast.Call) and len(pattern.args) == 1:
        tensor = pattern.args[0]
    if (
        isinstance(tensor, ast.Name)
        and len(node.args) == 1
        and not isinstance(node.args[0], ast.Starred)
    ):
        bound = {tensor.id: operand(file, node.args[0])}
        yield rewritten_call(file, node, recipe, bound, frozenset([tensor.id]))


def _makes(file: ParsedFile, value: ast.expr, kind: str) -> bool:
    """True for ``nn.Hardswish()``, if ``kind`` is its class."""
    if not isinstance(value, ast.Call) or value.args or value.keywords:
        return False
    return module_class(file, value.func) == kind


def rewritten_call(
    file: ParsedFile,
    node: ast.expr,
    recipe: Recipe,
    bound: Bound,
    names: frozenset[str],
) -> Rewritten:
    """An expression written as the recipe's ``after``.

    Args: bound: the operands of the expression by the recipe's names and numbers;
        ``names``: the names of tensors.
    """
    after, helper, edits = with_imports(file, recipe)
    if helper:
        after, definition = with_free_name(file, after, helper)
        edits += defined(file, definition, rank=-6)
        return _replaced(file, node, filled(after, bound), edits)
    twice = []
    for name in names & set(bound):
        if _reads(after, name) > 1 and not bound[name].is_plain:
            twice.append(name)
    if not twice:
        return _replaced(file, node, filled(after, bound), edits)
    if len(twice) == 1 and can_lead(file, node):
        return _with_line_before(file, node, after, bound, twice[0], edits)
    return _with_function(file, node, recipe, after, bound, names, edits)


def with_imports(
    file: ParsedFile, recipe: Recipe
) -> tuple[str, str, tuple[TextEdit, ...]]:
    """Return the recipe's ``after`` and definitions with the file's name for torch,
    and the missing imports."""
    after, helper = recipe.after, recipe.helper.rstrip()
    edits: tuple[TextEdit, ...] = ()
    for word, meaning in _MODULES.items():
        if re.search(rf"\b{word}\.", after + helper):
            name, imports = spelled(file, meaning)
            after, helper = (
                re.sub(rf"\b{word}\.", f"{name}.", text) for text in (after, helper)
            )
            edits += imports
    return after, helper, edits


def with_free_name(
    file: ParsedFile, after: str, helper: str
) -> tuple[str, list[str]]:
    """Return the replacement and the lines of its helper function, under a name
    that the file does not use."""
    own = helper.split("(")[0].split()[-1]
    free = file.free_name(own, f"fusible_{own}")
    after, helper = (
        re.sub(rf"(?<![\w.]){own}(?=\()", free, text) for text in (after, helper)
    )
    return after, helper.split("\n")


def _reads(after: str, name: str) -> int:
    total = 0
    for node in ast.walk(parse_expression(after)):
        if isinstance(node, ast.Name) and node.id == name:
            total += 1
    return total


def _replaced(
    file: ParsedFile,
    node: ast.expr,
    text: str,
    edits: Sequence[TextEdit],
    more: str = "",
) -> Rewritten:
    whole = _stands_alone(file, node) or is_atom(text)
    edit = file.replaced(node, text if whole else f"({text})")
    return Rewritten.expression(file.text(node), f"{text}{more}", (*edits, edit))


def _stands_alone(file: ParsedFile, node: ast.expr) -> bool:
    """True if an operator needs no parentheses in the position of the node."""
    above = file.parent(node)
    alone = isinstance(
        above, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr, ast.keyword)
    )
    return (
        alone
        or file.call_of_argument(node) is not None
        or file.is_parenthesised(node)
    )


# -- an operand that is read more than once ------------------------------------------------------------------


def _with_line_before(
    file: ParsedFile,
    node: ast.expr,
    after: str,
    bound: Bound,
    name: str,
    edits: Sequence[TextEdit],
) -> Rewritten:
    """Insert ``h = x + y`` as a line before the statement."""
    statement, text = file.statement_of(node), bound[name].text
    assert statement is not None
    fresh = _fresh_name(file, statement, node)
    value = f"({text})" if re.search(r"[\r\n]", text) else text
    line = f"{file.lead(statement)}{fresh} = {value}{file.newline}"
    before = file.inserted(file.start_of_line(statement), line)
    own = {**bound, name: MatchedText(fresh, True, True)}
    return _replaced(
        file,
        node,
        filled(after, own),
        (*edits, before),
        more=f", where {fresh} = {text}",
    )


_FRESH = ("h", "hidden", "inner", *(f"h{number}" for number in range(3, 1000)))


def _fresh_name(file: ParsedFile, statement: ast.stmt, node: ast.expr) -> str:
    """A different name for each call of the statement: two of them may get such a
    line, and both lines are inserted."""
    start = file.span(node)[0]
    calls = []
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            calls.append(call)
    beside = [call for call in calls if file.span(call)[1] <= start]
    written = " ".join(edit.text for edit in file.edits)
    given = set(re.findall(r"\w+", written))
    return file.free_name(
        *(name for name in _FRESH[len(beside) :] if name not in given)
    )


_NOT_ALWAYS = (
    ast.Lambda,
    ast.IfExp,
    ast.BoolOp,
    ast.GeneratorExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
)
"""Expressions that may not compute all their parts, or compute them more than
once."""


def can_lead(file: ParsedFile, node: ast.expr) -> bool:
    """True if a line can be inserted before the statement: the statement has lines
    of its own, always computes the expression exactly once, and changes nothing
    before it."""
    statement = file.statement_of(node)
    if (
        not isinstance(statement, (ast.Return, ast.Assign, ast.AnnAssign))
        or file.function_of(node) is None
    ):
        return False
    if not file.has_own_lines(statement):
        return False  # the body of "if x: return f(x)"
    for above in file.parents(node):
        if above is statement:
            break
        if isinstance(above, _NOT_ALWAYS) or (
            isinstance(above, ast.Compare) and len(above.ops) > 1
        ):
            return False
    start = file.span(node)[0]
    return not any(
        _changes(one) and file.span(one)[0] < start for one in ast.walk(statement)
    )


def _changes(node: ast.AST) -> bool:
    """True if a node changes a tensor or binds a name."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute):
        name = called.attr
    else:
        name = getattr(called, "id", "")
    return isinstance(node, ast.NamedExpr) or is_in_place(name)


def _with_function(
    file: ParsedFile,
    node: ast.expr,
    recipe: Recipe,
    after: str,
    bound: Bound,
    names: frozenset[str],
    edits: Sequence[TextEdit],
) -> Rewritten:
    """Replace the call by ``fusible_silu(x + y)``, and add the function."""
    tensors = [name for name in bound if name in names]
    numbers = {}
    for name, found in bound.items():
        if name not in names:
            numbers[name] = found
    own = _own_name(file, recipe, numbers)
    returned = filled(after, numbers)
    body = [f"def {own}({', '.join(tensors)}):", f"    return {returned}"]
    call = f"{own}({', '.join(bound[name].text for name in tensors)})"
    made = (*edits, *defined(file, body, rank=-6), file.replaced(node, call))
    return Rewritten.expression(
        file.text(node), f"{call}, which returns {returned}", made
    )


def _own_name(file: ParsedFile, recipe: Recipe, numbers: Bound) -> str:
    """The name of the function for one operator, with its numbers: two lines may
    call it with different numbers."""
    of = recipe.of.split()[0]
    given = []
    for found in numbers.values():
        if found.text not in defaults_of(of):
            given.append(found.text)
    parts = []
    for text in given:
        parts.append(
            f"_{re.sub(r'[^0-9a-zA-Z]', '_', text.replace('-', 'minus_'))}"
        )
    more = "".join(parts)
    return file.free_name(f"fusible_{of}{more}", f"{of}_in_parts{more}")


# -- the replacement -----------------------------------------------------------------------------------------

_WORD = re.compile(
    r"(?<![\w.])(?:\d+\.\d+|\d+|[A-Za-z_]\w*)(?![\w.])|(?<![\w.])[A-Za-z_]\w*(?=\.)"
)


def filled(after: str, bound: Bound) -> str:
    """Return the replacement with the program's operands substituted for the
    recipe's names and numbers; keywords stay."""
    for number in (number for number in bound if number.startswith("-")):
        after = after.replace(number, bound[number].text)

    def text(found: re.Match[str]) -> str:
        word = found.group()
        if word not in bound or re.match(r"\s*=(?!=)", after[found.end() :]):
            return word
        is_argument = re.search(r"[(,]\s*$", after[: found.start()]) and re.match(
            r"\s*[,)]", after[found.end() :]
        )
        own = bound[word]
        if own.is_atom or is_argument:
            return own.text
        return f"({own.text})"

    return _WORD.sub(text, after)


def _of(op: str, rank: int | None = None, layer: str | None = None) -> Shown:
    """An operator with all its recipes."""
    recipes = []
    for one in RECIPES:
        if f"aten::{plain_name(op)}" in one.replaces:
            recipes.append(one)
    return Shown(op, rank=rank, layer=layer, recipes=recipes)


_MODULE = """\
class Net(torch.nn.Module):
    def __init__(self):
        self.act = torch.nn.Hardswish({0})

    def forward(self, x):
        return {1}
"""

_CALLED = _of("aten::hardswish", layer="act")

_FUNCTION = """\
import torch.nn.functional as F
{0}

def f(x, y):
    return {1}
"""

REWRITE = Rewrite(
    ChangeKind.RECIPE,
    write,
    fits=lambda line: bool(line.shown.recipes),
    examples=(
        Example("return x.square()", "return x * x", _of("aten::square")),
        Example(
            "return torch.square(x * y)",
            "h = x * y\nreturn h * h",
            _of("aten::square"),
        ),
        Example(
            "return x.square() + y.square()",
            "return (x * x) + (y * y)",
            _of("aten::square"),
        ),
        Example(
            "return torch.square(x * y) + torch.square(x + z)",
            "h = x * y\nhidden = x + z\nreturn (h * h) + (hidden * hidden)",
            _of("aten::square"),
        ),
        Example(
            "return x.square().square()",
            "h = x * x\nreturn h * h",
            _of("aten::square"),
        ),
        Example(
            "return torch.minimum(torch.minimum(x, y), torch.minimum(y + 1, z))",
            "return torch.min(torch.min(x, y), torch.min(y + 1, z))",
            _of("aten::minimum"),
        ),
        Example(
            "return 1 - (2 - (3 - x))",
            "return -((-((-(x - 3)) - 2)) - 1)",
            _of("aten::rsub"),
        ),
        Example(
            "return torch.square(x + torch.square(y + torch.square(z + 1)))",
            "h = z + 1\nhidden = y + (h * h)\ninner = x + (hidden * hidden)\n"
            "return inner * inner",
            _of("aten::square"),
        ),
        Example(
            _FUNCTION.format("", "F.silu(F.silu(x + 1) * F.silu(y)) if y else x"),
            _FUNCTION.format(
                "\n\ndef fusible_silu(x):\n    return x * torch.sigmoid(x)\n",
                "fusible_silu(fusible_silu(x + 1) * (y * torch.sigmoid(y))) if y else x",
            ),
            _of("aten::silu"),
            line=5,
            whole=True,
        ),
        Example("return torch.square(*x)", None, _of("aten::square")),
        Example(
            "x = x * 2\nx.addcdiv_(y, z, value=-0.1)",
            "x = x * 2\nx = x + (-0.1) * y / z",
            _of("aten::addcdiv_"),
            2,
        ),
        Example(
            "return (x * 2).addcdiv_(y, z)",
            "return (x * 2) + y / z",
            _of("aten::addcdiv_"),
        ),
        Example("self.p.addcdiv_(y, z)", None, _of("aten::addcdiv_")),
        Example("h = x.addcdiv_(y, z)\nreturn h + x", None, _of("aten::addcdiv_")),
        Example("h = x.max()", "h = x.amax([0, 1, 2])", _of("aten::max", rank=3)),
        Example("h = x.max()", None, _of("aten::max")),
        Example(
            _MODULE.format("", "self.act(x)"),
            _MODULE.format("", "x * (torch.clamp(x + 3, 0, 6) / 6)"),
            _CALLED,
            line=6,
            whole=True,
        ),
        Example(_MODULE.format("*a", "self.act(x)"), None, _CALLED, 6, whole=True),
    ),
)
