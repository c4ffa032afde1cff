"""Remedies for conditions that NNC states and that an operator does not meet, and
for NNC's errors."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fusers.nnc.errors import EXPONENT
from fusiondoc.model.remedies import Remedy, nothing

WRITE_THE_LIST = "Write the list where it is joined: torch.cat([x, y], 1), not one that is appended to or given."

CONDITIONS: Mapping[str, str | Remedy] = {
    "view_shared": "Make another view for what is used outside, x.view([...]) of the tensor before"
    " it: then all uses of this one are in the group.",
    **dict.fromkeys(
        ("list_shared", "cat_shared"),
        "Compute before the list is made: torch.cat([f(x), f(y)], 1) instead of f(torch.cat([x, y], 1)).",
    ),
    **dict.fromkeys(
        ("list_elsewhere", "list_given", "cat_elsewhere"),
        WRITE_THE_LIST,
    ),
    **dict.fromkeys(
        ("dim_not_constant", "cat_dim_not_constant"),
        "Write its `dim` as a number, not as an argument or a variable.",
    ),
    "training": nothing(
        "Nothing in training;",
        "for inference, put the module into eval mode: model.eval().",
    ),
    "pass_stopped": "Unset PYTORCH_JIT_OPT_LIMIT.",
}
"""``Stated.condition`` -> remedy. All but the last two are tried in
``fixtures/logs/refused_arguments.py``."""

CAUSES_OF_ERRORS: Mapping[str | None, str | Remedy] = {
    EXPONENT: "NNC writes a number with an exponent (such as torch.finfo(...).min, -3.4e+38) in a form that"
    " CUDA cannot read: use a number without one (-1e4), keep it in a tensor, or turn this fuser"
    " off around the block: with torch.jit.fuser('none').",
}
OTHER_ERRORS = "Turn this fuser off around the block (with torch.jit.fuser('none')), or use another torch."
