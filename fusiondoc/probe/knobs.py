"""The knobs: names, how torch sets each, applying one and trying them all.

The catalogue of the package describes the same names; a test holds the two together, because nothing
here may import the package.

Whether a fuser really works here: a small function is run under it, and its plan must hold a fusion
group.
"""

from __future__ import annotations

import os
from typing import Any, Iterable

from . import fusers, knob_access
from .failures import Refused
from .knob_access import Blind, Callback, Depth, Inlining, Outcome, Readable, Skipped, Swap, first_line
from .records import Records
from .stdio import KeptStderr

KNOBS: dict[str, Any] = {
    "nvfuser": Readable("_jit_set_nvfuser_enabled", "_jit_nvfuser_enabled"),
    "single_node": Readable("_jit_set_nvfuser_single_node_mode", "_jit_nvfuser_single_node_mode"),
    "horizontal": Readable("_jit_set_nvfuser_horizontal_mode", "_jit_nvfuser_horizontal_mode"),
    "guard": Swap("_jit_set_nvfuser_guard_mode"),
    "skip_node_kind": Skipped(),
    "comparison_callback": Callback(),
    "nnc": Readable("_jit_set_texpr_fuser_enabled", "_jit_texpr_fuser_enabled"),
    "nnc_dynamic_shapes": Readable(
        "_jit_set_texpr_dynamic_shape_enabled", "_jit_texpr_dynamic_shape_enabled"
    ),
    "nnc_reductions": Readable("_jit_set_texpr_reductions_enabled", "_jit_texpr_reductions_enabled"),
    "nnc_fallback": Readable("_jit_texpr_set_fallback_allowed", "_jit_texpr_fallback_allowed"),
    "nnc_must_use_llvm": Readable("_jit_set_te_must_use_llvm_cpu", "_jit_get_te_must_use_llvm_cpu"),
    "nnc_block_code": Readable("_jit_set_te_generate_block_code", "_jit_get_te_generate_block_code"),
    "nnc_cuda_loop_levels": Readable(
        "_jit_set_te_cuda_pointwise_loop_levels", "_jit_get_te_cuda_pointwise_loop_levels", "integer"
    ),
    "nnc_cuda_block_count": Readable(
        "_jit_set_te_cuda_pointwise_block_count", "_jit_get_te_cuda_pointwise_block_count", "integer"
    ),
    "nnc_cuda_block_size": Readable(
        "_jit_set_te_cuda_pointwise_block_size", "_jit_get_te_cuda_pointwise_block_size", "integer"
    ),
    "onednn": Readable("_jit_set_llga_enabled", "_jit_llga_enabled"),
    "fuse_on_cpu": Readable("_jit_override_can_fuse_on_cpu", "_jit_can_fuse_on_cpu"),
    "fuse_on_gpu": Readable("_jit_override_can_fuse_on_gpu", "_jit_can_fuse_on_gpu"),
    "fuse_on_cpu_legacy": Readable("_jit_override_can_fuse_on_cpu_legacy", "_jit_can_fuse_on_cpu_legacy"),
    "fusion_group_inlining": Readable("_debug_set_fusion_group_inlining", "_debug_get_fusion_group_inlining"),
    "autodiff_inlining": Inlining(),
    "profiled_runs": Readable("_jit_set_num_profiled_runs", "_jit_get_num_profiled_runs", "count"),
    "fusion_strategy": Swap("_jit_set_fusion_strategy", "strategy"),
    "bailout_depth": Depth(),
    "profiling_executor": Swap("_jit_set_profiling_executor"),
    "profiling_mode": Swap("_jit_set_profiling_mode"),
    "graph_optimize": Readable("_set_graph_executor_optimize", "_get_graph_executor_optimize"),
    "log_level": Readable("_jit_set_logging_option", "_jit_get_logging_option", "text"),
    "log_stream": Blind("_jit_set_logging_stream", "stream"),
}

_WARNS = ("_jit_set_nvfuser", "_jit_nvfuser", "_jit_set_bailout_depth")
"""Functions that write to stderr on some torch; only for these is stderr kept aside."""


def apply(torch: Any, name: str, value: str) -> dict[str, Any]:
    """Set one knob for the rest of the process and read it back.

    Returns the record ``{"record": "knob", "name", "requested", "effective", "live", "why"}``:
    ``effective`` is the value read back as text (None if torch gives no way), ``live`` whether setting
    it changes anything (None if that cannot be seen). Where it could not be set at all, ``error`` says
    why in one sentence.
    """
    knob = KNOBS.get(name)
    if knob is None:
        return _record(name, value, Outcome(None, False), error="there is no knob %r" % name)
    missing = _missing(torch, knob)
    if missing:
        return _record(name, value, Outcome(None, False), error="this torch has no torch._C.%s" % missing)
    try:
        wanted = knob_access.parse(knob.kind, value)
        outcome, said = _hushed(knob, lambda: knob.apply(torch, wanted))
    except (ValueError, TypeError, RuntimeError) as error:
        return _record(name, value, Outcome(None, False), error=first_line(error))
    return _record(name, value, _with_warnings(outcome, said))


def try_all(torch: Any) -> list[dict[str, Any]]:
    """Try every knob: the records of ``apply`` with ``requested`` None and the value found in effect.

    Runs two small functions through the executor, so it belongs in a process of its own. Every knob is
    put back.
    """
    records = []
    with KeptStderr() as kept:
        for name, knob in KNOBS.items():
            missing = _missing(torch, knob)
            if missing:
                outcome = Outcome(None, False, "this torch has no torch._C.%s" % missing)
            else:
                try:
                    outcome = knob.attempt(torch)
                except (TypeError, RuntimeError) as error:
                    outcome = Outcome(None, False, first_line(error))
            records.append(_record(name, None, _with_warnings(outcome, kept.warnings())))
    return records


def _missing(torch: Any, knob: Any) -> str | None:
    return next((function for function in knob.needs if not hasattr(torch._C, function)), None)


def _hushed(knob: Any, action: Any) -> tuple[Outcome, list[str]]:
    if not any(function.startswith(_WARNS) for function in knob.needs):
        return action(), []
    with KeptStderr() as kept:
        outcome = action()
        return outcome, kept.warnings()


def _with_warnings(outcome: Outcome, said: list[str]) -> Outcome:
    """Torch's own warning is the better reason, and the only sign that a function without a value is a
    no-op."""
    if not said:
        return outcome
    # What follows is the value that the trial set, not the one in effect.
    text = said[0].split(". Setting to ")[0]
    live = False if "no-op" in text else outcome.live
    return outcome._replace(live=live, why="torch says: " + text)


def _record(name: str, requested: str | None, outcome: Outcome, error: str | None = None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "record": "knob",
        "name": name,
        "requested": requested,
        "effective": knob_access.show(outcome.effective),
        "live": outcome.live,
        "why": outcome.why,
    }
    if error is not None:
        record["error"] = error
    return record


def names() -> Iterable[str]:
    """The names of all knobs, in the order of ``try_all``."""
    return KNOBS.keys()


GROUP_KINDS = {
    "nnc": "prim::TensorExprGroup",
    "onednn": "prim::oneDNNFusionGroup",
    "legacy": "prim::FusionGroup",
    "nvfuser": "prim::CudaFusionGroup",
}

_SOURCE = "def small(x, y):\n    return (x * y + x).relu() * y\n"


def try_fusers(torch: Any, records: Records) -> None:
    """For every fuser a record ``available`` {"fuser", "available", "why", "device"}.

    nvFuser comes last, after a record ``trying``: on a GPU newer than itself it ends the process (torch 1.12
    dies of SIGFPE on compute capability 9.0).
    """
    # So that a group that fails to compile raises instead of running unfused; read once, at the first use.
    os.environ["PYTORCH_NVFUSER_DISABLE"] = "fallback"
    os.environ["PYTORCH_NVFUSER_DISABLE_FALLBACK"] = "1"
    records.write("available", fuser="none", available=True, why=fusers.note(torch, "none"), device=None)
    for name in GROUP_KINDS:
        records.write("trying", fuser=name)
        records.write("available", fuser=name, **_try(torch, name))


def _try(torch: Any, name: str) -> dict[str, Any]:
    try:
        fusers.choose(torch, name)
    except Refused as refused:
        return {"available": False, "why": refused.message.split(" here: ", 1)[-1], "device": None}
    on_gpu = torch.cuda.is_available() and name != "onednn"
    device = "cuda" if on_gpu else "cpu"
    try:
        fusers.switch_on(torch, name)
        with KeptStderr():
            made = _makes_group(torch, GROUP_KINDS[name], device)
    except Exception as error:
        problem = "a small function failed under it: " + str(error).strip().split("\n")[-1]
        return {"available": False, "why": problem, "device": device}
    if not made:
        return {
            "available": False,
            "why": "it fuses nothing in a small function on " + device,
            "device": device,
        }
    remark = fusers.note(torch, name)
    why = "fused a small function on the " + ("GPU" if on_gpu else "CPU")
    return {"available": True, "why": "%s: %s" % (why, remark) if remark else why, "device": device}


def _makes_group(torch: Any, kind: str, device: str) -> bool:
    small = torch.jit.CompilationUnit(_SOURCE).small
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    with torch.no_grad():
        for _ in range(torch._C._jit_get_num_profiled_runs() + 2):
            small(x, y)
    if device == "cuda":
        torch.cuda.synchronize()
    return bool(list(torch._C._last_executed_optimized_graph().findAllNodes(kind)))
