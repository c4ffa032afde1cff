"""A fusion group as it is compared: operators at places that mean the same on both sides, types without what
is no change. No name, number or id is in it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Sequence, Tuple

from fusiondoc.comparison.places import NOWHERE, Place, Places, Token
from fusiondoc.model.report import Group, OpNode, Report

_GRAD = re.compile(r", requires_grad=[01]|requires_grad=[01](?:, )?")

Key = Tuple[str, Tuple[int, int], Tuple[int, int]]
"""(operator, place of its source, place of the user's line)."""

_NONE: Token = (-1, 0)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator at its place."""

    node: OpNode
    op: str
    place: Place
    user: Place

    @property
    def key(self) -> Key:
        return (self.op, self.place.token or _NONE, self.user.token or _NONE)

    @property
    def strong(self) -> tuple[str, Token] | None:
        """Operator and line, where that says which operator it is."""
        if self.place.token is not None and not self.place.weak:
            return (self.op, self.place.token)
        if self.user.token is not None and not self.user.weak:
            return (self.op, self.user.token)
        return None

    @property
    def elsewhere(self) -> bool:
        """Its line is on the other side too: of two such lines that are not the same, none became the
        other."""
        place = self.place if self.place.token is not None and not self.place.weak else self.user
        return place.aligned and not place.weak


@dataclass(frozen=True, eq=False)
class Item:
    """An instance of a group of one side."""

    index: int
    group: Group
    nodes: tuple[Node, ...]
    keys: tuple[Key, ...]
    """Sorted: the order in which a graph lists independent operators says nothing."""
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def types(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.inputs, self.outputs


def items_of(report: Report, side: int, places: Places) -> list[Item]:
    """The groups of a report, in its order: one for each instance."""
    items: list[Item] = []
    for group in report.groups:
        first = _item(len(items), group, side, places)
        items += [replace(first, index=first.index + nth) for nth in range(group.count)]
    return items


def _item(index: int, group: Group, side: int, places: Places) -> Item:
    nodes = tuple(
        Node(node, node.op, places.of(side, node.source), places.of(side, node.user_source))
        for node in group.nodes
    )
    return Item(
        index,
        group,
        nodes,
        tuple(sorted(node.key for node in nodes)),
        tuple(sorted(node.op for node in nodes)),
        tuple(sorted(map(plain_type, group.inputs))),
        tuple(sorted(map(plain_type, group.outputs))),
    )


def plain_type(text: str) -> str:
    """A printed type without ``requires_grad``, which no kernel depends on."""
    return _GRAD.sub("", text)


class Overlap:
    """How much two sets of nodes have in common, and what is left of both."""

    def __init__(self, a: Sequence[Node], b: Sequence[Node]) -> None:
        strong_b = Counter(filter(None, (node.strong for node in b)))
        left_a: list[Node] = []
        for node in a:
            key = node.strong
            if key is not None and strong_b[key]:
                strong_b[key] -= 1
            else:
                left_a.append(node)
        self.strong = len(a) - len(left_a)
        left_b: list[Node] = []
        for node in b:
            key = node.strong
            if key is not None and strong_b[key]:
                strong_b[key] -= 1
                left_b.append(node)
            elif key is None:
                left_b.append(node)
        self.formulas = 0
        """Operators of the same line of an autodiff formula: the same formula, perhaps of another call."""
        self.weak = 0
        """Operators told by their name alone."""
        self.left_b = left_b
        self.left_a: list[Node] = []
        # Formulas at the same place first, then any operator of that name whose place does not forbid it.
        for same_place in (True, False):
            rest: list[Node] = []
            for node in left_a:
                at = _partner(node, self.left_b, same_place)
                if at is None:
                    rest.append(node)
                else:
                    del self.left_b[at]
                    if same_place:
                        self.formulas += 1
                    else:
                        self.weak += 1
            left_a = rest
        self.left_a = left_a
        total = len(a) + len(b)
        common = self.strong + _FORMULA * self.formulas + _WEAK * self.weak
        self.likeness = 2 * common / total if total else 1.0
        """From 0 to 1."""
        smaller = min(len(a), len(b))
        self.share = common / smaller if smaller else 1.0
        """Share of the smaller one that is in the other."""


_FORMULA = 0.9
_WEAK = 0.75
"""What operators count that are told by their formula's line, and by their name."""


def _partner(node: Node, others: Sequence[Node], same_place: bool) -> int | None:
    for at, other in enumerate(others):
        if other.op != node.op:
            continue
        if same_place:
            if other.key == node.key and node.place is not NOWHERE:
                return at
        elif not (node.elsewhere and other.elsewhere):
            return at
    return None
