"""Names of dumps (``--dump``) of the fusers that have no dump variable of their own, and what prints them.

NNC's are messages of torch's JIT log. That ``kernel`` prints the loop nests was seen on torch 2.13 on the
CPU; ``cuda_codegen`` is from torch/csrc/jit/tensorexpr/cuda_codegen.cpp. The texts are the same in all
sources that were looked at, from about 1.10 on. ``eval``, ``loopnest``, ``ir_simplifier`` and ``codegen``
print steps on the way and no finished code; ``llvm_codegen`` prints nothing in the wheels, which have no
LLVM. oneDNN Graph has its own variable, which was ONEDNN_GRAPH_VERBOSE before it became a part of oneDNN.
"""

from __future__ import annotations

from fusiondoc.fuser_knobs.entries import FuserDump
from fusiondoc.fuser_knobs.versions import span

_JIT_LOG = "PYTORCH_JIT_LOG_LEVEL"

FUSER_DUMPS: tuple[FuserDump, ...] = (
    FuserDump(
        "nnc_ir",
        "nnc",
        "The loop nest of each NNC kernel as it is compiled or, without LLVM, evaluated.",
        (span("1.11-2.13"),),
        ((_JIT_LOG, ">>kernel"),),
    ),
    FuserDump(
        "nnc_stages",
        "nnc",
        "The loop nest of each NNC kernel at every stage: original, simplified, inlined, final.",
        (span("1.11-2.13"),),
        ((_JIT_LOG, ">>kernel"),),
    ),
    FuserDump(
        "nnc_cuda",
        "nnc",
        "The CUDA code of each NNC kernel; on a GPU only.",
        (span("1.11-2.13"),),
        ((_JIT_LOG, "kernel:>>cuda_codegen"),),
    ),
    FuserDump(
        "onednn_verbose",
        "onednn",
        "Each partition of oneDNN Graph that ran: implementation, tensors, time.",
        (span("1.12-2.13"),),
        (("ONEDNN_VERBOSE", "1"), ("ONEDNN_GRAPH_VERBOSE", "1")),
    ),
)
