"""Kinds of nodes: what fuses, what guards, what computes nothing of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

from fusiondoc.model.fusers import FUSERS, NNC
from fusiondoc.parsers.ir.types import holds_tensor, is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Node

AUTOGRAD = "prim::Autograd"
"""How the nodes of gradient executors begin."""

FUSION_KINDS = {fuser.node: fuser.kind for fuser in FUSERS.values()}
FUSION_KINDS["tensorexpr::Group"] = NNC.kind
"""Of NNC before torch 1.7 (torch/csrc/jit/passes/tensorexpr_fuser.cpp of 1.6)."""

GUARDS = frozenset(
    (
        "prim::TypeCheck",
        "prim::RequiresGradCheck",
        "prim::CudaFusionGuard",
        "prim::CudaFusionSizeEq",
        "prim::CudaFusionIvalGuard",
        "prim::CudaFusionViewGuard",
        "prim::TensorExprDynamicGuard",
        "prim::oneDNNFusionGuard",
        "prim::BailOut",
        "prim::BailoutTemplate",
        "prim::Guard",
    )
)
"""Nodes that a fuser or the executor adds to check types; they compute nothing of the program."""

NOT_OPERATORS = ("prim::profile", "prim::Tuple", "prim::List")
NOT_OPERATOR_KINDS = frozenset(
    ("prim::Constant", "prim::Param", "prim::FallbackGraph", "prim::DifferentiableGraph")
)

HANDED_ON = frozenset(
    ("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::__getitem__", "aten::append")
)
"""Refinements of a type and the handling of lists: a tensor comes out of them as it went in."""
OF_HOST = frozenset(("prim::GetAttr", "prim::Uninitialized", "prim::NumToTensor"))
"""They make tensors, and compute nothing that a kernel could."""

NO_WORK = HANDED_ON | OF_HOST


def is_operator(node: Node) -> bool:
    """Whether it computes tensors that a fuser could compute."""
    kind = node.kind
    if kind in NOT_OPERATOR_KINDS or kind in GUARDS or kind.startswith(NOT_OPERATORS):
        return False
    if kind in NO_WORK:
        return False
    return any(is_tensor(v.type) or holds_tensor(v.type) for v in node.outputs)


def is_fallback(nodes: Iterable[Node]) -> bool:
    """The else-branch of a guard: a FallbackGraph, or after the executor's last step a call of
    ``fallback_function`` (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp). Of an output of which
    only the dtype is asked, nvFuser leaves the dtype (removeOutputUsedOnlyInDtype of graph_fuser.cpp)."""
    found = False
    for node in nodes:
        if node.kind == "prim::FallbackGraph" or (
            node.kind == "prim::Constant" and node.attributes.get("name") == '"fallback_function"'
        ):
            found = True
        elif node.kind not in ("prim::Constant", "prim::CallFunction", "prim::TupleUnpack", "prim::dtype"):
            return False
    return found


def of_autodiff(node: Node) -> bool:
    """Whether it is a node of autodiff, not the check that specialize_autogradzero.cpp adds."""
    if node.kind == "prim::AutogradAllZero":
        return bool(node.inputs)
    return node.kind.startswith(AUTOGRAD) and node.kind != "prim::AutogradAllNonZero"
