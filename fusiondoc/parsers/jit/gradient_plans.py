"""Which plan of a gradient it is: of the several that one executor makes when other gradients are defined.

The graph of a gradient is made for the gradients that are defined when it is profiled, and for sizes that
need no sum; ``specialize_autogradzero.cpp`` of torch/csrc/jit/passes puts the checks of both in front
(``prim::AutogradAllNonZero``, ``prim::AutogradAllZero``, ``aten::__is__``) and leaves an unchanged copy for
all other cases. It becomes a fallback function: with an executor, and a plan, of its own (1.12 to 2.13)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, FrozenSet, Iterable, Sequence, Tuple

from fusiondoc.parsers.jit.regions import input_kinds, kind_of

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Dump, Graph, Node

_CHECKS = ("prim::AutogradAllNonZero", "prim::AutogradAllZero", "aten::__is__", "aten::__isnot__")

Checks = FrozenSet[Tuple[str, Tuple[int, ...]]]
"""Each check, and which inputs of the graph it asks about."""


@dataclass(frozen=True)
class GradientPlan:
    """A plan of the executor of a gradient."""

    inputs: tuple[str, ...]
    """The kinds of its inputs: ``Tensor``, ``int[]?``."""
    checks: Checks
    copy: tuple[tuple[str, str | None], ...] | None
    """The operators of the unchanged copy; None where the print has only its name."""

    def is_of(self, other: GradientPlan) -> bool:
        """Whether both can be plans of one gradient, for different gradients that are defined."""
        if self.inputs != other.inputs or self.checks == other.checks:
            return False
        if self.copy is None or other.copy is None:
            return True
        # The passes before it rewrite a few operators of the later copy.
        shared = sum((Counter(self.copy) & Counter(other.copy)).values())
        return shared * 10 >= max(len(self.copy), len(other.copy)) * 9


def gradient_plan(dump: Dump) -> GradientPlan | None:
    """What the plan says of the gradient that it is for; None if it is that of another graph."""
    graph = dump.graph
    if not any(node.kind.startswith("prim::AutogradAll") for node in graph.nodes):
        return None
    places = {value.name: place for place, value in enumerate(graph.params)}
    checks = frozenset(
        (node.kind, tuple(sorted(places[name] for name in node.inputs if name in places)))
        for node in graph.nodes
        if node.kind in _CHECKS
    )
    return GradientPlan(tuple(kind_of(value.type) for value in graph.params), checks, _copy(dump, graph))


def _copy(dump: Dump, graph: Graph) -> tuple[tuple[str, str | None], ...] | None:
    for node in graph.nodes:
        if node.kind == "prim::If" and len(node.blocks) == 2:
            for inner in node.blocks[1].nodes:
                body = dump.resolve(inner) if inner.kind == "prim::FallbackGraph" else None
                if body is not None and any(one.kind.startswith("prim::Autograd") for one in body.walk()):
                    return tuple(_operators(body.walk()))
    return None


def _operators(nodes: Iterable[Node]) -> Iterable[tuple[str, str | None]]:
    """Without the tuple that each further copy returns its results in."""
    left_out = ("prim::Constant", "prim::TupleConstruct")
    return ((node.kind, node.source) for node in nodes if node.kind not in left_out)


def profiled_gradient(lines: Sequence[bytes]) -> tuple[str, ...] | None:
    """The kinds of the inputs of a graph that is profiled, if it is that of a gradient."""
    if not any(b"prim::Autograd" in line for line in lines):
        return None
    return tuple(kind_of(text) for _, text in input_kinds(lines))
