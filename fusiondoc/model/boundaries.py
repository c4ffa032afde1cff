"""Where a tensor goes through memory, because what makes it and what reads it are
not one kernel."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.model import dataclass
from fusiondoc.model.reasons.reason import Reason

WRITTEN_AND_READ = "written and read"
"""One end makes the tensor and the other takes it."""

READ_TWICE = "read twice"
"""Both ends take the tensor, which something else makes."""


@dataclass(frozen=True)
class BoundaryEnd:
    """A fusion group, or a node outside every group."""

    group: str | None
    """Id of the group."""
    row: int | None
    """``Unfused.index`` of its row."""
    op: str
    """As printed."""


@dataclass(frozen=True)
class Boundary:
    """Groups or operators outside groups that share a tensor and stayed apart: it
    goes through memory."""

    producer: BoundaryEnd
    """What makes the tensor; of one that is read twice what reads it first."""
    consumer: BoundaryEnd
    tensor: str | None
    """Its type, as printed; None where the log does not show it."""
    bytes: int | None
    """Of the tensor, each element once."""
    kind: str
    """"written and read" or "read twice"."""
    cause: Reason | None
    """Why they stayed apart; None where nothing shows it."""
    between: tuple[BoundaryEnd, ...]
    """What stands between them: views and branches on the way, or a node that takes
    from one and gives to the other."""
    count: int = 1
    """How many pairs of nodes in the plans."""

    def times(self, count: int) -> Boundary:
        return replace(self, count=count)
