"""NNC in logs: the graphs and guards of its pass, and every condition that it
states.

NNC's macro ``REQ(cond)`` prints ``Failed cond `` and the condition as it is written
(torch/csrc/jit/passes/tensorexpr_fuser.cpp). The conditions are the same in 1.12.1,
1.13.1, 2.0.1, 2.1.2 and 2.13.0, as the strings of the libraries of these releases
show (``fixtures/nnc-conditions.txt``). ``canHandle`` checks one node; ``canMerge``
a producer that may join the group of its consumer. Two of the checks print their
finding before the condition fails (``REMARKS``).
"""

from __future__ import annotations

import re

from fusiondoc.fusers.fuser_log import FuserLog
from fusiondoc.fusers.fuser_words import FuserWords

LOG = FuserLog(
    pass_file="tensorexpr_fuser",
    pass_start="Before TExprFuser:",
    plan_header="After TExprFuser:",
    groups_header="After creating fusion groups:",
    compile_header="TensorExprKernel graph (Before graph optimization):",
    # It prints them for each node, from four positions of its source in turn. They
    # are so few that a repeated stretch of a log may begin after them.
    line_messages=re.compile(
        rb"(?:\[(?:DEBUG|UPDATE|DUMP) tensorexpr_fuser\.cpp:\d{3,}\] "
        rb"(?:Considering node:|Failed cond |Trying to merge: |Current fusion group: )[^\n]*\n){2,500}"
    ),
    # The node of a group compiled for several shapes, with its own graph.
    inner_graphs=frozenset(("prim::TensorExprDynamicGroup",)),
    guards=frozenset(("prim::TypeCheck", "prim::TensorExprDynamicGuard")),
    profile_names=(
        "fused_|.*_fused_",
    ),  # ``fused_add_mul`` (passes/tensorexpr_fuser.cpp)
    announces_runs=False,
)

WRAPPER = "canHandle(producer) || producer->kind() == prim::TensorExprGroup"
"""A condition printed after the condition of ``canHandle`` that failed."""

CONDITIONS = {
    # canHandle
    "allShapesAreKnown(node)": ("FD212", "shape_not_profiled"),
    "isFusableOnDevice(node)": ("FD213", "device_off"),
    "operators_not_to_fuse.find(node->kind()) == operators_not_to_fuse.end()": (
        "FD217",
        "named_not_to_fuse",
    ),
    "node->input(0)->node()->kind() == prim::ListConstruct": (
        "FD219",
        "list_elsewhere",
    ),
    "node->input(0)->uses().size() == 1": ("FD219", "list_shared"),
    "node->input(1)->node()->kind() == prim::Constant": (
        "FD219",
        "dim_not_constant",
    ),
    "tensorexpr::pickDeviceType(listconstruct->inputs())": (
        "FD214",
        "device_of_list",
    ),
    "tensorexpr::pickDeviceType(node->inputs())": ("FD214", "no_device"),
    "node->input(5)->node()->kind() == prim::Constant": (
        "FD219",
        "training_not_constant",
    ),
    "!toIValue(node->input(5)).value().toBool()": ("FD219", "training"),
    "tensorexpr::isSupported(node)": ("FD211", "no_lowering"),
    "typesAreSupported(node)": ("FD215", "types"),
    "JIT_OPT_ALLOWED": ("FD219", "pass_stopped"),
    "node->kind() == prim::ListConstruct || node->kind() == prim::TensorExprGroup"
    " || node->isMemberOf(tensorexpr::getCustomOperatorSet())"
    " || (node->maybeSchema() && shapeComputeGraphForSchema(node->schema()))": (
        "FD219",
        "no_shape_function",
    ),
    # canMerge
    "consumer->owningBlock() == producer->owningBlock()": ("FD228", "other_block"),
    "nInputs <= subgraphArgLimit": ("FD218", "group_full"),
    "consumer_device": ("FD214", "group_without_device"),
    "producer_device": ("FD214", "no_device"),
    "*consumer_device == *producer_device": ("FD214", "group_on_other_device"),
    "aliasDb_->couldMoveBeforeTopologically(producer, consumer)": (
        "FD216",
        "order",
    ),
    "use.user == consumer": ("FD219", "view_shared"),
    "consumer->kind() != prim::ListConstruct": ("FD219", "before_list"),
    "consumer->kind() != aten::slice": ("FD219", "before_slice"),
    "consumer->kind() != aten::unsqueeze": ("FD219", "before_unsqueeze"),
    "consumer->kind() != prim::ConstantChunk": ("FD219", "before_chunk"),
    "producer->kind() != prim::Constant": ("FD219", "constant"),
    "producer->input(0)->node()->kind() == prim::ListConstruct": (
        "FD219",
        "list_elsewhere",
    ),
    "producer->input(0)->uses().size() == 1": ("FD219", "list_shared"),
    "producer->input(1)->node()->kind() == prim::Constant": (
        "FD219",
        "dim_not_constant",
    ),
    "listconstruct_device": ("FD214", "device_of_any_list"),
    "*listconstruct_device == *consumer_device": ("FD214", "group_on_other_device"),
    "isFusableOnDevice(input->node())": ("FD213", "device_of_list_off"),
    "(nInputs + listConstruct->inputs().size()) <= subgraphArgLimit": (
        "FD218",
        "group_full",
    ),
    "consumer->input(0)->node()->kind() == prim::ListConstruct": (
        "FD219",
        "cat_elsewhere",
    ),
    "consumer->input(0)->uses().size() == 1": ("FD219", "cat_shared"),
    "consumer->input(1)->node()->kind() == prim::Constant": (
        "FD219",
        "cat_dim_not_constant",
    ),
    "isFusableOnDevice(producer)": ("FD213", "device_off"),
}
"""C++ condition -> (finding code, detail). Any other condition is FD219 with its
own text."""

REMARKS = {
    b"Params of conv2d are not supported": "conv2d_parameters",
    b"This aten::_convolution node is not a 2D conv": "not_conv2d",
    b"Shapes of matmul inputs are not supported": "matmul_shapes",
}
"""Printed on the line before ``typesAreSupported(node)``: conv2dIsSupported and
matmulIsSupported of torch/csrc/jit/tensorexpr/kernel.cpp and
operators/conv2d.cpp."""

_STARTS_NONE = "what comes after it is {}, and NNC starts no group with one"
_ORDER = "would change the order of dependent operators"

WORDS = FuserWords(
    conditions={
        # NNC (torch/csrc/jit/passes/tensorexpr_fuser.cpp): one operator
        "shape_not_profiled": "the shape of an input or output was not profiled",
        "device_off": "NNC may not fuse on its device",
        "named_not_to_fuse": "PYTORCH_TENSOREXPR_DONT_FUSE names it",
        "list_elsewhere": "its list of tensors is made outside the graph, or changed",
        "list_given": "its graph begins behind its list of tensors, which is an input of it",
        "list_shared": "its list of tensors is used a second time",
        "dim_not_constant": "its `dim` is not a constant",
        "device_of_list": "the tensors of its list have no device, or several",
        "no_device": "its inputs have no device, or several",
        "training_not_constant": "its `training` is not a constant",
        "training": "it is in training mode, and NNC takes it in eval mode only",
        "no_lowering": "NNC has no lowering for it",
        "types": "NNC does not support a type or argument of it",
        "pass_stopped": "PYTORCH_JIT_OPT_LIMIT stops the pass before it",
        "no_shape_function": "torch cannot compute its shape from those of its inputs, which groups of"
        " dynamic shapes need",
        "conv2d_parameters": "NNC takes only 3x3 depthwise convolutions of float32 with a bias, equal"
        " strides, equal padding and no dilation",
        "not_conv2d": "NNC takes convolutions in two dimensions only",
        "matmul_shapes": "NNC takes only products of two matrices, both contiguous",
        "device_or_argument": "it changes the device, or an argument of it is not a constant",
        # NNC: an operator and a group
        "other_block": "what it could fuse with is on the other side of a block of control flow",
        "group_full": "the group would have more than 128 arguments",
        "group_without_device": "the group has no device, or several",
        "group_on_other_device": "its tensors are on another device than the group",
        "order": f"moving it to the group {_ORDER}",
        "order_of_group": f"moving {{op}} to it {_ORDER}",
        "view_shared": "it makes a view that is used outside the group, too",
        "before_list": _STARTS_NONE.format("a list"),
        "before_slice": _STARTS_NONE.format("aten::slice"),
        "before_unsqueeze": _STARTS_NONE.format("aten::unsqueeze"),
        "before_chunk": _STARTS_NONE.format("a chunk"),
        "constant": "NNC starts no group for a constant",
        "device_of_any_list": "the tensors of a list have no device, or several",
        "device_of_list_off": "NNC may not fuse on the device of a tensor of its list",
        "cat_elsewhere": "the list of the aten::cat after it is made outside the graph, or changed",
        "cat_shared": "the list of the aten::cat after it is used a second time",
        "cat_dim_not_constant": "the `dim` of the aten::cat after it is not a constant",
        "undone": "a group of one operator is not worth a kernel and was undone",
        "other_condition": "NNC's condition `{text}` does not hold",
    }
)
