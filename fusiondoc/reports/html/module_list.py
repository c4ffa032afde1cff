"""The tree of the model's modules with the share of each that is fused, from the layers in a report."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence

from fusiondoc.model.report import Group, Instance, Report
from fusiondoc.reports.html.page_context import Context
from fusiondoc.reports.html.summary import Bar
from fusiondoc.reports.wording import count, outside, percent, seconds

_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Module:
    """A module with all modules in it. A module that only holds one other is one with that."""

    name: str
    """Below the module that it is in: ``attention.self``."""
    path: str
    fused: int
    """Operators in groups, over instances."""
    unfused: int
    """Operators outside every group."""
    ms: float | None
    """Of one launch of each kernel of its instances, in milliseconds; None where none was timed."""
    inside: tuple[Module, ...]

    @property
    def share(self) -> float | None:
        """Of its operators, how much is in groups."""
        total = self.fused + self.unfused
        return self.fused / total if total else None


def module_tree(report: Report) -> tuple[Module, ...]:
    """The outermost modules, by name. What has no layer is in none of them."""
    top = _Node()
    kernels = {k.id: k.ms.median for k in report.kernels if k.ms is not None}
    for group in report.groups:
        for one in group.instances if group.specialisation == 1 else ():
            if one.layer is not None:
                node = top.at(one.layer)
                node.fused += len(group.nodes)
                took = _took(group, one, kernels)
                if took is not None:
                    node.ms = (node.ms or 0.0) + took
    for row in outside(report):
        for layer, number in zip(row.layers, row.layer_counts):
            top.at(layer).unfused += number
    return top.modules("")


def _took(group: Group, one: Instance, kernels: Mapping[str, float]) -> float | None:
    """Milliseconds of one run of an instance. Segments run one after the other; without segments, several
    kernels are for several shapes, and the slowest counts."""
    known = [kernels[name] for name in one.kernels if name in kernels]
    if not known:
        return None
    return sum(known) if group.segments else max(known)


class _Node:
    def __init__(self) -> None:
        self.fused = 0
        self.unfused = 0
        self.ms: float | None = None
        self._inside: dict[str, _Node] = {}

    def at(self, path: str) -> _Node:
        node = self
        for name in path.split("."):
            node = node._inside.setdefault(name, _Node())
        return node

    def modules(self, path: str) -> tuple[Module, ...]:
        made = (node.module(name, path) for name, node in self._inside.items())
        return tuple(sorted(made, key=lambda one: _natural(one.name)))

    def module(self, name: str, above: str) -> Module:
        path = f"{above}.{name}" if above else name
        if len(self._inside) == 1 and not self.fused and not self.unfused:
            ((inner, node),) = self._inside.items()
            only = node.module(inner, path)
            return Module(f"{name}.{only.name}", only.path, only.fused, only.unfused, only.ms, only.inside)
        inside = self.modules(path)
        return Module(
            name,
            path,
            self.fused + sum(one.fused for one in inside),
            self.unfused + sum(one.unfused for one in inside),
            _sum([self.ms, *(one.ms for one in inside)]),
            inside,
        )


def _sum(times: Iterable[float | None]) -> float | None:
    known = [one for one in times if one is not None]
    return sum(known) if known else None


def _natural(name: str) -> list[tuple[int, str]]:
    """``layer.10`` comes after ``layer.9``."""
    return [(int(part), "") if nth % 2 else (0, part) for nth, part in enumerate(_NUMBER.split(name))]


MOST_MODULES = 1500

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
