"""The finding codes on Transformer Engine's operation fuser; model/codes.py makes codes of them."""

from __future__ import annotations

OF_TE: tuple[tuple[str, str, str, str | None], ...] = (
    ("FD111", "warning", "No operator of Transformer Engine's te.ops was called", None),
    ("FD112", "note", "Transformer Engine planned on the CPU: a plan, not a run", None),
    ("FD113", "warning", "A module splits a te.ops.Sequential", None),
    ("FD114", "note", "ForwardLinearBiasActivation holds no activation", None),
    ("FD115", "note", "Transformer Engine plans differently by recipe or mode", None),
    ("FD116", "warning", "Transformer Engine's plan and the table of rules differ", None),
    ("FD117", "note", "The program registered fusions of its own", None),
    (
        "FD241",
        "warning",
        "Transformer Engine fuses it in float16 and bfloat16 only",
        "Make the operator in bfloat16: te.ops.Linear(..., dtype=torch.bfloat16).",
    ),
    (
        "FD242",
        "warning",
        "Transformer Engine fuses it only in place, or only not in place",
        "Change in_place of the AddExtraInput or MakeExtraOutput as the reason says, if nothing else "
        "reads the tensor that is changed.",
    ),
    (
        "FD243",
        "note",
        "Transformer Engine does not fuse it in this tensor-parallel mode",
        "Nothing, if the model needs this mode: the processes exchange tensors between the operators.",
    ),
    (
        "FD244",
        "note",
        "Transformer Engine fuses it only under another recipe",
        "It is fused where the gradient is quantized: run under a recipe, such as --recipe delayed.",
    ),
    (
        "FD245",
        "note",
        "Transformer Engine finds no operators next to it to fuse it with",
        "Put the operators that the rule names next to each other, if the model allows it.",
    ),
    (
        "FD246",
        "note",
        "Transformer Engine has no rule for it in this pass",
        "Nothing: it runs as kernels of its own. te.LayerNormLinear and te.LayerNormMLP have such "
        "fusions built in.",
    ),
    (
        "FD247",
        "note",
        "Userbuffers are not in use",
        "Initialise torch.distributed and tensor parallelism, and te.initialize_ub, before the passes.",
    ),
    (
        "FD248",
        "note",
        "The grouped MLP needs another GPU, recipe or setting",
        "Nothing on this GPU: NVTE_CUTEDSL_FUSED_GROUPED_MLP=1 and a GPU of compute capability 10 fuse it.",
    ),
    (
        "FD249",
        "note",
        "Transformer Engine left it basic although the rules take it",
        "Please report it with fusiondoc bundle: the table of rules may be wrong for this version.",
    ),
)
"""Code, severity, title, and advice, where one sentence fits every case."""
