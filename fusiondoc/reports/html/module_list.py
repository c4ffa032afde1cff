"""The rows of the module tree on the page: which modules show, and which are folded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from fusiondoc.model.module_tree import Module, module_tree, outside
from fusiondoc.reports.html.page_context import Context
from fusiondoc.reports.html.summary import Bar
from fusiondoc.reports.wording import count, percent, seconds

MOST_MODULES = 1000

_OPEN = 30
"""The tree is shown open down to where this many modules show."""


@dataclass(frozen=True)
class ModuleRow:
    """A module; ``inside`` is folded. ``at``: its place among those beside it."""

    at: int
    name: str
    path: str
    fused: int
    unfused: int
    share: float
    """-1 without an operator."""
    shown_share: str
    bar: Bar
    ms: float
    """-1 where no kernel was timed."""
    shown_ms: str
    is_open: bool
    inside: tuple[ModuleRow, ...]


@dataclass(frozen=True)
class Modules:
    rows: tuple[ModuleRow, ...]
    timed: bool
    note: str


def module_list(context: Context) -> Modules | None:
    """None where nothing tells a layer, or there are more modules than a page can show."""
    tree = module_tree(context.report)
    size = _size(tree)
    if not tree or size > MOST_MODULES:
        return None
    depth = _open_depth(tree)
    rows = tuple(_row(nth, one, depth) for nth, one in enumerate(tree))
    told = sum(one.fused + one.unfused for one in tree)
    every = context.report.fused_operators + sum(row.count for row in outside(context.report))
    note = "Operators in groups and outside them, by the module that they belong to."
    if every > told:
        note += f" Left out, as their module is not known: {count(every - told, 'operator')}."
    return Modules(rows, any(one.ms is not None for one in tree), note)


def _size(modules: tuple[Module, ...]) -> int:
    return sum(1 + _size(one.inside) for one in modules)


def _open_depth(level: Sequence[Module]) -> int:
    """How many levels are open."""
    shown = len(level)
    depth = 0
    while level:
        level = [inner for one in level for inner in one.inside]
        shown += len(level)
        if not level or shown > _OPEN:
            break
        depth += 1
    return depth


def _row(at: int, module: Module, depth: int) -> ModuleRow:
    share = module.share
    total = module.fused + module.unfused
    return ModuleRow(
        at=at,
        name=module.name,
        path=module.path,
        fused=module.fused,
        unfused=module.unfused,
        share=-1 if share is None else share,
        shown_share=percent(share),
        bar=Bar(share or 0.0, f"{module.fused} of {total} fused"),
        ms=-1 if module.ms is None else module.ms,
        shown_ms="–" if module.ms is None else seconds(module.ms / 1e3),
        is_open=depth > 0,
        inside=tuple(_row(nth, one, depth - 1) for nth, one in enumerate(module.inside)),
    )
