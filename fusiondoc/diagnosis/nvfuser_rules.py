"""What nvFuser's parse rules ask of a node beyond its kind, and which of it a node lacks.

Source: the rules of torch/csrc/jit/codegen/cuda/parser.cpp (1.12, 1.13) and of
third_party/nvfuser/csrc/parser.cpp (2.0, 2.1), ``registerJitOperator``; and what ``isNodeParsible`` of the
libraries of 1.12.1, 1.13.1 and 2.1.2 answers for some 270 nodes (``fixtures/nvfuser-rules.txt``): versions
differ in the operators and views that have a rule, not in what a rule asks of an argument. A rule belongs to
one overload, by its schema; its merge query may refuse more: a tensor without elements
(``isInputNonSizeZeroTensor``; of a reduction or a norm only the tensor that it reduces counts), a reduction
of a tensor without dimensions (``isReductionNonCompatibleTensor``), an argument that is not a constant, an
explicit memory format. Arguments that ``insertProfileIValue`` profiles are constants in the pass if the
profiled runs agree on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fusiondoc.diagnosis.operators import NVFUSER_SINCE
from fusiondoc.fuser_knobs import Version, parse_version
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import FlowNode, Operand

_KINDS = {
    "int": "i",
    "float": "f",
    "number": "S",
    "Scalar": "S",
    "bool": "b",
    "str": "s",
    "Device": "D",
    "NoneType": "N",
    "int[]": "l",
    "bool[]": "m",
    "Tensor[]": "L",
}

_NUMBER = "[ifSb]"


class Overload(NamedTuple):
    """``takes`` matches the kinds of the arguments (one letter each, see ``_KINDS``; T is a tensor) of the
    overload that has a rule."""

    takes: str
    refused: Callable[[str], str]
    """Kinds of the arguments of a refused overload -> what is wrong with it, in words."""


def _always(text: str) -> Callable[[str], str]:
    return lambda kinds: text


def _reduction(kinds: str) -> str:
    if len(kinds) == 2:
        return "it reduces over all dimensions; nvFuser has a rule only for the overload with `dim`"
    return "nvFuser has a rule only for the overload with `dim` and `keepdim`"


def _variance(kinds: str) -> str:
    if len(kinds) == 2:
        return "it reduces over all dimensions; nvFuser has a rule only for the overload with `dim`"
    return "it is the overload with `correction`; nvFuser has a rule only for that with `dim` and `unbiased`"


def _extreme(kinds: str) -> str:
    if len(kinds) == 1:
        return "it reduces over all dimensions; nvFuser has a rule only for that of two tensors"
    return "it gives indices too; nvFuser has a rule only for that of two tensors"


def _to(kinds: str) -> str:
    if kinds[1:2] == "D":
        return "it names a device; nvFuser has a rule only for aten::to with a dtype alone"
    if kinds[1:2] == "T":
        return (
            "it takes dtype and device of another tensor; nvFuser has a rule only for aten::to with a dtype"
        )
    if len(kinds) == 8:
        return "it may change layout or device; nvFuser has a rule only for aten::to with a dtype alone"
    return "nvFuser has a rule only for the overload of aten::to with a dtype"


_TWO_TENSORS = Overload("TT", _always("it takes a number; nvFuser has a rule only for two tensors"))
_BITWISE = "and or xor left_shift right_shift"

_OVERLOADS: dict[str, Overload] = {
    "mean": Overload("T[lN][b?].", _reduction),
    "sum": Overload("T[lN][b?].", _reduction),
    "std": Overload("T[lN]bb", _variance),
    "var": Overload("T[lN]bb", _variance),
    "max": Overload("TT", _extreme),
    "min": Overload("TT", _extreme),
    "remainder": _TWO_TENSORS,
    "fmod": _TWO_TENSORS,
    **{f"bitwise_{name}": _TWO_TENSORS for name in _BITWISE.split()},
    **{f"__{name}__": _TWO_TENSORS for name in ("and", "or", "xor", "lshift", "rshift")},
    "div": Overload(
        f"T(T|{_NUMBER})", _always("it has a `rounding_mode`; nvFuser has a rule only for div without one")
    ),
    "round": Overload(
        "T", _always("it rounds to `decimals`; nvFuser has a rule only for round without them")
    ),
    "where": Overload(
        "TTT", _always("it chooses a number; nvFuser has a rule only for where of two tensors")
    ),
    "clamp": Overload(
        f"T({_NUMBER}|N)({_NUMBER}|N)", _always("its limits are tensors; nvFuser has a rule only for numbers")
    ),
    "to": Overload("T[iN]bb.", _to),
}
"""Operators of which some overloads have no rule; of the others all that TorchScript prints have one."""

FUSED_VIEWS_SINCE: dict[str, Version] = {
    **dict.fromkeys(("aten::expand", "aten::expand_as"), (1, 13)),
    **dict.fromkeys(("aten::permute", "aten::t", "aten::transpose"), (2, 0)),
}
"""Views that nvFuser makes copies of, to take them into a group, and the first torch whose nvFuser does so:
replaceAliasOpsWithCopy of graph_fuser.cpp (torch/csrc/jit/codegen/cuda in 1.13, third_party/nvfuser/csrc in
2.0). In 1.12 it does so with none (https://github.com/csarofeen/pytorch/issues/1700). Those for view,
reshape, squeeze, unsqueeze and flatten are switched off in all of them (a remark there says that aten::view
is disabled), and no log of 1.13 to 2.1 has one."""


def fused_views(torch: str | None) -> frozenset[str]:
    """The views that nvFuser of this torch takes; without a version, that of the newest."""
    if torch is None:
        return frozenset(FUSED_VIEWS_SINCE)
    version = parse_version(torch)
    return frozenset(op for op, since in FUSED_VIEWS_SINCE.items() if since <= version)


_CONSTANT: dict[str, Mapping[int, str]] = {
    "mean": {1: "dim", 2: "keepdim"},
    "softmax": {1: "dim"},
    "log_softmax": {1: "dim"},
    "_softmax": {1: "dim", 2: "half_to_float"},
    "_softmax_backward_data": {2: "dim", 3: "input_dtype"},
    "_log_softmax_backward_data": {2: "dim", 3: "input_dtype"},
    "expand": {1: "size"},
}
"""Arguments that must be constants, and that nvFuser does not profile: position and name."""

_PROFILED: dict[str, Mapping[int, str]] = {
    "sum": {1: "dim", 2: "keepdim"},
    "amax": {1: "dim", 2: "keepdim"},
    "amin": {1: "dim", 2: "keepdim"},
    "sum_to_size": {1: "size"},
    "_grad_sum_to_size": {1: "size"},
    "dropout": {2: "train"},
    "native_dropout": {2: "train"},
    "batch_norm": {5: "training"},
    "native_batch_norm": {5: "training"},
    "_batch_norm_impl_index": {5: "training"},
    "_batch_norm_impl_index_backward": {8: "train", 10: "output_mask"},
    "native_batch_norm_backward": {7: "train", 9: "output_mask"},
    "layer_norm": {1: "normalized_shape"},
    "native_layer_norm": {1: "normalized_shape"},
    "native_layer_norm_backward": {2: "normalized_shape", 7: "output_mask"},
    "softmax": {2: "dtype"},
    "log_softmax": {2: "dtype"},
    "to": {1: "dtype"},
    "_to_copy": {1: "dtype"},
    "gelu": {1: "approximate"},
    "gelu_backward": {2: "approximate"},
    "permute": {1: "dims"},
    "transpose": {1: "dim0", 2: "dim1"},
}
"""Arguments that must be constants, and that nvFuser profiles."""

_NOT_GIVEN: dict[str, Mapping[int, str]] = {
    "to": {4: "memory_format"},
    "_to_copy": {2: "layout", 3: "device", 4: "pin_memory", 6: "memory_format"},
    "rand_like": {1: "dtype", 2: "layout", 5: "memory_format"},
}
"""Arguments that must be None."""

_REDUCES = {
    **dict.fromkeys(("sum", "mean", "std", "var", "amax", "amin", "sum_to_size", "_grad_sum_to_size"), 0),
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_softmax_backward_data"), 0),
    **dict.fromkeys(("_log_softmax_backward_data", "instance_norm", "layer_norm", "native_layer_norm"), 0),
    **dict.fromkeys(("native_layer_norm_backward", "batch_norm", "native_batch_norm"), 0),
    "_batch_norm_impl_index": 0,
    "_batch_norm_impl_index_backward": 1,
    "native_batch_norm_backward": 1,
}
"""Operators that reduce, and which argument they reduce: it must have dimensions and elements."""

_FLOATING = {"5", "6", "7", "15"}
"""Numbers of ScalarType: Half, Float, Double, BFloat16 (c10/core/ScalarType.h)."""

_HALVES = {"5", "15"}


def kinds_of(node: FlowNode) -> str:
    """One letter for each argument of a node."""
    return "".join(_kind(operand) for operand in node.operands)


def _kind(operand: Operand) -> str:
    text = operand.type
    if operand.value == "None":
        return "N"
    if isinstance(parse_type(text), TensorType) or text in ("Tensor", "Tensor?"):
        return "T"
    return _KINDS.get(text.rstrip("?"), "?")


def refused_by_form(node: FlowNode, op: str) -> str | None:
    """What of a node, its overload and the arguments that nvFuser does not profile, its rule refuses: it is
    seen in any print of the node."""
    name = op.split("::")[1]
    kinds = kinds_of(node)
    overload = _OVERLOADS.get(name)
    if overload is not None and "?" not in kinds and not re.fullmatch(overload.takes, kinds):
        return overload.refused(kinds)
    return _bad_argument(node, name)


def refused_because(node: FlowNode, op: str, torch: str | None = None) -> str | None:
    """Which condition of nvFuser's rule for ``op`` a node does not meet, in words; None if all that the log
    shows are met. ``torch``: the version that ran, if known."""
    name = op.split("::")[1]
    form = refused_by_form(node, op)
    if form is not None:
        return form
    since = NVFUSER_SINCE.get(op)
    if torch is not None and since is not None and parse_version(torch) < since:
        return f"nvFuser has a rule for it only since torch {'.'.join(map(str, since))}"
    return _bad_tensor(node, name)


def _bad_argument(node: FlowNode, name: str) -> str | None:
    operands = node.operands
    for place, argument in _NOT_GIVEN.get(name, {}).items():
        if place < len(operands) and operands[place].value != "None" and operands[place].type != "NoneType":
            return f"it gives `{argument}`, which nvFuser's rule takes only as None"
    found = _not_constant(operands, _CONSTANT.get(name, {}))
    if found:
        return found
    dtype = operands[3].value if name in ("sum", "mean") and len(operands) > 3 else None
    if dtype not in (None, "None") and dtype not in _FLOATING:
        return "its `dtype` is not a floating-point type, and nvFuser reduces to no other"
    if name in ("softmax", "log_softmax") and len(operands) > 2 and operands[2].value in _HALVES:
        return "its `dtype` is a half type, and nvFuser's rule takes none there"
    if name == "_softmax" and len(operands) > 2 and operands[2].value in ("1", "True"):
        tensor = parse_type(operands[0].type)
        if isinstance(tensor, TensorType) and tensor.dtype not in (None, "Half"):
            return f"its `half_to_float` is set for a {tensor.dtype} tensor; nvFuser takes only Half there"
    return None


def _bad_tensor(node: FlowNode, name: str) -> str | None:
    place = _REDUCES.get(name)
    asked = node.operands if place is None else node.operands[place : place + 1]
    for operand in asked:
        tensor = parse_type(operand.type)
        if isinstance(tensor, TensorType) and tensor.sizes is not None and 0 in tensor.sizes:
            return "a tensor that it takes has no elements (a size is 0)"
    if place is not None and place < len(node.operands):
        tensor = parse_type(node.operands[place].type)
        if isinstance(tensor, TensorType) and tensor.sizes == ():
            return "it reduces a tensor without dimensions"
    found = _not_constant(node.operands, _PROFILED.get(name, {}))
    if found is None:
        return None
    if all(text == "Tensor" for text in node.outputs):
        return f"{found}, and this code did not run in the profiled passes"
    return f"{found}, and it was not the same in all profiled runs"


def _not_constant(operands: tuple[Operand, ...], names: Mapping[int, str]) -> str | None:
    wrong = [
        (names[place], operands[place].maker)
        for place in names
        if place < len(operands) and operands[place].value is None
    ]
    if not wrong:
        return None
    listed = " and ".join(f"`{name}`" for name, _ in wrong)
    maker = wrong[0][1]
    if len(wrong) > 1:
        how = "arguments of this graph" if not maker else f"results of {maker}"
        return f"its {listed} are {how}, not constants"
    how = "an argument of this graph" if not maker else f"the result of {maker}"
    return f"its {listed} is {how}, not a constant"


BY_DIMENSION = {
    "aten::mean": ("x.mean(dim, keepdim=keep)", "x.mean(2, keepdim=True)"),
    "aten::softmax": ("torch.softmax(x, dim)", "torch.softmax(x, -1)"),
    "aten::log_softmax": ("torch.log_softmax(x, dim)", "torch.log_softmax(x, -1)"),
}
"""Reductions whose dimensions have to be constants: how they are called, and how with constants."""


def to_be_constant(text: str) -> str | None:
    """The arguments that a reason says are not constants; None where it is another reason, or where their
    values differ from run to run."""
    found = re.match(r"its (.+?) (?:is|are) .*, not (?:a constant|constants)$", text)
    return found.group(1) if found else None
