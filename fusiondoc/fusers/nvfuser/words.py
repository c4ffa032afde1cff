"""nvFuser in sentences: why it refuses an operator, an overload, an argument."""

from __future__ import annotations

from fusiondoc.fusers.fuser_words import FuserWords

WORDS = FuserWords(
    conditions={
        "nvfuser_no_rule": "nvFuser has no parsing rule for it",
        "input_type": "nvFuser does not support the type of an input",
        "output_type": "nvFuser does not support the type of an output",
        "not_cuda": "it does not run on a CUDA device",
        "before_volta": "nvFuser fuses only element-wise operators on a GPU older than Volta",
        "before_ampere": "nvFuser needs an Ampere GPU or newer for bfloat16",
        "device_of_group": "it runs on another device than the group",
    },
    overloads={
        "all_dimensions": "it reduces over all dimensions; nvFuser has a rule only for the overload with"
        " `dim`",
        "all_elements": "it reduces over all dimensions; nvFuser has a rule only for that of two tensors",
        "without_dim": "nvFuser has a rule only for the overload with `dim` and `keepdim`",
        "correction": "it is the overload with `correction`; nvFuser has a rule only for that with `dim` and"
        " `unbiased`",
        "with_indices": "it gives indices too; nvFuser has a rule only for that of two tensors",
        "device": "it names a device; nvFuser has a rule only for {op} with a dtype alone",
        "dtype_of_tensor": "it takes dtype and device of another tensor; nvFuser has a rule only for {op}"
        " with a dtype",
        "layout_or_device": "it may change layout or device; nvFuser has a rule only for {op} with a"
        " dtype alone",
        "other_arguments": "nvFuser has a rule only for the overload of {op} with a dtype",
        "number": "it takes a number; nvFuser has a rule only for two tensors",
        "rounding_mode": "it has a `rounding_mode`; nvFuser has a rule only for {op} without one",
        "decimals": "it rounds to `decimals`; nvFuser has a rule only for {op} without them",
        "chosen_number": "it chooses a number; nvFuser has a rule only for {op} of two tensors",
        "tensor_limits": "its limits are tensors; nvFuser has a rule only for numbers",
    },
    arguments={
        "given": "its `{argument}` is not None; nvFuser's rule takes only None",
        "not_floating": "its `dtype` is not a floating-point type; nvFuser reduces only to these",
        "half": "its `dtype` is a half type; nvFuser's rule does not take these",
        "half_to_float": "its `half_to_float` is set for a {dtype} tensor; nvFuser takes only Half there",
        "not_shown": "nvFuser has a rule for it, and refused it here for an argument that the log does not"
        " show",
    },
)
