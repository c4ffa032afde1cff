"""Messages of torch's JIT log: passes, plans, rejections.

This module has the kinds of nodes: which nodes are operators, which check types,
and which compute nothing of the program.

``HostNumbers``: tensors that hold a number for the host. Traces compute sizes with
them, and no fuser takes such arithmetic alone. ``NumToTensor`` of a size begins it,
``aten::Int`` ends it; in a training plan torch makes differentiable graphs of it
too, whose executors take integers without dimensions on the CPU.

``only_sized``: reductions over constant dimensions from whose result a plan
computes only a size. A fusion pass may remove an output of a group if only its size
is read, as the gradient formulas of sums and differences do, and compute the size
with ``prim::ReductionSizes`` (removeOutputsUsedOnlyInSize and buildShapeExpressions
of torch/csrc/jit/codegen/cuda/graph_fuser.cpp, 1.12 to 2.1; for sum, mean, var and
std). With ``keepdim`` that node indexes the list of sizes with the dimension as it
is written (torch/csrc/jit/runtime/register_prim_ops.cpp), so a negative dimension
ends the run: ``vector::_M_range_check``. For a tensor that the group itself
computes, the node is placed before the group whose result it reads (the plan of the
log ``size-before-group`` in fixtures/logs): ``Graph::copy() encountered a use of a
value``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from fusiondoc.fusers import FUSERS, group_nodes, sized_reductions
from fusiondoc.model import dataclass
from fusiondoc.numbers import whole_numbers
from fusiondoc.operators import OF_LISTS_TOO
from fusiondoc.parsers.ir.types import holds_tensor, is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Graph, Node, Value


AUTOGRAD = "prim::Autograd"
"""Prefix of the node kinds that only executors of gradients have."""

FUSION_KINDS = group_nodes()

GUARDS = frozenset(
    (
        "prim::RequiresGradCheck",
        "prim::BailOut",
        "prim::BailoutTemplate",
        "prim::Guard",
    )
).union(*(fuser.log.guards for fuser in FUSERS.values()))
"""Nodes that a fuser or the executor adds to check types. They compute nothing of
the program."""

NOT_OPERATORS = ("prim::profile", "prim::Tuple", "prim::List")
NOT_OPERATOR_KINDS = frozenset(
    (
        "prim::Constant",
        "prim::Param",
        "prim::FallbackGraph",
        "prim::DifferentiableGraph",
    )
)

OUT_OF_CONTAINERS = frozenset(
    (
        "aten::__getitem__",
        "aten::get",
        "aten::pop",
        "aten::setdefault",
        "aten::values",
    )
)
"""Operators that take tensors out of a list or a dictionary."""
HANDED_ON = (OUT_OF_CONTAINERS - {"aten::values"}) | {
    "prim::unchecked_cast",
    "prim::unchecked_unwrap_optional",
    "aten::_unwrap_optional",
    "aten::append",
    "aten::list",
}
"""Refinements of a type and operators on lists: their output tensors are their
input tensors, unchanged."""
_GIVE_CONTAINERS = OF_LISTS_TOO | {"aten::copy", "aten::values"}
"""Operators with some overloads that return a list: operators on lists and on
dictionaries."""
OF_HOST = frozenset(("prim::GetAttr", "prim::Uninitialized", "prim::NumToTensor"))
"""Nodes that make tensors, but compute nothing that a kernel could."""

NO_WORK = HANDED_ON | OF_HOST


def is_operator(node: Node) -> bool:
    """True if the node computes tensors that a fuser could compute."""
    kind = node.kind
    if (
        kind in NOT_OPERATOR_KINDS
        or kind in GUARDS
        or kind.startswith(NOT_OPERATORS)
    ):
        return False
    if kind in OF_HOST or hands_on(kind, node.outputs):
        return False
    return any(map(holds_tensor, [v.type for v in node.outputs]))


def hands_on(kind: str, outputs: Sequence[Value]) -> bool:
    """True if a node returns its input tensors, or lists of them, and computes
    none."""
    if kind in HANDED_ON:
        return True
    return (
        kind in _GIVE_CONTAINERS
        and len(outputs) == 1
        and outputs[0].type.rstrip("?").endswith("[]")
    )


def is_guarded(node: Node) -> bool:
    """True for the prim::If after a guard. Its second block is the fallback for
    other types."""
    return (
        node.kind == "prim::If"
        and len(node.blocks) == 2
        and _is_fallback(node.blocks[1].nodes)
    )


def _is_fallback(nodes: Iterable[Node]) -> bool:
    """True for the else-branch of a guard: a FallbackGraph, or after the executor's
    last step a call of ``fallback_function``
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp). If only the dtype of
    an output is read, the pass leaves ``prim::dtype`` in the branch
    (removeOutputUsedOnlyInDtype of graph_fuser.cpp)."""
    found = False
    for node in nodes:
        if node.kind == "prim::FallbackGraph" or (
            node.kind == "prim::Constant"
            and node.attributes.get("name") == '"fallback_function"'
        ):
            found = True
        elif node.kind not in (
            "prim::Constant",
            "prim::CallFunction",
            "prim::TupleUnpack",
            "prim::dtype",
        ):
            return False
    return found


def of_autodiff(node: Node) -> bool:
    """True for a node of autodiff, but not for the check that
    specialize_autogradzero.cpp adds."""
    if node.kind == "prim::AutogradAllZero":
        return bool(node.inputs)
    return (
        node.kind.startswith(AUTOGRAD) and node.kind != "prim::AutogradAllNonZero"
    )


_ONE_NUMBER = re.compile(r"\w+\((requires_grad=[01], )?device=cpu\)\Z")
"""The type of a tensor of one number on the CPU."""


@lru_cache(maxsize=4096)
def _is_one_number(text: str) -> bool:
    return _ONE_NUMBER.match(text) is not None


_SIZE = re.compile(r"Long\((requires_grad=0, )?device=cpu\)\Z")
"""The type of a size or an index."""


class HostNumbers:
    """The values of a graph that are host numbers (see the module), for the nodes
    read so far."""

    def __init__(self, type_of: Callable[[str], str]) -> None:
        self._type_of = type_of
        self._names: set[str] = set()
        self._constants: set[str] = set()

    def parameter(self, name: str, text: str) -> None:
        """Add an input of the graph."""
        if _SIZE.match(text):
            self._names.add(name)

    def made(self, node: Node) -> None:
        """Add a node that is not an operator."""
        constant = node.kind == "prim::Constant"
        if node.kind == "prim::NumToTensor" or (
            constant
            and any(map(_is_one_number, [value.type for value in node.outputs]))
        ):
            self._names.update(value.name for value in node.outputs)
        elif constant and (node.attribute("value") or "").startswith("{"):
            # A tensor of one number. The executor's plan does not show its device.
            self._constants.update(value.name for value in node.outputs)

    def handed_on(self, node: Node) -> None:
        """Add a guard or profile node: each output is the input at the same
        position."""
        for name, value in zip(node.inputs, node.outputs):
            self.alias(value.name, name)

    def alias(self, name: str, other: str) -> None:
        """Record that ``name`` is the value ``other``."""
        if other in self._names:
            self._names.add(name)

    def computes(self, node: Node) -> bool:
        """True if a node computes with host numbers only. Its results are then host
        numbers too."""
        if not self._names:
            return False
        tensors = {name for name in node.inputs if is_tensor(self._type_of(name))}
        if (
            not self._names.intersection(tensors)
            or not tensors <= self._names | self._constants
        ):
            return False
        self._names.update(value.name for value in node.outputs)
        return True


SIZES = "prim::ReductionSizes"
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True)
class SizedOnly:
    """A reduction over constant dimensions whose result a group does not return."""

    op: str
    source: str | None
    dims: tuple[int, ...]


def constant_dims(dims: str | None) -> tuple[int, ...]:
    """Return the numbers of a constant list as printed (``[-1, 0]``)."""
    return tuple(whole_numbers(_NUMBER.findall(dims or "")))


def only_sized(body: Graph) -> Iterator[SizedOnly]:
    """Yield the reductions over constant dimensions whose results the group does
    not return."""
    constants = {
        node.outputs[0].name: node.attributes.get("value")
        for node in body.nodes
        if node.kind == "prim::Constant" and node.outputs
    }
    for node in body.nodes:
        if node.kind not in sized_reductions() or len(node.inputs) < 2:
            continue
        if node.outputs[0].name not in body.outputs:
            dims = constant_dims(constants.get(node.inputs[1]))
            if dims:
                yield SizedOnly(node.kind, node.source, dims)
