"""Operators between groups that only place elements anew, and what is around them: whether they can go to the
edge, so that the groups become one."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import AbstractSet, Iterator

from fusiondoc.diagnosis.changed_lines import (
    dotted,
    functions_of,
    is_alone,
    is_python,
    last_line,
    parsed_file,
    shown_lines,
    statement_at,
)
from fusiondoc.model.change_plan import Edit
from fusiondoc.model.report import Program, Report, Unfused

OF_MANY_ELEMENTS = re.compile(
    r"norm|softmax|sum|mean|var|std|a?max$|a?min$|prod|any|all|sort|scatter|gather|prim::"
)
"""Operators, by parts of their names, whose results are no function of single elements; control flow."""


def before_one_tensor(row: Unfused, report: Report) -> bool:
    """Whether nothing takes the operator's result but a group of this one tensor that works on each element
    by itself: another tensor there would have to be placed anew too."""
    groups = {group.id: group for group in report.groups}
    for program, place in _places_of(row, report):
        after = [program.nodes[b] for a, b in program.edges if a == place]
        group = groups.get(after[0].group or "") if len(after) == 1 else None
        if group is None or len(group.inputs) != 1:
            return False
        if any(OF_MANY_ELEMENTS.search(one.op) for one in group.nodes):
            return False
    return True


def _places_of(row: Unfused, report: Report) -> Iterator[tuple[Program, int]]:
    """The nodes of plans that an operator outside groups is: indexes into ``nodes``."""
    for program in report.programs:
        for place, node in enumerate(program.nodes):
            if node.op == row.op and node.source == row.source:
                yield program, place


def may_be_read_as_it_was(row: Unfused, report: Report) -> bool:
    """Whether what an operator changes in place may be read under another name: a view of it was made before,
    it is a view itself, or what made it is read again behind the operator (``skip = h`` before ``h += y``).

    Edges are of nodes, not of values: a group of several results that made it counts as if it were read.
    """
    for program, place in _places_of(row, report):
        nodes = program.nodes
        makers = {a for a, b in program.edges if b == place}
        readers = {b for a, b in program.edges if a in makers}
        if any(nodes[one].reason == "FD226" for one in makers | readers):
            return True
        named_anew = any(a == place for a, _ in program.edges)  # or h.relu_() alone
        if named_anew and max(readers, default=place) > place:
            return True
    return False


def regions_as_groups(report: Report, moved: AbstractSet[int] | None = None) -> Report:
    """The report with differentiable graphs that are one group each as these groups: torch ends a graph at a
    view or a print, and makes one graph of both where it goes
    (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp).

    Args:
        moved: rows of ``report.unfused``: only graphs beside their operators. None: all.
    """
    only = {one.id: one.nodes[0].group for one in report.programs if len(one.nodes) == 1 and not one.cut}
    rows = {(report.unfused[row].op, report.unfused[row].source) for row in moved or ()}
    if not any(only.values()) or (moved is not None and not rows):
        return report
    programs = []
    for program in report.programs:
        nodes = list(program.nodes)
        for place in range(len(nodes)) if moved is None else _beside(program, rows):
            group = only.get(nodes[place].program or "")
            if nodes[place].kind == "region" and group is not None:
                nodes[place] = replace(nodes[place], kind="group", group=group)
        programs.append(replace(program, nodes=tuple(nodes)))
    return replace(report, programs=tuple(programs))


def _beside(program: Program, rows: AbstractSet[tuple[str, str | None]]) -> set[int]:
    mine = {place for place, node in enumerate(program.nodes) if (node.op, node.source) in rows}
    ends = [(a, b) for a, b in program.edges if a in mine or b in mine]
    return {place for edge in ends for place in edge} - mine


# -- the lines ----------------------------------------------------------------------------------------------

EACH = frozenset(
    ["tanh", "sigmoid", "relu", "exp", "log", "sqrt", "rsqrt", "abs", "neg", "erf", "sin", "cos"]
)
"""Functions and methods of one tensor that compute each element by itself."""


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
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EACH:
        if node.keywords:
            return False
        if dotted(node.func.value) == "torch":
            return len(node.args) == 1 and _each_element_of(node.args[0], name, deep + 1)
        return not node.args and _each_element_of(node.func.value, name, deep + 1)
    return False
