"""What the fuser of Transformer Engine looks at: read from its operators, plans and the process."""

from __future__ import annotations

import os
from typing import Any


def world_size(torch: Any) -> int | None:
    """Processes of torch.distributed; None where it is not in use."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_world_size())


def first_backward(fuser: Any, ops: Any, args: tuple[Any, ...], torch: Any) -> int:
    """The first operator that a backward pass reaches, as ``maybe_fuse_ops`` works it out; below 2.7 there is
    no such attribute."""
    told: Any = getattr(fuser, "first_op_requiring_backward", None)
    if told is not None:
        return int(told)
    if not torch.is_grad_enabled():
        return len(ops)
    if args and args[0].requires_grad:
        return 0
    for index, op in enumerate(ops):
        if any(one.requires_grad for one in op.parameters()):
            return index
    return len(ops)


def entries(planned: Any) -> list[dict[str, Any]]:
    """A row for each operator of a plan, in the order of the forward pass: 1.9 to 2.12 keep those of the
    backward pass in the order in which they run."""
    rows = [
        {
            "kind": type(op).__name__,
            "operators": sorted(int(index) for index in indexes),
            "fused": bool(op.is_fused_op),
            "own": not type(op).__module__.startswith("transformer_engine."),
        }
        for op, indexes in planned
    ]
    return sorted(rows, key=lambda row: row["operators"])


def facts_of(op: Any) -> dict[str, Any]:
    """What the rules of the fuser look at in an operator."""
    weight: Any = getattr(op, "weight", None)
    options = getattr(op, "_userbuffers_options", None)
    return {
        "in_place": _plain(getattr(op, "_in_place", None)),
        "dtype": str(weight.dtype).replace("torch.", "") if hasattr(weight, "dtype") else None,
        "tensor_parallel": _plain(getattr(op, "tensor_parallel_mode", None)),
        "tensor_parallel_size": _plain(getattr(op, "tensor_parallel_size", None)),
        "process_group_size": _plain(getattr(op, "process_group_size", None)),
        "userbuffers": options is not None,
        "grad_quantizer": _quantizes(op),
    }


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _quantizes(op: Any) -> bool | None:
    """Whether it takes the gradient of its output quantized: ``get_grad_output_quantizer`` (2.8 and later),
    else ``num_quantizers`` (2.6 and 2.7); None where it has neither."""
    getter = getattr(op, "get_grad_output_quantizer", None)
    if callable(getter):
        return getter() is not None
    number = getattr(op, "num_quantizers", None)
    return bool(number("backward") > 0) if callable(number) else None


def users_line(frame: Any) -> str | None:
    """``model.py:12``: the first frame that is neither of Transformer Engine nor of torch."""
    for _ in range(60):
        if frame is None:
            return None
        name = frame.f_code.co_filename
        parts = name.replace(os.sep, "/").split("/")
        if (
            "transformer_engine" not in parts
            and "torch" not in parts
            and "_fusiondoc_probe" not in frame.f_globals.get("__name__", "")
        ):
            return "%s:%d" % (_shown(name), frame.f_lineno)
        frame = frame.f_back
    return None


def _shown(name: str) -> str:
    """Relative to the current folder where it lies below it."""
    path = os.path.abspath(name)
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
