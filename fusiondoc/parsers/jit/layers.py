"""The layer of each node of a dump: the path of the module that it belongs to.

Traces write a scope behind each node (``torch/nn/modules/module.py``, ``_slow_forward``; printed by
``Node::print`` of torch/csrc/jit/ir/ir.cpp). Nodes that a pass made (the formulas of autodiff, merged views)
have none: there the parameters that they read and their neighbours tell it, or nothing does. Of a live run
the probe tells the modules of each operator of the inlined graph, in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model import dataclass
from fusiondoc.parsers.ir.types import holds_tensor
from fusiondoc.parsers.jit import GUARDS, is_guarded
from fusiondoc.parsers.jit.earlier_graphs import Around, Kept, LiveLayers, Regions
from fusiondoc.parsers.jit.held_values import HandedDown, Together, united

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Dump, Graph, Node


_DEEPEST = 60
"""Graphs in one another that are entered, as in plan.py."""


@dataclass(frozen=True)
class Layers:
    """Layers of the nodes of a dump, by the id of the node."""

    of: Mapping[int, str]
    between: AbstractSet[int]
    """The nodes for which only those around them tell it."""
    scopes: bool = False
    """The dump has scopes, which only tracing writes."""

    def of_group(self, nodes: Iterable[Node]) -> str | None:
        """The layer of these nodes together."""
        ids = [id(node) for node in nodes]
        sure = common_layer(self.of.get(one) for one in ids if one not in self.between)
        return sure or common_layer(self.of.get(one) for one in ids)


_BRACKETED = re.compile(r"\[([^\]]+)\]\Z")
_DIGITS = re.compile(r"\d+")


@lru_cache(maxsize=8192)
def layer_of_scope(scope: str | None) -> str | None:
    """``encoder.layer.0`` of what stands behind ``scope:``; None for the model itself.

    The forms: ``__module.encoder/__module.encoder.layer.0``, whole paths below one another (since torch 1.5);
    ``BertModel/BertLayer[layer]/Linear[q]``, names in the module above (until 1.4); and
    ``Model::/Linear::encoder.q``, whole paths (torch.onnx since 1.13, ``torch/onnx/utils.py``).
    """
    if not scope:
        return None
    parts = [part for part in scope.split("/") if part]
    if not parts:
        return None
    last = parts[-1]
    if last.startswith("__module"):
        return last[len("__module") :].lstrip(".") or None
    if "::" in last:
        return last.rpartition("::")[2] or None
    names = [found.group(1) for found in map(_BRACKETED.search, parts) if found]
    return ".".join(names) or None


def common_layer(layers: Iterable[str | None]) -> str | None:
    """The layer of a group of operators with these layers; None where none is known.

    It is their nearest common parent: of ``output.dropout``, ``output`` and ``output.LayerNorm`` it is
    ``output``. Where that is the whole model, or a list of layers (two of ``encoder.layer.0.output`` and one
    of ``encoder.layer.1.attention``), it is that of the part with the most of them, the first of equal ones.
    """
    paths = [tuple(layer.split(".")) for layer in layers if layer]
    while paths:
        depth = _shared(paths)
        below = [path[depth] for path in paths if len(path) > depth]
        if depth and not (len(below) == len(paths) and _are_layers(paths, depth)):
            return ".".join(paths[0][:depth])
        most = Counter(below).most_common(1)[0][0]
        paths = [path for path in paths if path[depth] == most]
    return None


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """How many names all begin with."""
    first, last = min(paths), max(paths)
    return next(
        (i for i, (a, b) in enumerate(zip(first, last)) if a != b),
        min(len(first), len(last)),
    )


def _are_layers(paths: Sequence[tuple[str, ...]], depth: int) -> bool:
    """Whether the modules at this depth differ in a number only, and hold further modules."""
    names = {_DIGITS.sub("#", path[depth]) for path in paths}
    return len(names) == 1 and "#" in next(iter(names)) and any(len(path) > depth + 1 for path in paths)


def layers_of(dump: Dump, regions: Regions) -> Layers:
    """The layer of every node for which something tells it.

    A node with a place in a file but no scope, in a graph with scopes, is of the model itself. Without any
    scope (scripted models), a node that reads parameters of one module is taken to be of it.

    Args:
        regions: of the plans before this one; those of this one are added.
    """
    reading = _Reading(dump)
    reading.graph(dump.graph, regions)
    reading.infer()
    for names, around, returned in reading.surroundings():
        regions.learn(names, around)
        regions.keep(returned)
    return Layers(reading.told, reading.between, reading.scopes)


_NONE: frozenset[str] = frozenset()


class _Region(NamedTuple):
    """A differentiable graph: values are numbers."""

    names: tuple[str, ...]
    inputs: list[int]
    outputs: list[int]
    inside: slice
    """Its nodes among those read."""
    returned: list[tuple[str, str, int]]
    """What its graph returns, its name and type there: its outputs, and what its gradient needs."""


class _Reading:
    """Values have numbers here: names repeat between a graph and the bodies of its groups."""

    def __init__(self, dump: Dump) -> None:
        self.told: dict[int, str] = {}
        self.between: set[int] = set()
        self._owner: dict[int, str] = {}
        """Parameter or buffer -> its module."""
        self._dump = dump
        self._module: dict[int, str] = {}
        self._parts: dict[int, list[int]] = {}
        """A list, tuple or result of control flow -> what it holds."""
        self._before: dict[int, frozenset[str]] = {}
        """The layers of what makes a value, or of what stands before that, if nothing tells its own."""
        self._after: dict[int, frozenset[str]] = {}
        """The layers of what takes a value, or of what stands behind that."""
        self._nodes_read: list[tuple[Node, list[int], list[int]]] = []
        self._depth = 0
        self._regions: list[_Region] = []
        self._captured: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
        """Of a value that a gradient takes from the forward pass: the layers of what made or took it; twice,
        for ``_both``."""
        self._live: Sequence[LiveLayers] = ()
        self._several = False
        """The paths of live layers begin with the name of a model, which no scope has."""
        self._by_live: dict[int, tuple[str, str]] = {}
        """Of a node of a live run: its key, and its layer."""
        self.scopes = False
        self._count = 0
        self._before_all = Together(self._parts, self._before.get, united)
        # No method of this object: it would hold itself and the graph, and no cycle is collected meanwhile.
        self._captured_all = Together(self._parts, self._captured.get, _both)

    def graph(self, graph: Graph, regions: Regions) -> None:
        env: dict[str, int] = {}
        for place, value in enumerate(graph.params):
            number = self._define(env, value.name)
            if not place and value.type.startswith("__torch__."):
                self._module[number] = ""
        around = regions.around(tuple(env))
        self._live = regions.live
        self._several = len(regions.live) > 1
        if around is not None:
            self._live = (dict(around.live),)
            for name, layers in zip(env, around.captured):
                if layers:
                    self._captured[env[name]] = frozenset(layers), frozenset(layers)
            for name, owner, before in zip(env, around.owners, around.before):
                self._before[env[name]] = frozenset(before)
                if owner is not None:
                    self._owner[env[name]] = owner
        self._nodes(graph.nodes, env)
        if around is not None:
            for name, after in zip(graph.outputs, around.after):
                if name in env:
                    self._after[env[name]] = frozenset(after)

    def _define(self, env: dict[str, int], name: str) -> int:
        self._count += 1
        env[name] = self._count
        return self._count

    def _nodes(self, nodes: Iterable[Node], env: dict[str, int]) -> None:
        if self._depth > _DEEPEST:
            return
        self._depth += 1
        for node in nodes:
            kind = node.kind
            if kind == "prim::Constant" or kind == "prim::FallbackGraph":
                continue
            inputs = [env[name] for name in node.inputs if name in env]
            body = self._dump.resolve(node)
            if kind == "prim::GetAttr":
                self._attribute(node, inputs, env)
            elif body is not None:
                params = body.params
                inner = {p.name: env[name] for p, name in zip(params, node.inputs) if name in env}
                first = len(self._nodes_read)
                self._nodes(body.nodes, inner)
                for value, name in zip(node.outputs, body.outputs):
                    if name in inner:
                        env[value.name] = inner[name]
                if kind == "prim::DifferentiableGraph" and len(inputs) == len(params):
                    outputs = [env.get(value.name, 0) for value in node.outputs]
                    names = tuple(p.name for p in params)
                    inside = slice(first, len(self._nodes_read))
                    types = _types_in(body)
                    returned = [(name, types.get(name, ""), inner.get(name, 0)) for name in body.outputs]
                    self._regions.append(_Region(names, inputs, outputs, inside, returned))
            elif kind in GUARDS or kind == "prim::profile":
                for value, number in zip(node.outputs, inputs):
                    env[value.name] = number
            elif node.blocks:
                self._control(node, env)
            elif kind.startswith(("prim::List", "prim::Tuple")):
                for value in node.outputs:
                    self._parts[self._define(env, value.name)] = inputs
            else:
                self.scopes = self.scopes or node.scope is not None
                self._nodes_read.append((node, inputs, [self._define(env, v.name) for v in node.outputs]))
        self._depth -= 1

    def _attribute(self, node: Node, inputs: list[int], env: dict[str, int]) -> None:
        owner = self._module.get(inputs[0]) if inputs else None
        for value in node.outputs:
            number = self._define(env, value.name)
            if owner is None:
                continue
            if value.type.startswith("__torch__."):
                name = node.attributes.get("name", "").strip('"')
                self._module[number] = f"{owner}.{name}" if owner else name
            elif owner:
                self._owner[number] = owner

    def _control(self, node: Node, env: dict[str, int]) -> None:
        guarded = is_guarded(node)
        blocks = node.blocks[:1] if guarded else node.blocks
        for block in blocks:
            for value in block.params:
                self._define(env, value.name)
            self._nodes(block.nodes, env)
        outputs = [block.outputs for block in blocks]
        for place, value in enumerate(node.outputs):
            names = [returned[place] for returned in outputs if place < len(returned)]
            numbers = [env[name] for name in names if name in env]
            if guarded and numbers:
                env[value.name] = numbers[0]
            else:
                self._parts[self._define(env, value.name)] = numbers

    def _ask_live(self) -> None:
        """The layers that the live run told: nodes at one place stand in the plan as in the inlined graph, if
        all of them are there. Of several models it is the one that explains most nodes, if only one does."""
        found = [self._layers_of(live) for live in self._live]
        most = max(map(len, found), default=0)
        best = [one for one in found if len(one) == most]
        if most and all(one == best[0] for one in best):
            self._by_live = best[0]

    def _layers_of(self, live: LiveLayers) -> dict[int, tuple[str, str]]:
        nodes: dict[str, list[Node]] = {}
        for node, _, _ in self._nodes_read:
            if node.source is not None and any(holds_tensor(v.type) for v in node.outputs):
                key = f"|{node.source}"
                key = key if key in live else f"{node.kind}{key}"
                if key in live:
                    nodes.setdefault(key, []).append(node)
        found: dict[int, tuple[str, str]] = {}
        for key, here in nodes.items():
            layers = live[key]
            if len(set(layers)) == 1:
                layers = layers[:1] * len(here)
            if len(layers) == len(here):
                found.update((id(node), (key, layer)) for node, layer in zip(here, layers))
        return found

    def infer(self) -> None:
        """What has no scope is told by the one module whose parameters it reads. What a pass made is told
        also by what stands before and after it, together: their common parent."""
        self._ask_live()
        owners = Together(self._parts, self._owned_by, _more_than_one)
        by_pass = [node.source is None or node.source.startswith("<") for node, _, _ in self._nodes_read]
        for (node, inputs, outputs), made in zip(self._nodes_read, by_pass):
            layer = layer_of_scope(node.scope)
            if id(node) in self._by_live and (node.scope is None or self._several):
                layer = self._by_live[id(node)][1] or None
            elif layer is None and node.scope is None and (made or not self.scopes):
                found = owners.of(inputs)
                layer = next(iter(found)) if found is not None and len(found) == 1 else None
            if layer is not None:
                self.told[id(node)] = layer
                here = frozenset((layer,))
            else:
                here = self._before_all.of(inputs) or _NONE if made else _NONE
            for number in outputs if here else ():
                self._before[number] = here
        after = HandedDown(self._parts, self._after)
        for (node, inputs, outputs), made in zip(reversed(self._nodes_read), reversed(by_pass)):
            if outputs:
                after.down_to(outputs[-1])
            layer = self.told.get(id(node))
            if layer is not None:
                behind = frozenset((layer,))
            else:
                behind = _united(self._after, outputs) if made else _NONE
            if behind:
                after.say(inputs, behind)
        after.down_to(0)
        for (node, inputs, outputs), made in zip(self._nodes_read, by_pass):
            if made and id(node) not in self.told:
                before, behind = self._before_all.of(inputs), _united(self._after, outputs)
                parent = _parent(before | behind) if before and behind else None
                if parent is not None:
                    self.told[id(node)] = parent
                    self.between.add(id(node))
                    continue
            if id(node) not in self.told and self._captured:
                self._of_captured(node, inputs)

    def _owned_by(self, number: int) -> frozenset[str] | None:
        return frozenset((self._owner[number],)) if number in self._owner else None

    def _of_captured(self, node: Node, inputs: Sequence[int]) -> None:
        """A node of a gradient is of the layer that all it takes from the forward pass have in common."""
        seen = self._captured_all.of(inputs)
        if seen is None:
            return
        shared, any_of_them = seen
        layer = _parent(shared or any_of_them)
        if layer is not None:
            self.told[id(node)] = layer

    def surroundings(self) -> Iterator[tuple[tuple[str, ...], Around, tuple[Kept, ...]]]:
        """The differentiable graphs of this plan: names of their inputs, what is around, what they return."""
        for region in self._regions:
            live: dict[str, list[str]] = {}
            of: dict[int, frozenset[str]] = {}
            held = HandedDown(self._parts, of)
            for node, inputs, outputs in self._nodes_read[region.inside]:
                if id(node) in self._by_live:
                    key, layer = self._by_live[id(node)]
                    live.setdefault(key, []).append(layer)
                told = self.told.get(id(node))
                if told is not None:
                    held.say((*inputs, *outputs), frozenset((told,)))
            held.down_to(0)
            around = Around(
                tuple(self._owner.get(n) for n in region.inputs),
                tuple(tuple(sorted(self._before.get(n, _NONE))) for n in region.inputs),
                tuple(tuple(sorted(self._after.get(n, _NONE))) for n in region.outputs),
                tuple((key, tuple(layers)) for key, layers in live.items()),
            )
            returned = tuple(
                Kept(name, text, tuple(sorted(of.get(n, ())))) for name, text, n in region.returned
            )
            yield region.names, around, returned


def _united(layers: Mapping[int, frozenset[str]], numbers: Iterable[int]) -> frozenset[str]:
    """The layers of all these values; nearly always none, or those of one."""
    found = _NONE
    for number in numbers:
        more = layers.get(number)
        if more is not None:
            found = found | more if found else more
    return found


def _more_than_one(some: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """Both, or some of them: one, or more than one."""
    return some if len(some) > 1 else some | more


_Shared = tuple[frozenset[str], frozenset[str]]
"""The layers that all values have, and those that any has."""


def _both(one: _Shared, other: _Shared) -> _Shared:
    return one[0] & other[0], united(one[1], other[1])


def _types_in(body: Graph) -> dict[str, str]:
    types = {value.name: value.type for value in body.params}
    types.update((value.name, value.type) for node in body.walk() for value in node.outputs)
    return types


def _parent(layers: Iterable[str]) -> str | None:
    """The nearest common parent; None if that is the model."""
    paths = [tuple(layer.split(".")) for layer in layers]
    return ".".join(paths[0][: _shared(paths)]) or None
