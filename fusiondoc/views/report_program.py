"""The plans of a program as pictures, and its modules as a tree."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.model import count
from fusiondoc.model.operator_places import Module, module_tree, outside
from fusiondoc.rendering.blocks import Formats, Section
from fusiondoc.rendering.picture_blocks import Branch, ProgramGraphs, Tree
from fusiondoc.rendering.values import Cell, Count, Duration, Gauge, Share
from fusiondoc.views.program_boxes import main_program, picture, within
from fusiondoc.views.program_nodes import NodeData
from fusiondoc.views.report_context import ReportContext

MOST_BOXES = 2_000
"""Most boxes of all pictures together: more take megabytes, and nobody reads
them."""
MOST_MODULES = 1000
_OPEN = 30
"""The tree is shown open to the depth at which this many modules are visible."""
_HINT = (
    "Click a box, or move with the "
    "arrow keys and press Enter, for its source line, IR, types and lines of the log."
)


def program(context: ReportContext) -> Section:
    """Section of the pictures of the plans; empty if the log shows none."""
    report = context.report
    if not report.programs:
        return Section("program", "Program", formats=Formats.PAGE)
    data = NodeData(context)
    first = main_program(report)
    fitting = within(report.programs, first, MOST_BOXES)
    for plan in fitting:
        data.add(plan)
    rows = []
    for plan in fitting:
        rows.append(picture(plan, context.groups, boundaries=report.boundaries))
    plans = ProgramGraphs(
        rows=tuple(rows),
        first=first,
        reasons=tuple(context.reasons),
        data=data.as_json(),
        left_out=report.programs_left_out + len(report.programs) - len(fitting),
    )
    return Section("program", "Program", _HINT, (plans,), Formats.PAGE)


def modules(context: ReportContext) -> Section:
    """Section of the tree of modules; empty if no layer is known, or there are more
    modules than a page can show."""
    tree = module_tree(context.report)
    if not tree or _size(tree) > MOST_MODULES:
        return Section("modules", "Modules", formats=Formats.PAGE)
    is_timed = any(module.ms is not None for module in tree)
    heads = ["Module", "In groups", "Not fused", "", "Fused"]
    if is_timed:
        heads.append("Kernels")
    depth = _open_depth(tree)
    rows = tuple(_branch(module, depth, is_timed) for module in tree)
    known = sum(module.fused + module.unfused for module in tree)
    every = context.report.fused_operators + sum(
        row.count for row in outside(context.report)
    )
    note = (
        "Operators in groups and outside them, by the module that they belong to."
    )
    if every > known:
        note += f" Left out, as their module is not known: {count(every - known, 'operator')}."
    return Section(
        "modules", "Modules", note, (Tree(tuple(heads), rows),), Formats.PAGE
    )


def _size(level: Sequence[Module]) -> int:
    return sum(1 + _size(module.inside) for module in level)


def _open_depth(level: Sequence[Module]) -> int:
    """Return how many levels of the tree are open."""
    visible_modules = len(level)
    depth = 0
    while level:
        level = [inner for module in level for inner in module.inside]
        visible_modules += len(level)
        if not level or visible_modules > _OPEN:
            break
        depth += 1
    return depth


def _branch(module: Module, depth: int, is_timed: bool) -> Branch:
    total = module.fused + module.unfused
    share = Gauge(module.share or 0.0, f"{module.fused:,} of {total:,} fused")
    cells: list[Cell] = [
        Count(module.fused),
        Count(module.unfused),
        share,
        Share(module.share),
    ]
    if is_timed:
        cells.append(Duration(module.ms))
    inside = []
    for inner in module.inside:
        inside.append(_branch(inner, depth - 1, is_timed))
    return Branch(
        name=module.name,
        path=module.path,
        cells=tuple(cells),
        is_open=depth > 0,
        inside=tuple(inside),
    )
