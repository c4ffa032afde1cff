"""Match the groups of A with those of B, by their operators and positions; never by
name, id or order.

Groups are compared by their operators, at positions that correspond on both sides,
and by types without insignificant differences. First by exact keys (operators at
the same positions, then with other types), then the rest by likeness; a group left
over may be a part of a split group, or may have been merged into another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from fusiondoc.alignment import candidates, greedy, pair_equal
from fusiondoc.comparison.positions import NOWHERE, Position, Token, split_source
from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Group, OpNode

_GRAD = re.compile(r", requires_grad=[01]|requires_grad=[01](?:, )?")

Key = tuple[str, tuple[int, int], tuple[int, int]]
"""(operator, position of its source, position of the user's line)."""

_NONE: Token = (-1, 0)


@dataclass(frozen=True, eq=False)
class PositionedNode:
    """An operator with its position."""

    node: OpNode
    op: str
    position: Position
    user: Position

    @property
    def key(self) -> Key:
        return (self.op, self.position.token or _NONE, self.user.token or _NONE)

    @property
    def strong(self) -> tuple[str, Token] | None:
        """Operator and line, if the line identifies it."""
        if self.position.token is not None and not self.position.weak:
            return (self.op, self.position.token)
        if self.user.token is not None and not self.user.weak:
            return (self.op, self.user.token)
        return None

    @property
    def elsewhere(self) -> bool:
        """Whether its line exists on the other side too: if two such lines differ,
        neither became the other."""
        if self.position.token is not None and not self.position.weak:
            position = self.position
        else:
            position = self.user
        return position.aligned and not position.weak


@dataclass(frozen=True, eq=False)
class GroupInstance:
    """An instance of a group of one side."""

    index: int
    group: Group
    nodes: tuple[PositionedNode, ...]
    keys: tuple[Key, ...]
    """Sorted keys: the order in which a graph lists independent operators has no
    meaning."""
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layer: str | None = None

    @property
    def types(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.inputs, self.outputs


def items_of(
    groups: Iterable[Group], position_of: Callable[[str | None], Position]
) -> list[GroupInstance]:
    """Return the groups of one side, in their order, one item for each instance.
    ``position_of`` gives the position, on both sides, of a ``file:line:column`` of
    this side."""
    items: list[GroupInstance] = []
    for group in groups:
        first = _item(len(items), group, position_of)
        layers = [instance.layer for instance in group.instances]
        layers += [None] * (group.count - len(layers))
        for nth, layer in enumerate(layers):
            items.append(replace(first, index=first.index + nth, layer=layer))
    return items


def _item(
    index: int, group: Group, position_of: Callable[[str | None], Position]
) -> GroupInstance:
    nodes = []
    for node in group.nodes:
        nodes.append(
            PositionedNode(
                node,
                node.op,
                position_of(node.source),
                position_of(node.user_source),
            )
        )
    return GroupInstance(
        index,
        group,
        tuple(nodes),
        tuple(sorted(node.key for node in nodes)),
        tuple(sorted(node.op for node in nodes)),
        tuple(sorted(map(plain_type, group.inputs))),
        tuple(sorted(map(plain_type, group.outputs))),
    )


def plain_type(text: str) -> str:
    """A printed type without ``requires_grad``, which no kernel depends on."""
    return _GRAD.sub("", text)


class Overlap:
    """The common nodes of two sets of nodes, and the rest of both."""

    def __init__(
        self, a: Sequence[PositionedNode], b: Sequence[PositionedNode]
    ) -> None:
        strong_b = Counter(filter(None, (node.strong for node in b)))
        left_a: list[PositionedNode] = []
        for node in a:
            key = node.strong
            if key is not None and strong_b[key]:
                strong_b[key] -= 1
            else:
                left_a.append(node)
        self.strong = len(a) - len(left_a)
        left_b: list[PositionedNode] = []
        for node in b:
            key = node.strong
            if key is not None and strong_b[key]:
                strong_b[key] -= 1
                left_b.append(node)
            elif key is None:
                left_b.append(node)
        self.formulas = 0
        """Number of operators on the same line of an autodiff formula: the same
        formula, perhaps of another call."""
        self.weak = 0
        """Number of operators identified by their name alone."""
        self.left_b = left_b
        self.left_a: list[PositionedNode] = []
        # Formulas at the same position first, then any operator of that name that
        # its position allows.
        for same_position in (True, False):
            rest: list[PositionedNode] = []
            for node in left_a:
                at = _partner(node, self.left_b, same_position)
                if at is None:
                    rest.append(node)
                else:
                    del self.left_b[at]
                    if same_position:
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
        """Share of the smaller set that is in the other."""


_FORMULA = 0.9
_WEAK = 0.75
"""Weight of operators that are identified by the line of their formula, and by
their name."""


def _partner(
    node: PositionedNode, others: Sequence[PositionedNode], same_position: bool
) -> int | None:
    for at, other in enumerate(others):
        if other.op != node.op:
            continue
        if same_position:
            if other.key == node.key and node.position is not NOWHERE:
                return at
        elif not (node.elsewhere and other.elsewhere):
            return at
    return None


LEAST_LIKENESS = 0.6
"""Least likeness for two groups identified only by names of operators to be the
same."""

LEAST_SHARE = 0.5
"""Least share of a group's operators that must be in another group for it to count
as a part of that."""

_MOST_CANDIDATES = 40_000
"""Most pairs that are compared: 200 groups of the same operators, which no line
distinguishes, take two seconds. With more, each is compared only with those at
about the same position."""


@dataclass
class Cluster:
    """Groups of A and the groups that they became in B: usually one of each."""

    a: list[GroupInstance] = field(default_factory=list)
    b: list[GroupInstance] = field(default_factory=list)


def match(
    a: list[GroupInstance],
    b: list[GroupInstance],
    content: Callable[[GroupInstance], Any],
) -> list[Cluster]:
    """Put every group of both sides into exactly one cluster.

    Args:
        content: further facts about a group (runs, kernels), equal on both sides if
            nothing changed; they decide between groups of equal structure.
    """
    left_a, left_b = list(a), list(b)
    pairs: list[tuple[GroupInstance, GroupInstance]] = []
    for key in _KEYS:
        pairs += pair_equal(left_a, left_b, key, content)
    pairs += _alike(left_a, left_b)
    clusters = [Cluster([item], [other]) for item, other in pairs]
    _join_parts(clusters, left_a, left_b)
    clusters += [Cluster(a=[item]) for item in left_a]
    clusters += [Cluster(b=[item]) for item in left_b]
    return clusters


def _full(item: GroupInstance) -> Hashable:
    return (item.group.rank, item.group.phase, item.keys, item.inputs, item.outputs)


_KEYS: tuple[Callable[[GroupInstance], Hashable], ...] = (
    lambda item: (_full(item), item.layer),
    _full,
    lambda item: (item.group.rank, item.group.phase, item.keys, item.inputs),
    lambda item: (item.group.phase, item.keys, item.inputs, item.outputs),
    lambda item: (
        item.group.rank,
        item.group.phase,
        item.keys,
        item.group.specialisation,
    ),
    lambda item: (item.group.phase, item.keys),
)
"""From all facts to operators and positions alone. Equal groups in the same module
count as the same: the one left over is then the group whose module lost it."""


def compatible(item: GroupInstance, other: GroupInstance) -> bool:
    """True if the phases may be equal; the phase is None in a log that does not
    distinguish forward from backward."""
    return item.group.phase == other.group.phase or None in (
        item.group.phase,
        other.group.phase,
    )


def _strong_keys(item: GroupInstance) -> list[Hashable]:
    strong_keys: list[Hashable] = []
    for node in item.nodes:
        if node.strong is not None:
            strong_keys.append(node.strong)
    return strong_keys


def _weak_keys(item: GroupInstance) -> list[Hashable]:
    """Keys by names: the whole set of operators, and each operator that its line
    does not identify."""
    single: list[Hashable] = []
    for node in item.nodes:
        if node.strong is None:
            single.append(node.key)
    return [*single, ("", item.ops)]


def _alike(
    left_a: list[GroupInstance], left_b: list[GroupInstance]
) -> list[tuple[GroupInstance, GroupInstance]]:
    """The most similar pairs of the groups that no key paired; they are removed
    from both lists."""
    wanted = candidates(left_a, left_b, _strong_keys, _MOST_CANDIDATES)
    wanted += candidates(left_a, left_b, _weak_keys, _MOST_CANDIDATES)
    pairs = _best(left_a, left_b, wanted)
    # Changed lines give no position: then the order in the source decides.
    return pairs + _best(left_a, left_b, _near_in_source(left_a, left_b))


def _near_in_source(
    left_a: list[GroupInstance], left_b: list[GroupInstance]
) -> list[tuple[int, int]]:
    """Pairs of groups at about the same position in the order of files and
    lines."""
    ranks = [
        sorted(range(len(side)), key=lambda n: _position(side[n]))
        for side in (left_a, left_b)
    ]
    found = []
    for number, i in enumerate(ranks[0]):
        at = number * len(ranks[1]) // len(ranks[0])
        found += [(i, j) for j in ranks[1][max(0, at - _NEAR) : at + _NEAR]]
    return found


_NEAR = 8


def _position(item: GroupInstance) -> tuple[str, str, int, int]:
    positions = []
    for node in item.nodes:
        if node.strong and node.node.source is not None:
            positions.append(split_source(node.node.source))
    file, line, _ = min(positions, default=("", 0, 0))
    return (item.group.phase or "", file.rpartition("/")[2], line, item.index)


def _best(
    left_a: list[GroupInstance],
    left_b: list[GroupInstance],
    wanted: list[tuple[int, int]],
) -> list[tuple[GroupInstance, GroupInstance]]:
    """The pairs of highest likeness among those wanted; they are removed from both
    lists."""
    scored = []
    for i, j in dict.fromkeys(wanted):
        first, other = left_a[i], left_b[j]
        if not compatible(first, other):
            continue
        overlap = Overlap(first.nodes, other.nodes)
        if overlap.strong or overlap.formulas > 1:
            if overlap.share < LEAST_SHARE:
                continue
        elif overlap.likeness < LEAST_LIKENESS:
            continue
        scored.append((overlap.likeness + _bonus(first, other), i, j))
    pairs = [(left_a[i], left_b[j]) for i, j in greedy(scored)]
    for members, side in ((left_a, 0), (left_b, 1)):
        gone = {id(pair[side]) for pair in pairs}
        members[:] = [member for member in members if id(member) not in gone]
    return pairs


def _bonus(item: GroupInstance, other: GroupInstance) -> float:
    """A small score to decide between pairs with equally similar operators."""
    return (
        0.02 * (item.inputs == other.inputs)
        + 0.01 * (item.outputs == other.outputs)
        + 0.01 * (item.group.phase == other.group.phase)
        + 0.005 * (item.group.rank == other.group.rank)
    )


def _join_parts(
    clusters: list[Cluster],
    left_a: list[GroupInstance],
    left_b: list[GroupInstance],
) -> None:
    """Add a leftover group to the cluster whose other side contains its operators
    and has them to spare."""
    for left, whole, parts in ((left_b, "a", "b"), (left_a, "b", "a")):
        changed = []
        for cluster in clusters:
            if _spare(getattr(cluster, whole), getattr(cluster, parts)):
                changed.append(cluster)
        keys: dict[Hashable, list[int]] = {}
        for index, cluster in enumerate(changed):
            for item in getattr(cluster, whole):
                for node in item.nodes:
                    row = keys.setdefault(node.strong or node.op, [])
                    if not row or row[-1] != index:
                        row.append(index)
        for item in list(left):
            best = _best_whole(item, changed, keys, whole, parts)
            if best is not None:
                getattr(best, parts).append(item)
                left.remove(item)


def _spare(
    whole: list[GroupInstance], parts: list[GroupInstance]
) -> list[PositionedNode]:
    """Operators of ``whole`` that are not in ``parts``."""
    return Overlap(nodes_of(whole), nodes_of(parts)).left_a


def _best_whole(
    item: GroupInstance,
    changed: list[Cluster],
    keys: dict[Hashable, list[int]],
    whole: str,
    parts: str,
) -> Cluster | None:
    best: tuple[float, Cluster] | None = None
    positions = dict.fromkeys(
        index
        for node in item.nodes
        for index in keys.get(node.strong or node.op, ())[:_MOST_WHOLES]
    )
    for index in positions:
        cluster = changed[index]
        if not compatible(getattr(cluster, whole)[0], item):
            continue
        overlap = Overlap(
            item.nodes, _spare(getattr(cluster, whole), getattr(cluster, parts))
        )
        known = overlap.strong + 0.9 * overlap.formulas
        share = (known + overlap.weak * (0.75 if known else 0.6)) / max(
            1, len(item.nodes)
        )
        if share >= LEAST_SHARE and (best is None or share > best[0]):
            best = (share, cluster)
    if best:
        return best[1]
    return None


_MOST_WHOLES = 64


def nodes_of(items: Sequence[GroupInstance]) -> list[PositionedNode]:
    """The operators of several groups."""
    nodes: list[PositionedNode] = []
    for item in items:
        nodes.extend(item.nodes)
    return nodes
