"""The loop nests of a generated C++ function (``torch/_inductor/codegen/cpp.py``): a function holds those of
several final nodes, one after the other, and they are not fused with each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_BRACE = re.compile(r"[{}]")
_ALIAS = re.compile(r"auto (\w+) = (\w+);")
_STORED = re.compile(r"\bstore\(\s*(\w+)")
_ASSIGNED = re.compile(r"^\s*(\w+)\[.*\]\s*=[^=]", re.MULTILINE)
_ADDED = re.compile(
    r"\batomic_add\w*(?:<[^()]*>)?\(\s*&?\s*(\w+)|^\s*(\w+)\[.*\]\s*[-+*/|&^]=[^=]", re.MULTILINE
)
"""Stores that change what is there: they read it too."""
_POINTER = re.compile(r"\b(?:in|out|in_out)_ptr\d+\b")
_PARALLEL = "#pragma omp parallel"


class LoopNest(NamedTuple):
    """A loop nest: the pointers that it reads and writes, by the names of the function's parameters."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def loop_nests(code: str) -> list[LoopNest]:
    """The loop nests of a function in their order; none of a text that is no such function."""
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
    """The texts in braces directly inside of the function; those of a parallel region by themselves."""
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
    """What a nest reads before it writes to it, and what it writes."""
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
        first_store = min(stores.get(one, len(text)) for one in (name, own))
        if found.start() < first_store:
            reads[own] = None
    return LoopNest(tuple(reads), tuple(writes))


def shared_out(nests: Sequence[set[int]], nodes: Sequence[set[int]]) -> list[list[int]] | None:
    """The loop nests of each node of a function.

    Args:
        nests: numbers of the buffers that each nest writes.
        nodes: numbers of the members of each node.

    Returns:
        For each node its nests in order; None where that is not known.
    """
    owners: list[int | None] = []
    for written in nests:
        owners.append(next((index for index, own in enumerate(nodes) if own & written), None))
    following: int | None = None
    for index in range(len(owners) - 1, -1, -1):
        # What it writes goes by another name later: the next nest goes on with it.
        following = owners[index] if owners[index] is not None else following
        owners[index] = following
    if len(nests) == len(nodes) and set(owners) != set(range(len(nodes))):
        owners = [*range(len(nodes))]
    if set(owners) != set(range(len(nodes))):
        return None
    return [[at for at, owner in enumerate(owners) if owner == node] for node in range(len(nodes))]
