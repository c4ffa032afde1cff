"""FD2xx: an operator that is not fused, with the reason the log states."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.operators import is_fusible
from fusiondoc.diagnosis.rules.context import Context
from fusiondoc.diagnosis.rules.make import finding
from fusiondoc.model.report import Finding, Report, Unfused

ADVICE = {
    "FD201": "Replace it with operators that nvFuser fuses, or accept that it splits the groups around it.",
    "FD202": "Cast the input to float16, bfloat16, float32 or float64 first; ranks above 8 are rejected "
    "too: reshape.",
    "FD203": "Cast the output to float16, bfloat16, float32 or float64; ranks above 8 are rejected too: "
    "reshape.",
    "FD204": "Move its tensors to the GPU (.to('cuda')); one CPU tensor keeps the operator out.",
    "FD205": "On this GPU only element-wise operators fuse: use a Volta GPU or newer.",
    "FD206": "Use float16 or float32 on this GPU; bfloat16 fuses from Ampere on.",
    "FD207": "Keep all tensors of the block on one GPU.",
    "FD211": "Replace it with operators that NNC fuses, or accept that it splits the groups around it.",
    "FD212": "Its shapes were not profiled: avoid views of unknown shape and branches around it, and run it"
    " (profiling skips operators that did not run).",
    "FD213": "Turn fusion on for its device: torch._C._jit_override_can_fuse_on_cpu(True) or "
    "..._on_gpu(True).",
    "FD214": "Give it tensor inputs on one device.",
    "FD215": "Use float, half, int or bool tensors and constant arguments.",
    "FD216": "Reorder the program so that nothing between the operator and the group depends on it, and avoid"
    " in-place changes.",
    "FD217": "Remove it from PYTORCH_TENSOREXPR_DONT_FUSE.",
    "FD218": "Split the block: a group takes at most 128 inputs and outputs.",
    "FD219": "The condition names what NNC requires; change the operator's arguments accordingly.",
    "FD220": "A lone operator gains nothing; put others next to it, or allow groups of one:"
    " --knob fusion_group_inlining=off.",
    "FD104": "Choose a fuser: --fuser nnc or nvfuser; in a program: with torch.jit.fuser('fuser1').",
    "FD221": "Put all tensors of the block on one device: x.to(y.device).",
    "FD222": "Move its tensors to the GPU: .to('cuda').",
    "FD223": "Compute in float32, float16 or bfloat16 where the result allows it, and cast outside the "
    "block.",
    "FD224": "Reshape to at most 8 dimensions before the block and back after it.",
    "FD225": "Nothing, if it is alone for good; under nvFuser --knob single_node=on makes it a group of "
    "its own.",
    "FD226": "Nothing: it moves no data. It matters only between two groups.",
    "FD227": "Move the operator between them before or after the whole block, or replace it with "
    "ones that fuse.",
    "FD228": "Take it out of the branch or loop, or move its neighbours in.",
    "FD229": "Decide outside the scripted function: a constant flag, two functions, torch.where instead "
    "of a branch,"
    " an argument that is never None.",
    "FD230": "Write the version without the underscore: x = x.add(y) instead of x.add_(y).",
    "FD231": "Run inference under torch.no_grad(); for training, --knob autodiff_inlining=off shows "
    "small regions,"
    " and operators without a gradient formula are best moved out of the block.",
    "FD232": "Run the code in the first passes too (all branches), so that its tensors are profiled.",
    "FD233": "Replace it with operators that this fuser takes (fusiondoc explain FD233), or move it out "
    "of the block.",
    "FD234": "Split the block: a kernel takes at most 128 inputs and outputs.",
    "FD235": "Nothing: it belongs to the gradient executor. Fewer inputs that require gradients mean "
    "fewer of them.",
    "FD299": "Get more of the log: fusiondoc diagnose records every reason that torch states.",
}


NOTHING_SAVED = ("FD226", "FD229", "FD235")
"""Views, control flow and bookkeeping: they have no results of their own that a kernel could keep."""


def not_fused(report: Report, context: Context) -> Iterable[Finding]:
    """One finding for each unfused row; what no fuser can fuse is only a note."""
    for row in report.unfused:
        if row.reason.code in ADVICE and row.op != "prim::GetAttr":
            yield _finding(row)


def _finding(row: Unfused) -> Finding:
    times = f" ({row.count} times)" if row.count > 1 else ""
    phase = f" in {row.phase}" if row.phase else ""
    return finding(
        row.reason.code,
        f"{row.op}{times} is not fused{phase}: {row.reason.text}",
        source=row.user_source,
        evidence=row.evidence,
        advice=ADVICE[row.reason.code],
        severity="warning" if row.reason.stated and is_fusible(row.op) else "note",
        saves_bytes=row.bytes_moved if row.reason.code not in NOTHING_SAVED else None,
    )


RULES = (not_fused,)
