"""Conditions of fusers in plain words, by the name that a detail has for each."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fusers import FUSERS

STATED: dict[str, str] = {"other": "{text}"}
"""The sentence of each condition that a log states. ``{op}`` and ``{text}`` are
fields of ``Stated``."""

for _fuser in FUSERS.values():
    STATED.update(_fuser.words.conditions)

SIDE_EFFECTS: Mapping[str, str] = {
    "prim::Print": "a print",
    "prim::SetAttr": "an assignment to an attribute of the module",
    "aten::warn": "a warning",
    "aten::manual_seed": "a call of torch.manual_seed",
    "prim::Enter": "the beginning of a with block",
    "prim::Exit": "the end of a with block",
    "^": "a call of a Python function",
}
"""Kinds of nodes past which torch moves no node (``SIDE_EFFECTS`` of
parsers/jit/flow.py), in words."""
