"""Conditions of fusers in plain words, by the name that a detail has for each."""

from __future__ import annotations

from collections.abc import Mapping

_STARTS_NONE = "what comes after it is {}, and NNC starts no group with one"
_ORDER = "would change the order of dependent operators"

STATED: Mapping[str, str] = {
    # nvFuser (torch/csrc/jit/codegen/cuda/partition.cpp)
    "nvfuser_no_rule": "nvFuser has no parsing rule for it",
    "input_type": "nvFuser does not support the type of an input",
    "output_type": "nvFuser does not support the type of an output",
    "not_cuda": "it does not run on a CUDA device",
    "before_volta": "nvFuser fuses only element-wise operators on a GPU older than Volta",
    "before_ampere": "nvFuser needs an Ampere GPU or newer for bfloat16",
    "device_of_group": "it runs on another device than the group",
    # NNC (torch/csrc/jit/passes/tensorexpr_fuser.cpp): one operator
    "shape_not_profiled": "the shape of an input or output was not profiled",
    "device_off": "NNC may not fuse on its device",
    "named_not_to_fuse": "PYTORCH_TENSOREXPR_DONT_FUSE names it",
    "list_elsewhere": "its list of tensors is made outside the graph, or changed",
    "list_shared": "its list of tensors is used a second time",
    "dim_not_constant": "its `dim` is not a constant",
    "device_of_list": "the tensors of its list have no device, or several",
    "no_device": "its inputs have no device, or several",
    "training_not_constant": "its `training` is not a constant",
    "training": "it is in training mode, and NNC takes it in eval mode only",
    "no_lowering": "NNC has no lowering for it",
    "types": "NNC does not support a type or argument of it",
    "pass_stopped": "PYTORCH_JIT_OPT_LIMIT stops the pass before it",
    "no_shape_function": "torch cannot compute its shape from those of its inputs, which groups of dynamic"
    " shapes need",
    "conv2d_parameters": "NNC takes only 3x3 depthwise convolutions of float32 with a bias, equal strides,"
    " equal padding and no dilation",
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
    "other": "{text}",
}
"""What the log states of an operator. ``{op}`` and ``{text}`` are fields of ``Stated``."""

TE_CONDITIONS: Mapping[str, str] = {
    "row_parallel": "the linear operator is row-parallel: its outputs are summed over the processes first",
    "column_parallel": "the linear operator is column-parallel: its input gradient is summed over the"
    " processes",
    "sum_not_in_place": "the sum is not in place: AddExtraInput(in_place=True) lets the matrix product add to"
    " it",
    "not_half": "the weight is neither float16 nor bfloat16: cuBLAS adds a bias in these only",
    "output_not_in_place": "the extra output is not in place: with in_place=True the matrix product adds to"
    " its gradient",
    "output_in_place": "the extra output is in place: the norm adds the gradient only for"
    " MakeExtraOutput(in_place=False)",
    "no_recipe": "there is no recipe: nothing is quantized",
    "other_recipe": "the recipe is neither DelayedScaling nor MXFP8BlockScaling",
    "backward_override": "the recipe overrides the backward pass (backward_override)",
    "not_quantized": "the operator before the bias takes no quantized gradient",
    "no_userbuffers": "it has no userbuffers options",
    "one_process": "torch.distributed does not run with several processes",
    "no_tensor_parallelism": "userbuffers need tensor parallelism of several processes",
    "grouped_mlp": "the grouped MLP needs NVTE_CUTEDSL_FUSED_GROUPED_MLP=1, a GPU of compute capability 10, a"
    " new cuDNN front end and an MXFP8 or NVFP4 recipe",
    "left_basic": "all that the rule needs is there, and Transformer Engine left it basic",
}
"""Conditions of the rules of Transformer Engine (fusers/te.py) that do not hold."""

SIDE_EFFECTS: Mapping[str, str] = {
    "prim::Print": "a print",
    "prim::SetAttr": "an assignment to an attribute of the module",
    "aten::warn": "a warning",
    "aten::manual_seed": "a call of torch.manual_seed",
    "prim::Enter": "the beginning of a with block",
    "prim::Exit": "the end of a with block",
    "^": "a call of a Python function",
}
"""Kinds of nodes past which torch moves none (``SIDE_EFFECTS`` of parsers/jit/flow.py)."""
