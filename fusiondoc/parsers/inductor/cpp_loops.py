"""The loop nests of a generated C++ function (``torch/_inductor/codegen/cpp.py``):
a function contains the nests of several final nodes, one after the other, and they
are not fused with each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_BRACE = re.compile(r"[{}]")
_ALIAS = re.compile(r"auto (\w+) = (\w+);")
_STORED = re.compile(r"\bstore\(\s*(\w+)")
_ASSIGNED = re.compile(r"^\s*(\w+)\[.*\]\s*=[^=]", re.MULTILINE)
_ADDED = re.compile(
    r"\batomic_add\w*(?:<[^()]*>)?\(\s*&?\s*(\w+)|^\s*(\w+)\[.*\]\s*[-+*/|&^]=[^=]",
    re.MULTILINE,
)
"""Stores that update the stored value: they also read it."""
_POINTER = re.compile(r"\b(?:in|out|in_out)_ptr\d+\b")
_PARALLEL = "#pragma omp parallel"


class LoopNest(NamedTuple):
    """A loop nest: the pointers that it reads and writes, by the parameter names of
    the function."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def loop_nests(code: str) -> list[LoopNest]:
    """Return the loop nests of a function in order; [] for a text that is no such
    function."""
    start = code.find("{", code.find("kernel("))
    if start < 0:
        return []
    aliases = dict(_ALIAS.findall(code))
    nests = []
    for text in _blocks(code, start):
        nest = _nest(text, aliases)
        if nest.reads or nest.writes:
            nests.append(nest)
    return nests


def _blocks(code: str, start: int) -> list[str]:
    """Return the texts of the blocks directly inside the function; blocks inside a
    parallel region are separate texts."""
    blocks: list[str] = []
    depth, begun, base = 0, start, 1
    for brace in _BRACE.finditer(code, start):
        at = brace.start()
        if brace.group() == "{":
            if depth == base:
                if base == 1 and _PARALLEL in code[begun:at]:
                    base = 2
                begun = at
            depth += 1
            continue
        depth -= 1
        if depth == base and base <= 2:
            blocks.append(code[begun:at])
            begun = at
        elif depth < base:
            base, begun = 1, at
        if depth <= 0:
            break
    return blocks


def _nest(text: str, aliases: dict[str, str]) -> LoopNest:
    """Return the pointers that a nest reads before it writes to them, and the
    pointers that it writes."""
    stores: dict[str, int] = {}
    for form in (_STORED, _ASSIGNED):
        for found in form.finditer(text):
            name, at = found.group(1), found.start(1)
            stores[name] = min(at, stores.get(name, at))
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for found in _ADDED.finditer(text):
        name = found.group(1) or found.group(2)
        if _POINTER.fullmatch(name) is not None:
            own = aliases.get(name, name)
            reads[own] = writes[own] = None
    for found in _POINTER.finditer(text):
        name = found.group()
        own = aliases.get(name, name)
        if name in stores:
            writes[own] = None
        if own in reads:
            continue
        first_store = min(stores.get(one, len(text)) for one in (name, own))
        if found.start() < first_store:
            reads[own] = None
    return LoopNest(tuple(reads), tuple(writes))


def nests_of_nodes(
    nests: Sequence[set[int]], nodes: Sequence[set[int]]
) -> list[list[int]]:
    """Return the loop nests of each node of a function. The nests of a node are
    consecutive.

    Args:
        nests: numbers of the buffers that each nest writes. If several nests write
            the same memory, only the last has the name of its node: the earlier
            ones changed the memory under other names.
        nodes: numbers of the members of each node, in the scheduler's order.

    Returns:

        For each node its nests in order; [] if they are not known.
    """
    owners = _last_writers(nests, nodes)
    if not _fill_in_order(owners, len(nodes)):
        _give_those_before(owners, nests, nodes)
        _fill_in_order(owners, len(nodes))
    if None in owners and set(owners) < {None, *range(len(nodes))}:
        return [[] for _ in nodes]
    _give_to_the_next(owners)
    return [
        [at for at, owner in enumerate(owners) if owner == node]
        for node in range(len(nodes))
    ]


def nests_without_node(nests: Sequence[set[int]], nodes: Sequence[set[int]]) -> int:
    """Return the number of nests without a node minus the number of nodes without a
    nest."""
    owners = _last_writers(nests, nodes)
    _give_those_before(owners, nests, nodes)
    without_nest = sum(index not in owners for index in range(len(nodes)))
    return owners.count(None) - without_nest


def _last_writers(
    nests: Sequence[set[int]], nodes: Sequence[set[int]]
) -> list[int | None]:
    """Return, for each nest, the node of which it is the last nest that writes one
    of the node's buffers; None for other nests."""
    node_of = {}
    for index, numbers in enumerate(nodes):
        for number in numbers:
            node_of[number] = index
    last = {}
    for at, written in enumerate(nests):
        for number in written:
            last[number] = at
    owners: list[int | None] = [None] * len(nests)
    for number, at in last.items():
        if number in node_of:
            owners[at] = node_of[number]
    return owners


def _fill_in_order(owners: list[int | None], nodes: int) -> bool:
    """Assign the nests without a node to the nodes without a nest in order, and
    return True, if there are as many."""
    without = [at for at, owner in enumerate(owners) if owner is None]
    left = [node for node in range(nodes) if node not in owners]
    if len(without) != len(left):
        return False
    for at, node in zip(without, left):
        owners[at] = node
    return True


def _give_those_before(
    owners: list[int | None], nests: Sequence[set[int]], nodes: Sequence[set[int]]
) -> None:
    """Assign to a node the nests directly before its own that write one of its
    buffers."""
    for at in range(len(owners) - 2, -1, -1):
        following = owners[at + 1]
        if (
            owners[at] is None
            and following is not None
            and nodes[following] & nests[at]
        ):
            owners[at] = following


def _give_to_the_next(owners: list[int | None]) -> None:
    """Assign the remaining nests to the next node: the buffer that such a nest
    writes gets another name later."""
    following: int | None = None
    for at in range(len(owners) - 1, -1, -1):
        following = owners[at] if owners[at] is not None else following
        owners[at] = following
