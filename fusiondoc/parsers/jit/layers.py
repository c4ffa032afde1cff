"""The layer of each node of a dump: the path of the module to which it belongs.

Traces write a scope after each node (``layer_names.py``). Nodes that a pass made
(the formulas of autodiff, merged views) have none: their layer is inferred from the
parameters that they read and from their neighbours, or stays unknown. For a live
run the probe records the modules of each operator of the inlined graph, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from fusiondoc.model import dataclass
from fusiondoc.parsers.ir.types import holds_tensor
from fusiondoc.parsers.jit.held_values import HandedDown, Together, united
from fusiondoc.parsers.jit.layer_names import (
    common_layer,
    layer_of_scope,
    parent_layer,
)
from fusiondoc.parsers.jit.numbered_nodes import (
    NumberedNode,
    NumberedNodes,
    NumberedRegion,
)
from fusiondoc.parsers.jit.regions import Around, LiveLayers, RegionOutput, Regions

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import IrDump, Node


@dataclass(frozen=True)
class Layers:
    """Layers of the nodes of a dump, by the id of the node."""

    of: Mapping[int, str]
    between: AbstractSet[int]
    """The nodes whose layer is inferred only from neighbouring nodes."""
    scopes: bool = False
    """True if the dump has scopes, which only tracing writes."""

    def of_group(self, nodes: Iterable[Node]) -> str | None:
        """Return the common layer of these nodes."""
        ids = [id(node) for node in nodes]
        sure = common_layer(
            self.of.get(number) for number in ids if number not in self.between
        )
        return sure or common_layer(self.of.get(number) for number in ids)


def layers_of(dump: IrDump, regions: Regions) -> Layers:
    """Return the layer of every node for which it is known.

    A node with a position in a file but no scope, in a graph with scopes, belongs
    to the model itself. Without any scope (scripted models), a node that reads
    parameters of one module is assigned to that module.

    Args:
        regions: the regions of earlier plans; those of this plan are added.
    """
    numbered = NumberedNodes(dump)
    inference = _Inference(numbered, regions)
    for region in numbered.regions:
        regions.learn(region.names, inference.around(region))
        regions.keep(inference.returned(region))
    return Layers(inference.layers, inference.between, numbered.scopes)


_NONE: frozenset[str] = frozenset()


class _Inference:
    """Finds the layers of nodes in three walks: first each node's own layer, then
    the layers after each value, then the layers of nodes between known ones."""

    def __init__(self, numbered: NumberedNodes, regions: Regions) -> None:
        self.layers: dict[int, str] = {}
        """By the id of the node."""
        self.between: set[int] = set()
        self._nodes = numbered.nodes
        self._scopes = numbered.scopes
        self._held = numbered.held
        self._owner = numbered.owner
        self._before: dict[int, frozenset[str]] = {}
        """Value -> the layers of the node that makes it; if that node has none,
        those of the nodes before it."""
        self._after: dict[int, frozenset[str]] = {}
        """Value -> the layers of the nodes that take it, or of the nodes after
        those."""
        self._captured: dict[int, _Shared] = {}
        """Value that a gradient takes from the forward pass -> the layers that made
        or took it; as a pair of equal sets, for ``_both``."""
        live = regions.live
        around = regions.around(tuple(numbered.inputs))
        if around is not None:
            live = (dict(around.live),)
            numbered.own_inputs(around)
            self._add_around(
                around, list(numbered.inputs.values()), numbered.outputs
            )
        self._live = _live_layers(self._nodes, live)
        """Id of a node of a live run -> its key and its layer."""
        self._several_models = len(regions.live) > 1
        """True if the paths of live layers begin with the name of a model, which
        scopes never have."""
        # No methods of this object here: they would keep it and the graph alive,
        # and the cycle collector does not run meanwhile.
        self._before_all = Together(self._held, self._before.get, united)
        self._captured_all = Together(self._held, self._captured.get, _both)
        self._walk_forward()
        self._walk_backward()
        for node in self._nodes:
            if id(node.node) not in self.layers:
                self._infer_from_neighbours(node)

    def _add_around(
        self, around: Around, inputs: Sequence[int], outputs: Sequence[int | None]
    ) -> None:
        """Record the known layers around the graph of this executor."""
        for number, captured in zip(inputs, around.captured):
            if captured:
                self._captured[number] = frozenset(captured), frozenset(captured)
        for number, before in zip(inputs, around.before):
            self._before[number] = frozenset(before)
        for output, after in zip(outputs, around.after):
            if output is not None:
                self._after[output] = frozenset(after)

    def _walk_forward(self) -> None:
        """Find the nodes with a layer of their own, and the layers before each
        value."""
        owner = self._owner
        owners = Together(
            self._held, lambda number: _single(owner.get(number)), _more_than_one
        )
        for node in self._nodes:
            layer = self._own_layer(node, owners)
            here = _NONE
            if layer is not None:
                self.layers[id(node.node)] = layer
                here = frozenset((layer,))
            elif node.by_pass:
                here = self._before_all.of(node.inputs) or _NONE
            if here:
                for number in node.outputs:
                    self._before[number] = here

    def _own_layer(
        self, numbered: NumberedNode, owners: Together[frozenset[str]]
    ) -> str | None:
        """Return the layer from the live run, from the scope, or from the only
        module whose parameters the node reads."""
        scope = numbered.node.scope
        live = self._live.get(id(numbered.node))
        if live is not None and (scope is None or self._several_models):
            return live[1] or None
        if scope is not None:
            return layer_of_scope(scope)
        if self._scopes and not numbered.by_pass:
            return None
        modules = owners.of(numbered.inputs)
        if modules is not None and len(modules) == 1:
            return next(iter(modules))
        return None

    def _walk_backward(self) -> None:
        """Find the layers after each value."""
        after = HandedDown(self._held, self._after)
        for node in reversed(self._nodes):
            if node.outputs:
                after.down_to(node.outputs[-1])
            layer = self.layers.get(id(node.node))
            behind = _NONE
            if layer is not None:
                behind = frozenset((layer,))
            elif node.by_pass:
                behind = _united(self._after, node.outputs)
            if behind:
                after.add(node.inputs, behind)
        after.down_to(0)

    def _infer_from_neighbours(self, node: NumberedNode) -> None:
        """Infer the layer of a node. A node that a pass made gets the common parent
        of the layers before and after it; a node of a gradient gets the layer that
        all its values from the forward pass have in common."""
        if node.by_pass:
            before, behind = (
                self._before_all.of(node.inputs),
                _united(self._after, node.outputs),
            )
            parent = parent_layer(before | behind) if before and behind else None
            if parent is not None:
                self.layers[id(node.node)] = parent
                self.between.add(id(node.node))
                return
        captured = self._captured_all.of(node.inputs) if self._captured else None
        if captured is not None:
            shared, any_of_them = captured
            layer = parent_layer(shared or any_of_them)
            if layer is not None:
                self.layers[id(node.node)] = layer

    def around(self, region: NumberedRegion) -> Around:
        """Return the layers around a differentiable graph of this plan."""
        live: dict[str, list[str]] = {}
        for node in self._nodes[region.inside]:
            if id(node.node) in self._live:
                key, layer = self._live[id(node.node)]
                live.setdefault(key, []).append(layer)
        return Around(
            tuple(self._owner.get(number) for number in region.inputs),
            tuple(
                tuple(sorted(self._before.get(number, _NONE)))
                for number in region.inputs
            ),
            tuple(
                tuple(sorted(self._after.get(number, _NONE)))
                for number in region.outputs
            ),
            tuple((key, tuple(layers)) for key, layers in live.items()),
        )

    def returned(self, region: NumberedRegion) -> tuple[RegionOutput, ...]:
        """Return the values that a differentiable graph of this plan returns."""
        layers: dict[int, frozenset[str]] = {}
        held = HandedDown(self._held, layers)
        for node in self._nodes[region.inside]:
            layer = self.layers.get(id(node.node))
            if layer is not None:
                held.add((*node.inputs, *node.outputs), frozenset((layer,)))
        held.down_to(0)
        return tuple(
            RegionOutput(name, text, tuple(sorted(layers.get(number, ()))))
            for name, text, number in region.returned
        )


# -- live runs -----------------------------------------------------------------------------------------------

_ByLive = dict[int, tuple[str, str]]
"""Id of a node -> its key in the layers of the live run, and its layer."""


def _live_layers(
    nodes: Sequence[NumberedNode], live: Sequence[LiveLayers]
) -> _ByLive:
    """Return the layers from the live run: nodes at one source position have the
    same order in the plan and in the inlined graph, if all of them are in the plan.
    Of several models the one that explains most nodes counts; {} if several
    explain as many, with different layers."""
    found = [_layers_of_model(nodes, layers) for layers in live]
    most = max(map(len, found), default=0)
    best = [layers for layers in found if len(layers) == most]
    if most and all(layers == best[0] for layers in best):
        return best[0]
    return {}


def _layers_of_model(numbered: Sequence[NumberedNode], live: LiveLayers) -> _ByLive:
    nodes: dict[str, list[Node]] = {}
    for node, _, _ in numbered:
        key = _live_key(node, live)
        if key is not None:
            nodes.setdefault(key, []).append(node)
    found: _ByLive = {}
    for key, same_key in nodes.items():
        layers = live[key]
        if len(set(layers)) == 1:
            layers = layers[:1] * len(same_key)
        if len(layers) == len(same_key):
            found.update(
                (id(node), (key, layer)) for node, layer in zip(same_key, layers)
            )
    return found


def _live_key(node: Node, live: LiveLayers) -> str | None:
    """Return the key of a tensor operator in the layers of a live run: its source
    position, if only one operator is there, else the position with the operator.
    None without a key."""
    if node.source is None or not any(
        holds_tensor(value.type) for value in node.outputs
    ):
        return None
    position = f"|{node.source}"
    for key in (position, f"{node.kind}{position}"):
        if key in live:
            return key
    return None


# -- sets of layers ------------------------------------------------------------------------------------------


def _single(layer: str | None) -> frozenset[str] | None:
    if layer is None:
        return None
    return frozenset((layer,))


def _united(
    layers: Mapping[int, frozenset[str]], numbers: Iterable[int]
) -> frozenset[str]:
    """Return the union of the layers of these values; usually none or only one
    value has layers."""
    found = _NONE
    for number in numbers:
        more = layers.get(number)
        if more is not None:
            found = found | more if found else more
    return found


def _more_than_one(some: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """Return some of both: one layer, or more than one. Callers only need to know
    which."""
    if len(some) > 1:
        return some
    return some | more


_Shared = tuple[frozenset[str], frozenset[str]]
"""The layers that all values have, and the layers that any value has."""


def _both(shared: _Shared, other: _Shared) -> _Shared:
    return shared[0] & other[0], united(shared[1], other[1])
