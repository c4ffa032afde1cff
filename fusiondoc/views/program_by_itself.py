"""The fuser that a program uses without the switches of the run, in words."""

from __future__ import annotations

from fusiondoc.fusers import fuser_title
from fusiondoc.model.own_fuser import OwnFuser

LABEL = "Program"
"""The label of the line with ``shortly`` or ``lead``."""

COMMAND = "fusiondoc env --export"
"""The command that prints these lines for any target."""


def shortly(own: OwnFuser) -> str:
    """Return ``by itself fuses nothing: ...``, with the cause."""
    where = "on the GPU" if own.device == "cuda" else "on the CPU"
    fuses = "nothing" if own.fuser == "none" else f"under {fuser_title(own.fuser)}"
    return f"by itself fuses {fuses}: {fuser_title(own.wanted)} is off {where}"


def lead(own: OwnFuser) -> str:
    """Return ``shortly`` as the introduction of the lines that switch the fuser
    on."""
    return f"{shortly(own)} until switched on:"


def sentence(own: OwnFuser) -> str:
    """Return the text with these lines, without a full stop."""
    return f"the program {lead(own)} {'; '.join(own.python)}"
