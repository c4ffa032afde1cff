"""The fuser of a program without the switches that fusiondoc sets for a run."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class OwnFuser:
    """The fuser that the program uses by itself, if it is not the fuser of the
    run."""

    fuser: str
    """The name of a fuser, or none: by torch's defaults, environment variables and
    the program's own settings."""
    device: str
    """cpu or cuda: the device on which the program computes."""
    wanted: str
    """The fuser of the run; if nothing fused, the fuser that could."""
    python: tuple[str, ...]
    """Lines that switch ``wanted`` on before the first call of the model; only
    those that are not in effect already."""
