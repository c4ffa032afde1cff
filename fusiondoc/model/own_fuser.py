"""What fuses in a program without the switches that fusiondoc sets for a run."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class OwnFuser:
    """The fuser of the program by itself, which is not that of the run."""

    fuser: str
    """The name of a fuser, or none: by torch's defaults, variables and what the
    program sets."""
    device: str
    """cpu or cuda: where the program computes."""
    wanted: str
    """The fuser of the run; where nothing fused, the one that could."""
    python: tuple[str, ...]
    """The lines that switch ``wanted`` on, for before the first call of the model:
    what is not so already."""
