"""The operators of a report by module of the model, from the layers of its rows.

The tree of modules with the share of each that is fused, and paths that differ in
numbers only as one (``layer.[0-11]``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fusiondoc.model import dataclass
from fusiondoc.model.report import Group, Instance, Report, Unfused
from fusiondoc.numbers import all_whole, in_natural_order

NO_OPERATORS = ("prim::GetAttr",)
"""Nodes with a tensor that read a module's attribute: they are in the JSON report,
but noise for a reader."""


def outside(report: Report) -> list[Unfused]:
    """Return the unfused operators that are worth showing: those that ran."""
    rows = []
    for row in report.unfused:
        if row.op not in NO_OPERATORS and row.may_have_run:
            rows.append(row)
    return rows


@dataclass(frozen=True)
class InLayer:
    """Numbers of operators of one or more modules: in groups (over instances) and
    outside them."""

    fused: int = 0
    unfused: int = 0

    @property
    def share(self) -> float | None:
        """Share of the operators that is in groups; None if there are none."""
        total = self.fused + self.unfused
        if total:
            return self.fused / total
        return None

    def __add__(self, other: InLayer) -> InLayer:
        return InLayer(self.fused + other.fused, self.unfused + other.unfused)


def operators_by_layer(report: Report) -> dict[str, InLayer]:
    """The operators directly in each module, without those of its submodules;
    operators without a layer are left out."""
    found: dict[str, InLayer] = {}
    for group in report.groups:
        for instance in group.instances if group.specialisation == 1 else ():
            if instance.layer is not None:
                found[instance.layer] = found.get(
                    instance.layer, InLayer()
                ) + InLayer(fused=group.size)
    for row in outside(report):
        for layer, number in zip(row.layers, row.layer_counts):
            found[layer] = found.get(layer, InLayer()) + InLayer(unfused=number)
    return found


@dataclass(frozen=True)
class Module:
    """A module with all its submodules. A module that only holds one other is
    merged with it."""

    name: str
    """Name relative to the module that holds it: ``attention.self``."""
    path: str
    fused: int
    """Operators in groups, over instances."""
    unfused: int
    """Operators outside every group."""
    ms: float | None
    """Milliseconds of one launch of each kernel of its instances; None if none was
    timed."""
    inside: tuple[Module, ...]

    @property
    def share(self) -> float | None:
        """Share of its operators that is in groups."""
        return InLayer(self.fused, self.unfused).share


def module_tree(report: Report) -> tuple[Module, ...]:
    """Return the outermost modules, by name. Operators without a layer are in none
    of them."""
    top = _Node()
    for layer, has in operators_by_layer(report).items():
        node = top.at(layer)
        node.fused, node.unfused = has.fused, has.unfused
    kernels = {}
    for k in report.kernels:
        if k.ms is not None:
            kernels[k.id] = k.ms.median
    for group in report.groups:
        for instance in group.instances if group.specialisation == 1 else ():
            took = None
            if instance.layer is not None:
                took = _took(group, instance, kernels)
            if instance.layer is not None and took is not None:
                node = top.at(instance.layer)
                node.ms = (node.ms or 0.0) + took
    return top.modules("")


def _took(
    group: Group, instance: Instance, kernels: Mapping[str, float]
) -> float | None:
    """Milliseconds of one run of an instance. Segments run one after the other;
    without segments, several kernels are for several shapes, and the slowest
    counts."""
    known = []
    for name in instance.kernels:
        if name in kernels:
            known.append(kernels[name])
    if not known:
        return None
    if group.segments:
        return sum(known)
    return max(known)


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
        return tuple(sorted(made, key=lambda module: in_natural_order(module.name)))

    def module(self, name: str, above: str) -> Module:
        path = f"{above}.{name}" if above else name
        if len(self._inside) == 1 and not self.fused and not self.unfused:
            ((inner, node),) = self._inside.items()
            only = node.module(inner, path)
            return Module(
                f"{name}.{only.name}",
                only.path,
                only.fused,
                only.unfused,
                only.ms,
                only.inside,
            )
        inside = self.modules(path)
        return Module(
            name,
            path,
            self.fused + sum(module.fused for module in inside),
            self.unfused + sum(module.unfused for module in inside),
            _sum([self.ms, *(module.ms for module in inside)]),
            inside,
        )


def _sum(times: Iterable[float | None]) -> float | None:
    known = []
    for milliseconds in times:
        if milliseconds is not None:
            known.append(milliseconds)
    if known:
        return sum(known)
    return None


_PATH_NUMBER = re.compile(r"(\d+)")
_Numbers = tuple["tuple[int, ...]", ...]
"""For each number in a path, the values that are folded into it."""


def fold(layers: Iterable[str | None]) -> list[str]:
    """Return ``encoder.layer.[0-11].output`` for the twelve paths that differ in
    this number only.

    The result has the order of the first path of each. Paths with several numbers
    fold if all combinations exist: ``layer[1-4].[0-1].bn1``.
    """
    skeletons: dict[tuple[str, ...], dict[_Numbers, None]] = {}
    for layer in layers:
        if layer:
            parts = _PATH_NUMBER.split(layer)
            numbers = all_whole(parts[1::2])
            if (
                numbers is None or list(map(str, numbers)) != parts[1::2]
            ):  # "007" is a name
                skeletons.setdefault((layer,), {})[()] = None
            else:
                skeletons.setdefault(tuple(parts[::2]), {})[
                    tuple((number,) for number in numbers)
                ] = None
    return [
        _written(texts, numbers)
        for texts, several in skeletons.items()
        for numbers in _merged(list(several))
    ]


def folded(layers: Iterable[str | None], most: int = 3) -> str:
    """The patterns of ``fold`` in one text; "" without a layer. At most ``most``
    patterns are written out."""
    patterns = fold(layers)
    left = len(patterns) - most
    if left > 0:
        return ", ".join(patterns[:most]) + f" and {left:,} more"
    return ", ".join(patterns)


def _merged(rows: list[_Numbers]) -> list[_Numbers]:
    """Fold the rows, the last number first."""
    for position in reversed(range(len(rows[0]))):
        others: dict[tuple[_Numbers, _Numbers], list[int]] = {}
        for row in rows:
            others.setdefault((row[:position], row[position + 1 :]), []).extend(
                row[position]
            )
        rows = []
        for (before, after), here in others.items():
            rows.append((*before, tuple(sorted(set(here))), *after))
    return rows


def _written(texts: tuple[str, ...], numbers: _Numbers) -> str:
    written = texts[0]
    for several, text in zip(numbers, texts[1:]):
        written += (
            str(several[0]) if len(several) == 1 else f"[{_ranges(several)}]"
        ) + text
    return written


def _ranges(numbers: tuple[int, ...]) -> str:
    """``0-2,5`` of 0, 1, 2, 5."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def layers_of_kernels(report: Report) -> Mapping[str, tuple[str, ...]]:
    """The layers of each kernel, by the kernel's id: those of the instances that it
    runs; if these are not known, those of its groups."""
    found: dict[str, dict[str, None]] = {}
    for group in report.groups:
        known_by_instance = any(instance.kernels for instance in group.instances)
        for instance in group.instances:
            for kernel in (
                (instance.kernels if known_by_instance else group.kernels)
                if instance.layer
                else ()
            ):
                found.setdefault(kernel, {})[str(instance.layer)] = None
    return {kernel: tuple(layers) for kernel, layers in found.items()}
