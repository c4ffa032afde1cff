"""Plans of gradients: an executor makes one plan for each set of defined gradients,
and the checks in a plan show for which set it is.

The graph of a gradient is specialised for the gradients that are defined when it is
profiled, and for sizes that need no sum; ``specialize_autogradzero.cpp`` of
torch/csrc/jit/passes puts the checks of both first (``prim::AutogradAllNonZero``,
``prim::AutogradAllZero``, ``aten::__is__``) and leaves an unchanged copy for all
other cases. That copy becomes a fallback function with an executor, and a plan, of
its own (1.12 to 2.13).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fusiondoc.model import dataclass
from fusiondoc.parsers.ir.types import kind_of

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Graph, IrDump, Node

_CHECKS = (
    "prim::AutogradAllNonZero",
    "prim::AutogradAllZero",
    "aten::__is__",
    "aten::__isnot__",
)

Checks = frozenset[tuple[str, tuple[int, ...]]]
"""(Kind of a check, positions of the graph's inputs that it reads), for each
check."""


@dataclass(frozen=True)
class GradientPlan:
    """A plan of the executor of a gradient."""

    inputs: tuple[str, ...]
    """The kinds of its inputs: ``Tensor``, ``int[]?``."""
    checks: Checks
    copy: Sequence[object] | None
    """The operators of the unchanged copy, or their hashes; None if only its name
    is printed."""

    def hashed(self) -> GradientPlan:
        """Return the same with the hashes of operators: a log can have ten thousand
        such plans."""
        if self.copy is None:
            return self
        return replace(self, copy=array("q", map(hash, self.copy)))

    def is_of(self, other: GradientPlan) -> bool:
        """True if both can be plans of one gradient, for different sets of defined
        gradients."""
        if self.inputs != other.inputs or self.checks == other.checks:
            return False
        if self.copy is None or other.copy is None:
            return True
        # Earlier passes rewrite a few operators of the later copy.
        shared = sum((Counter(self.copy) & Counter(other.copy)).values())
        return shared * 10 >= max(len(self.copy), len(other.copy)) * 9


def gradient_plan(dump: IrDump) -> GradientPlan | None:
    """Return the checks and the copy in the plan of a gradient; None for the plan
    of another graph."""
    graph = dump.graph
    if not any(node.kind.startswith("prim::AutogradAll") for node in graph.nodes):
        return None
    positions = {value.name: number for number, value in enumerate(graph.params)}
    checks = set()
    for node in graph.nodes:
        if node.kind in _CHECKS:
            checked = [positions[name] for name in node.inputs if name in positions]
            checks.add((node.kind, tuple(sorted(checked))))
    inputs = tuple(kind_of(value.type) for value in graph.params)
    return GradientPlan(inputs, frozenset(checks), _copy(dump, graph))


def _copy(dump: IrDump, graph: Graph) -> tuple[tuple[str, str | None], ...] | None:
    for node in graph.nodes:
        if node.kind == "prim::If" and len(node.blocks) == 2:
            for inner in node.blocks[1].nodes:
                body = None
                if inner.kind == "prim::FallbackGraph":
                    body = dump.resolve(inner)
                if body is not None and _has_autodiff(body):
                    return tuple(_operators(body.walk()))
    return None


def _has_autodiff(body: Graph) -> bool:
    return any(node.kind.startswith("prim::Autograd") for node in body.walk())


def _operators(nodes: Iterable[Node]) -> Iterable[tuple[str, str | None]]:
    """Yield the operators, without the tuple in which each later copy returns its
    results."""
    left_out = ("prim::Constant", "prim::TupleConstruct")
    return ((node.kind, node.source) for node in nodes if node.kind not in left_out)
