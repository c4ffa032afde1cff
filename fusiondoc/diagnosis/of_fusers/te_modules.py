"""Modules that split a ``te.ops.Sequential``: their names in a program, and their
counterparts in te.ops."""

from __future__ import annotations

from fusiondoc.fusers.te import TE
from fusiondoc.model.te import TeSplit

_OPS = {
    "Dropout": (2, 7),
    "GELU": (1, 10),
    "GLU": (2, 13),
    "Identity": (1, 10),
    "LayerNorm": (1, 10),
    "Linear": (1, 10),
    "ReLU": (1, 10),
    "RMSNorm": (1, 10),
    "SiLU": (2, 8),
}
"""Modules of torch.nn and transformer_engine.pytorch with a counterpart in
te.ops -> the first version with it (transformer_engine/pytorch/ops/basic, 1.13
to 2.20)."""

_OF_TE = f"{TE.module}.pytorch"


def named(split: TeSplit) -> str:
    """Return the module as a program names it: ``torch.nn.Dropout``, ``te.Linear``,
    ``Block``."""
    home = split.of or ""
    if home.startswith(f"{_OF_TE}.ops"):
        return f"te.ops.{split.module}"
    if home.startswith(_OF_TE):
        return f"te.{split.module}"
    torch = home.startswith("torch.nn") or (
        not home and split.module in _OPS
    )  # older captures do not record it
    if torch:
        return f"torch.nn.{split.module}"
    return split.module


def counterpart(split: TeSplit, version: tuple[int, int] | None) -> str | None:
    """Return ``te.ops.Dropout``, if this version has it; None if there is no
    counterpart."""
    home = split.of or "torch.nn"
    known = home.startswith(("torch.nn", _OF_TE)) and not home.startswith(
        f"{_OF_TE}.ops"
    )
    since = _OPS.get(split.module) if known else None
    if since is not None and (version is None or version >= since):
        return f"te.ops.{split.module}"
    return None


def instead_of(split: TeSplit, version: tuple[int, int] | None) -> str:
    """Return the advice on it, as a sentence without its end."""
    other = counterpart(split, version)
    if other is not None:
        return f"Use {other} instead of {named(split)}"
    if named(split) in ("te.ops.Sequential", "torch.nn.Sequential"):
        return f"Put the operators of the inner {named(split)} into the outer: te.ops.Sequential(*inner, ...)"
    return f"Put {named(split)} before or after all operators of the sequence, if the model allows it"
