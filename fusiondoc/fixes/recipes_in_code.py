"""Operators at the user's own lines, written as the table of recipes says: ``F.hardswish(x)`` becomes
``x * (torch.clamp(x + 3, 0, 6) / 6)``; and reductions over everything, with their dimensions named.

The recipe's ``before`` is the pattern: names in it stand for any expression, a number that ``after`` repeats
for any number. What is read more than once and is no plain name is computed once, in a function of its own.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fusiondoc.diagnosis.operators import WITH_FORMULA, plain_name, taken_by
from fusiondoc.diagnosis.recipes import ALL_DIMENSIONS, RECIPES, Recipe
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.fixes.source_file import Edit, ParsedFile
from fusiondoc.model.change_plan import ChangeKind

with contextlib.suppress(ImportError):
    import libcst as cst

_MODULES = {"torch": "torch", "F": "torch.nn.functional"}

_CHECKED_BY_SHAPE = frozenset(
    [
        "softplus",
        "glu",
        "logical_and",
        "logical_or",
        "to",
        "prelu _prelu_kernel",
        "adaptive_avg_pool2d",
        "baddbmm",
        "mse_loss",
    ]
)
"""Recipes whose condition holds where the pattern matches, or is seen to fail in the first pass."""

_DEFAULTS = {
    "hardtanh": ("-1.0", "1.0"), "elu": ("1.0",), "celu": ("1.0",), "leaky_relu": ("0.01",),
    "hardshrink": ("0.5",), "softshrink": ("0.5",), "glu": ("-1",),
}  # fmt: skip
"""Arguments after the tensor that may be left out (torch/nn/functional.py)."""

Bound = Mapping[str, str]
"""Name or number of the pattern -> the text that stands there in the program."""


def propose(program: Program) -> Iterator[Proposal]:
    """One for each line with an operator that a recipe helps with."""
    for site in program.sites:
        op = "aten::" + plain_name(site.row.op)
        found = (_at(program, site, recipe) for recipe in helping(program, op) if _may_apply(recipe))
        first = next((one for one in found if one is not None), None)
        if first is not None:
            yield first
        if op in _REDUCTIONS:
            yield from _dimensions(program, site)
        if op == "aten::masked_fill" and not taken_by(op, program.fuser, program.torch):
            yield from _masked(site, program.backward or program.fuser == "nvfuser")
        if op in ("aten::max", "aten::min"):
            yield from _extremes(program, site)


def helping(program: Program, op: str) -> Iterator[Recipe]:
    """Recipes that help with an operator under the fuser of the run. One that the fuser has a rule for was
    refused for its arguments or its place."""
    taken = taken_by(op, program.fuser, program.torch)
    for recipe in RECIPES:
        fits = op in recipe.replaces and recipe.arguments == taken
        if fits and recipe.helps(program.fuser, program.torch, program.backward):
            yield recipe


def _may_apply(recipe: Recipe) -> bool:
    return (recipe.needs is None and recipe.caution is None) or recipe.of in _CHECKED_BY_SHAPE


def _at(program: Program, site: Site, recipe: Recipe) -> Proposal | None:
    file = site.file
    if ALL_DIMENSIONS in recipe.after:
        rank = _rank(program, site)
        if not rank:
            return None
        recipe = replace(recipe, after=recipe.over_all(rank))
    pattern = cst.parse_expression(recipe.before)
    names = frozenset(word.partition("=")[0] for word in recipe.inputs.split())
    for node in file.on_line(site.line):
        if not isinstance(node, cst.BaseExpression):
            continue
        bound = _Match(file, names, recipe.after).match(pattern, node)
        if bound is not None and not isinstance(file.parent(node), cst.Expr):
            edits, words = _edits(file, node, recipe, bound, names)
            title = " ".join(f"{file.text(node)} -> {words}".split())
            of, said = recipe.of.split()[0], []
            if recipe.difference not in ("rounding", "exact"):
                said.append(f"{of}: {recipe.difference}")
            note = "; ".join(filter(None, [*said, recipe.at_kinks, recipe.half])) or None
            ops, where = frozenset([site.row.op]), (site.where,)
            return Proposal(ChangeKind.RECIPE, title, edits, where, note, ops=ops, fewer=True)
    return None


class _Match:
    """Whether an expression of the program is one of the pattern."""

    def __init__(self, file: ParsedFile, names: frozenset[str], after: str) -> None:
        self._file = file
        self._names = names
        self._after = after
        self._bound: dict[str, str] = {}

    def match(self, pattern: cst.BaseExpression, node: cst.BaseExpression) -> Bound | None:
        return self._bound if self._fits(pattern, node) else None

    def _fits(self, pattern: cst.BaseExpression, node: cst.BaseExpression) -> bool:
        if isinstance(pattern, cst.Name) and pattern.value in self._names:
            return self._bind(pattern.value, self._file.text(node))
        number = _constant(pattern)
        if number is not None:
            return self._fits_constant(number, self._file.whole(node))
        if isinstance(pattern, cst.Call) and isinstance(node, cst.Call):
            return self._fits_call(pattern, node)
        if isinstance(pattern, cst.BinaryOperation) and isinstance(node, cst.BinaryOperation):
            same = type(pattern.operator) is type(node.operator)
            return same and self._fits(pattern.left, node.left) and self._fits(pattern.right, node.right)
        return False

    def _bind(self, name: str, text: str) -> bool:
        return self._bound.setdefault(name, text) == text

    def _fits_constant(self, number: str, text: str) -> bool:
        if _value(number) == _value(text) and _value(text) is not None:
            return self._bind(number, text) if self._repeated(number) else True
        return self._repeated(number) and isinstance(_value(text), (int, float)) and self._bind(number, text)

    def _repeated(self, number: str) -> bool:
        return re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.])", self._after) is not None

    def _fits_call(self, pattern: cst.Call, node: cst.Call) -> bool:
        """A function of torch by any of its names, or the same as a method of its first argument."""
        wanted = pattern.func
        if not isinstance(wanted, cst.Attribute):
            return False
        name = wanted.attr.value
        given = [one for one in node.args if not (one.keyword is not None and one.keyword.value == "inplace")]
        asked = [*pattern.args]
        as_method = isinstance(wanted.value, cst.Name) and wanted.value.value in self._names
        if self._file.meaning(node.func) in (f"torch.nn.functional.{name}", f"torch.{name}"):
            if as_method:
                asked.insert(0, cst.Arg(wanted.value))
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == name:
            if self._file.meaning(node.func) is not None:
                return False
            receiver = wanted.value if as_method else asked.pop(0).value
            if not self._fits(receiver, node.func.value):
                return False
        else:
            return False
        return self._fit_arguments(asked, given, _DEFAULTS.get(name, ()))

    def _fit_arguments(self, asked: list[cst.Arg], given: list[cst.Arg], defaults: tuple[str, ...]) -> bool:
        if any(one.star for one in given) or len(given) > len(asked):
            return False
        named = {one.keyword.value: one.value for one in given if one.keyword is not None}
        placed = [one.value for one in given if one.keyword is None]
        missing = len(asked) - len(given)
        for index, one in enumerate(asked):
            if one.keyword is not None and one.keyword.value in named:
                fits = self._fits(one.value, named.pop(one.keyword.value))
            elif one.keyword is None and index < len(placed):
                fits = self._fits(one.value, placed[index])
            elif named and len(asked) == 2:  # its only option, by whatever name
                fits = self._fits(one.value, named.popitem()[1])
            elif missing and defaults and index >= len(asked) - len(defaults):
                number = _constant(one.value)
                default = defaults[index - len(asked)]
                fits = number is not None and self._fits_constant(number, default)
            else:
                return False
            if not fits:
                return False
        return not named


def _constant(node: cst.BaseExpression) -> str | None:
    """The text of a literal; None for anything else."""
    text = cst.Module(body=[]).code_for_node(node)
    return text if _value(text) is not None else None


def _value(text: str) -> object:
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value


_WORD = re.compile(r"(?<![\w.])(?:\d+\.\d+|\d+|[A-Za-z_]\w*)(?![\w.])")


def _filled(after: str, bound: Bound) -> str:
    """The recipe with the program's texts in the place of its names and numbers; keywords stay."""

    def text(found: re.Match[str]) -> str:
        word = found.group()
        if word not in bound or re.match(r"\s*=(?!=)", after[found.end() :]):
            return word
        return bound[word] if _is_plain(bound[word]) else f"({bound[word]})"

    for number in (one for one in bound if one.startswith("-")):
        after = after.replace(number, bound[number])
    return _WORD.sub(text, after)


def _is_plain(text: str) -> bool:
    """A name, a chain of names, or a number: it can be read twice, and needs no parentheses."""
    return re.fullmatch(r"[A-Za-z_][\w.]*|[\d.]+(?:e-?\d+)?", text) is not None


def _edits(
    file: ParsedFile, node: cst.BaseExpression, recipe: Recipe, bound: Bound, names: frozenset[str]
) -> tuple[tuple[Edit, ...], str]:
    """The edits, and what stands there then in words."""
    imports: list[Edit] = []
    after, helper = recipe.after, recipe.helper.rstrip()
    for word, meaning in _MODULES.items():
        if re.search(rf"\b{word}\.", after + helper):
            name, more = file.spelled(meaning)
            after, helper = (re.sub(rf"\b{word}\.", f"{name}.", one) for one in (after, helper))
            imports += more
    twice = [name for name in names if len(re.findall(rf"(?<![\w.]){name}(?![\w.=])", after)) > 1]
    if helper:
        own = helper.split("(")[0].split()[-1]
        free = file.free_name(own, f"fusible_{own}")
        after, helper = (re.sub(rf"(?<![\w.]){own}(?=\()", free, one) for one in (after, helper))
        imports += file.defined(helper.split("\n"), rank=-6)
        text = _filled(after, bound)
        return (*imports, file.replaced(node, text)), text
    if all(_is_plain(bound[name]) for name in twice if name in bound):
        text = _filled(after, bound)
        whole = _stands_alone(file, node) or isinstance(cst.parse_expression(text), cst.Call)
        return (*imports, file.replaced(node, text if whole else f"({text})")), text
    tensors = [name for name in bound if name in names]
    numbers = {name: text for name, text in bound.items() if name not in names}
    own = _own_name(file, recipe, numbers)
    returned = _filled(after, numbers)
    body = [f"def {own}({', '.join(tensors)}):", f"    return {returned}"]
    call = f"{own}({', '.join(bound[name] for name in tensors)})"
    edits = (*imports, *file.defined(body, rank=-6), file.replaced(node, call))
    return edits, f"{call}, which returns {returned}"


def _own_name(file: ParsedFile, recipe: Recipe, numbers: Bound) -> str:
    """Of the function for one operator, with its numbers: two lines may call it with different ones."""
    of = recipe.of.split()[0]
    given = [text for text in numbers.values() if text not in _DEFAULTS.get(of, ())]
    more = "".join(f"_{re.sub(r'[^0-9a-zA-Z]', '_', text.replace('-', 'minus_'))}" for text in given)
    return file.free_name(f"fusible_{of}{more}", f"{of}_in_parts{more}")


def _stands_alone(file: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether an operator is valid there without parentheses."""
    above = file.parent(node)
    return bool(node.lpar) or isinstance(above, (cst.Assign, cst.AnnAssign, cst.Return, cst.Arg, cst.Expr))


_REDUCTIONS = ("aten::mean", "aten::sum", "aten::std", "aten::var")


def _dimensions(program: Program, site: Site) -> Iterator[Proposal]:
    """``x.mean()`` -> ``x.mean([0, 1])``: the overload without dimensions has no rule."""
    name, file = plain_name(site.row.op), site.file
    rank = _rank(program, site)
    if not rank:
        return
    dims = f"[{', '.join(map(str, range(rank)))}]"
    spread = ", unbiased=True" if name in ("std", "var") else ""
    for node in file.on_line(site.line):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        as_function = file.meaning(node.func) == f"torch.{name}"
        if node.func.attr.value != name or (not as_function and file.meaning(node.func) is not None):
            continue
        options = node.args[1:] if as_function else node.args
        names = {one.keyword.value for one in options if one.keyword is not None}
        if any(one.keyword is None for one in options) or names & {"dim", "axis", "correction"}:
            continue
        text = dims + ("" if "unbiased" in names else spread)
        if as_function:
            place = file.span(node.args[0].value)[1]
            edit = file.inserted(place, f", {text}")
        elif node.args:
            edit = file.inserted(file.span(node.args[0])[0], f"{text}, ")
        else:
            edit = file.inserted(file.span(node)[1] - 1, text)
        title = f"{file.text(node)} over the dimensions {dims}"
        note = f"true for tensors of {rank} dimensions, as in this run"
        yield Proposal(
            ChangeKind.DIMENSIONS, title, (edit,), (site.where,), note, ops=frozenset([site.row.op])
        )


def _rank(program: Program, site: Site) -> int | None:
    """How many dimensions the operator's input has: by the plans, else those of most tensors of the run's
    groups (a wrong guess fails, or computes something else, in the run that tries it)."""
    nodes = [node for one in program.report.programs for node in one.nodes if node.source == site.row.source]
    own = [node.inputs[0] for node in nodes if node.op == site.row.op and node.inputs]
    groups = [text for group in program.report.groups for text in (*group.inputs, *group.outputs)]
    for texts in (own, groups):
        ranks = [rank for rank in map(_dimensions_of, texts) if rank]
        if ranks:
            return max(sorted(set(ranks)), key=ranks.count)
    return None


def _dimensions_of(text: str) -> int | None:
    """Of a type such as ``Float(4, 8, strides=[8, 1], device=cpu)``."""
    sizes = re.match(r"\w+\(((?:[\d*]+, )*[\d*]+)(?:,|\))", text)
    return len(sizes.group(1).split(", ")) if sizes else None


def _extremes(program: Program, site: Site) -> Iterator[Proposal]:
    """``x.max(1)[0]`` and ``torch.max(x, 1).values`` -> ``x.amax(1)``: the values alone."""
    file, name = site.file, plain_name(site.row.op)
    values = f"aten::a{name}"
    no_formula = program.backward and values not in WITH_FORMULA
    if no_formula or not taken_by(values, program.fuser, program.torch):
        return
    for node in file.on_line(site.line):
        call = node.value if isinstance(node, (cst.Subscript, cst.Attribute)) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        picks = file.text(node)[file.span(call)[1] - file.span(node)[0] :].strip()
        as_function = file.meaning(call.func) == f"torch.{name}"
        given = len(call.args) - as_function
        if call.func.attr.value != name or picks not in ("[0]", ".values") or given not in (1, 2):
            continue
        if not as_function and file.meaning(call.func) is not None:
            continue
        start, end = file.span(call.func.attr)
        edits = (
            Edit(file.source.path, start, end, f"a{name}"),
            Edit(file.source.path, file.span(call)[1], file.span(node)[1], ""),
        )
        title = f"{file.text(node)} as a{name}, which finds no indices"
        note = "where several elements are equal, their gradient is shared among them"
        where, ops = (site.where,), frozenset([site.row.op])
        yield Proposal(ChangeKind.DIMENSIONS, " ".join(title.split()), edits, where, note, ops=ops)


def _masked(site: Site, as_tensor: bool) -> Iterator[Proposal]:
    """``x.masked_fill(mask == 0, -1e9)`` -> ``torch.where(mask == 0, -1e9, x)``: a number is as good as a
    tensor there (the overload ScalarSelf of aten::where, in 1.12 to 2.13).

    Args:
        as_tensor: nvFuser has no rule for that overload, and torch no gradient formula. The tensor is made
            on the mask's device, which has to have a name.
    """
    file = site.file
    for node in file.on_line(site.line):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        if node.func.attr.value != "masked_fill" or any(one.star for one in node.args):
            continue
        meaning = file.meaning(node.func)
        given = {one.keyword.value: one.value for one in node.args if one.keyword is not None}
        placed = [one.value for one in node.args if one.keyword is None]
        if meaning is None:
            placed.insert(0, node.func.value)
        given = {**dict(zip(("input", "mask", "value"), placed)), **given}
        if meaning not in (None, "torch.masked_fill") or set(given) != {"input", "mask", "value"}:
            continue
        torch, imports = file.spelled("torch")
        mask, value, tensor = (file.whole(given[name]) for name in ("mask", "value", "input"))
        if as_tensor and _is_number(given["value"]):
            if not isinstance(given["mask"], cst.Name):
                continue
            value = f"{torch}.full([], {value}, device={mask}.device)"
        if tensor.startswith("(") and isinstance(given["input"], cst.BinaryOperation):
            tensor = file.text(given["input"])
        text = f"{torch}.where({mask}, {value}, {tensor})"
        edits, ops = (*imports, file.replaced(node, text)), frozenset([site.row.op])
        title = " ".join(f"{file.text(node)} -> {text}".split())
        yield Proposal(ChangeKind.RECIPE, title, edits, (site.where,), ops=ops, fewer=True)


def _is_number(node: cst.BaseExpression) -> bool:
    """A literal, with its sign, or ``float('-inf')``."""
    if isinstance(node, cst.UnaryOperation):
        return _is_number(node.expression)
    called = node.func if isinstance(node, cst.Call) else None
    return isinstance(node, cst.BaseNumber) or (isinstance(called, cst.Name) and called.value == "float")
