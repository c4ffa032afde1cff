"""The body of a printed fusion group: its operators, its types and its key in the
fuser's kernel cache.

The key is the graph without value names and sources, but with the scopes that
tracing adds, as ``Node::print`` writes it without source locations. So groups from
other source lines can have the same key, but groups of other traced layers cannot
(torch/csrc/jit/codegen/cuda/manager.cpp, registerOrGetCacheId).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model.groups import Wiring
from fusiondoc.parsers.jit import SizedOnly
from fusiondoc.parsers.jit.layers import Layers
from fusiondoc.parsers.jit.patterns import Canonical
from fusiondoc.parsers.jit.plan import PlanGroup

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Graph, Node

_SYMBOL = re.compile(r"SS\((-?\d+)\)")
"""A symbolic size; its number serves only as a name."""


class GroupNode(NamedTuple):
    """The node of a group in its plan."""

    line: int
    """Offset of the group's body in the dump."""
    values: tuple[str, ...] = ()
    """Names of the node's outputs."""
    conditional: bool = False
    """True if it is in a branch or loop of the program."""
    node: int = -1
    """Its index in the flow of its graph."""
    sized: tuple[SizedOnly, ...] = ()


def group_of(
    kind: str,
    name: str,
    body: Graph,
    at: GroupNode,
    layers: Layers,
    canonical: Canonical,
) -> PlanGroup:
    """Return the group of a printed body.

    Args:
        canonical: makes the digest of the key in the kernel cache.
    """
    every = list(body.walk())
    nodes = [node for node in every if node.kind != "prim::Constant"]
    rename = _Symbols()
    types = {
        value.name: value.type
        for value in chain(body.params, *(node.outputs for node in every))
    }
    return PlanGroup(
        kind,
        name,
        tuple([(node.kind, node.source) for node in nodes]),
        tuple([rename.in_type(value.type) for value in body.params]),
        tuple([rename.in_type(types.get(output, "")) for output in body.outputs]),
        at.line,
        at.values,
        canonical("\0".join(_cache_key(body, every))),
        layers.of_group(nodes),
        at.conditional,
        at.node,
        at.sized,
        _wiring(body, nodes),
    )


def _wiring(body: Graph, nodes: Sequence[Node]) -> Wiring:
    """Return how tensors flow between these nodes of a body, without constants."""
    made = {value.name: -1 - index for index, value in enumerate(body.params)}
    takes = []
    for index, node in enumerate(nodes):
        takes.append(tuple([made[name] for name in node.inputs if name in made]))
        made.update((value.name, index) for value in node.outputs)
    makes = tuple([made[name] for name in body.outputs if name in made])
    if len(makes) == len(body.outputs):
        return Wiring(tuple(takes), makes)
    return Wiring()


def _cache_key(body: Graph, nodes: Sequence[Node]) -> list[str]:
    """Return the words of the key: types, kinds, attributes and scopes, and numbers
    for values."""
    numbers = {value.name: number for number, value in enumerate(body.params)}
    words = [value.type for value in body.params]
    for node in nodes:
        words.append(node.kind)
        words += _numbers_of(node.inputs, numbers)
        if node.attributes:
            words += [
                "[",
                *chain.from_iterable(sorted(node.attributes.items())),
                "]",
            ]
        if node.scope:
            words += ("scope", node.scope)
        for value in node.outputs:
            numbers[value.name] = len(numbers)
            words += (":", value.type)
    words.append("return")
    words += _numbers_of(body.outputs, numbers)
    return words


def _numbers_of(names: Iterable[str], numbers: dict[str, int]) -> list[str]:
    return [str(numbers.get(name)) for name in names]


class _Symbols:
    """Renumbers the symbolic sizes of a group in order of appearance, from
    ``SS(-2)`` on."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def in_type(self, text: str) -> str:
        if "SS(" in text:
            return _SYMBOL.sub(self._renamed, text)
        return text

    def _renamed(self, found: re.Match[str]) -> str:
        return self._names.setdefault(
            found.group(1), f"SS(-{len(self._names) + 2})"
        )
