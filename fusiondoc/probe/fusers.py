"""Choosing a fuser, switching it on for the rest of the process, and finding which of them really work here.

The switches are those of ``torch.jit.fuser`` (torch/jit/_fuser.py), set for good instead of inside a
context: plans compile at run time, wherever the user's code calls the model. Whether a fuser works is
found with a small function that is run under it: its plan must hold a fusion group.
"""

from __future__ import annotations

import os
import re
from typing import Any

from .failures import CANNOT_RUN, Refused
from .log_and_records import KeptStderr, Records

_SWITCHES = {
    # (fuse on CPU, fuse on GPU, tensor expressions, nvFuser, oneDNN Graph)
    "legacy": (True, True, False, False, False),
    "nnc": (True, True, True, False, False),
    "nvfuser": (False, False, False, True, False),
    "onednn": (True, False, True, False, True),
    "none": (False, False, False, False, False),
}

_NVFUSER_RANGE = "nvFuser is in TorchScript of torch 1.12 to 2.1 with CUDA"


def torch_release(torch: Any) -> tuple[int, int]:
    """(major, minor) of this torch."""
    match = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def why_no_nvfuser(torch: Any) -> str | None:
    """Why nvFuser cannot work here, or None if it can.

    From 2.2 on its switches are no-ops that print a warning each, so they are not even called there. Below,
    the binary is asked: with a device and the switch set, reading it back must give True.
    """
    this = "this is torch %s" % torch.__version__
    if torch_release(torch) >= (2, 2):
        return "%s; %s" % (_NVFUSER_RANGE, this)
    if torch.version.cuda is None:
        return "%s; %s, a build without CUDA" % (_NVFUSER_RANGE, this)
    if not torch.cuda.is_available():
        return "nvFuser needs an NVIDIA GPU, and torch %s sees none here" % torch.__version__
    switch = torch._C
    # Without the profiling executor torch says that it was built without CUDA (codegen/cuda/interface.cpp).
    executor = switch._jit_set_profiling_executor(True)
    try:
        before = switch._jit_nvfuser_enabled()
        switch._jit_set_nvfuser_enabled(True)
        works = switch._jit_nvfuser_enabled() is True
        switch._jit_set_nvfuser_enabled(bool(before))
    except (AttributeError, RuntimeError) as error:
        return "torch %s cannot switch nvFuser on: %s" % (torch.__version__, str(error).split("\n")[0])
    finally:
        switch._jit_set_profiling_executor(bool(executor))
    if not works:
        return (
            "torch %s does not switch nvFuser on (PYTORCH_JIT_USE_NNC_NOT_NVFUSER or a missing library)"
            % (torch.__version__)
        )
    return None


def why_no_onednn(torch: Any) -> str | None:
    """Why oneDNN Graph cannot work here, or None if it can."""
    enable = getattr(torch._C, "_jit_set_llga_enabled", None)
    if enable is None:
        return "oneDNN Graph is in torch from 1.12 on; this is torch %s" % torch.__version__
    before = torch._C._jit_llga_enabled()
    try:
        enable(True)
        works = torch._C._jit_llga_enabled() is True
        enable(bool(before))
    except RuntimeError as error:
        return "torch %s cannot switch oneDNN Graph on: %s" % (torch.__version__, str(error).split("\n")[0])
    return None if works else "torch %s does not switch oneDNN Graph on" % torch.__version__


def choose(torch: Any, requested: str) -> tuple[str, str]:
    """The fuser that ``requested`` means here and a sentence why; Refused (status 4) if it cannot work."""
    nvfuser_problem = why_no_nvfuser(torch) if requested in ("auto", "nvfuser") else None
    if requested == "auto":
        if nvfuser_problem is None:
            return "nvfuser", "auto: this torch has nvFuser, and a GPU for it"
        remark = note(torch, "nnc")
        why = "auto: %s; NNC works here" % nvfuser_problem
        return "nnc", "%s, %s" % (why, remark) if remark else why
    if requested == "nvfuser" and nvfuser_problem is not None:
        raise Refused(
            "fuser",
            "nvFuser cannot work here: " + nvfuser_problem,
            "Use torch 2.1 (or 1.12 to 2.0) with CUDA on a machine with an NVIDIA GPU (--python chooses the "
            "interpreter), or --fuser nnc here.",
            CANNOT_RUN,
        )
    if requested == "onednn":
        problem = why_no_onednn(torch)
        if problem is not None:
            raise Refused(
                "fuser", "oneDNN Graph cannot work here: " + problem, "Use --fuser nnc.", CANNOT_RUN
            )
    remark = note(torch, requested)
    return requested, "asked for; " + remark if remark else "asked for"


def note(torch: Any, fuser: str) -> str | None:
    """What to know about a fuser here, or None."""
    if fuser == "nnc" and not torch.cuda.is_available() and not torch._C._llvm_enabled():
        return (
            "through its own evaluator on the CPU, because this build has no LLVM (true groups, slow kernels)"
        )
    return {
        "onednn": "weights of frozen modules only",
        "legacy": "only under the legacy executor, which replaces the profiling executor",
        "none": "every fuser off",
    }.get(fuser)


def switch_on(torch: Any, fuser: str) -> None:
    """Set every switch for ``fuser``."""
    cpu, gpu, tensor_expressions, nvfuser, onednn = _SWITCHES[fuser]
    switch = torch._C
    llvm = bool(switch._llvm_enabled())
    if fuser == "onednn" and not llvm:
        cpu = False  # What oneDNN leaves over would go to NNC, which has no CPU backend in this build.
    # FuseGraph, the legacy pass, is only called by the legacy executor (runNondiffOptimization of
    # graph_executor.cpp); torch.jit.fuser("fuser0") alone fuses nothing. The executor comes first: without
    # the profiling one nvFuser cannot be switched on.
    switch._jit_set_profiling_executor(fuser != "legacy")
    switch._get_graph_executor_optimize(True)
    switch._jit_override_can_fuse_on_cpu(cpu)
    switch._jit_override_can_fuse_on_gpu(gpu)
    switch._jit_set_texpr_fuser_enabled(tensor_expressions)
    if torch_release(torch) < (2, 2) and (nvfuser or torch.version.cuda is not None):
        switch._jit_set_nvfuser_enabled(nvfuser)
    if hasattr(switch, "_jit_set_llga_enabled"):
        switch._jit_set_llga_enabled(onednn)
    switch._jit_override_can_fuse_on_cpu_legacy(fuser == "legacy")
    if fuser == "nnc" and not llvm:
        # With the default True nothing fuses on the CPU at compile time, or the second run dies of
        # "LLVM Backend not found".
        switch._jit_set_te_must_use_llvm_cpu(False)


def is_on(torch: Any, fuser: str) -> bool:
    """Whether the switches read back as ``fuser`` needs them."""
    switch = torch._C
    if fuser == "nvfuser":
        return switch._jit_nvfuser_enabled() is True
    if fuser == "onednn":
        return switch._jit_llga_enabled() is True
    if fuser == "nnc":
        reachable = switch._jit_can_fuse_on_cpu() or switch._jit_can_fuse_on_gpu()
        return bool(switch._jit_texpr_fuser_enabled() and reachable)
    if fuser == "legacy":
        return bool(switch._jit_can_fuse_on_cpu_legacy() or switch._jit_can_fuse_on_gpu())
    return not (switch._jit_can_fuse_on_cpu() or switch._jit_can_fuse_on_gpu())


def read_back(torch: Any) -> tuple[Any, ...]:
    """The switches as they are now, to see whether somebody else has changed them."""
    switch = torch._C
    nvfuser = switch._jit_nvfuser_enabled() if torch_release(torch) < (2, 2) else None
    return (
        nvfuser,
        switch._jit_can_fuse_on_cpu(),
        switch._jit_can_fuse_on_gpu(),
        switch._jit_can_fuse_on_cpu_legacy(),
        switch._jit_texpr_fuser_enabled(),
        switch._jit_get_te_must_use_llvm_cpu(),
        switch._jit_llga_enabled() if hasattr(switch, "_jit_llga_enabled") else None,
    )


_GROUP_KINDS = {
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
    records.write("available", fuser="none", available=True, why=note(torch, "none"), device=None)
    for name in _GROUP_KINDS:
        records.write("trying", fuser=name)
        records.write("available", fuser=name, **_try(torch, name))


def _try(torch: Any, name: str) -> dict[str, Any]:
    try:
        choose(torch, name)
    except Refused as refused:
        return {"available": False, "why": refused.message.split(" here: ", 1)[-1], "device": None}
    on_gpu = torch.cuda.is_available() and name != "onednn"
    device = "cuda" if on_gpu else "cpu"
    try:
        switch_on(torch, name)
        with KeptStderr():
            made = _makes_group(torch, _GROUP_KINDS[name], device)
    except Exception as error:
        problem = "a small function failed under it: " + str(error).strip().split("\n")[-1]
        return {"available": False, "why": problem, "device": device}
    if not made:
        return {
            "available": False,
            "why": "it fuses nothing in a small function on " + device,
            "device": device,
        }
    remark = note(torch, name)
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
