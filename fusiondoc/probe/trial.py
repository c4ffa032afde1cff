"""Whether a fuser really works here: a small function is run under it, and its plan must hold a fusion
group."""

from __future__ import annotations

import os
from typing import Any

from . import fusers
from .failures import Refused
from .quiet import KeptStderr
from .records import Records

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
