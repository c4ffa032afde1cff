"""Boundaries: tensors that go through memory, because the kernels that make and
read them are not one."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.model import dataclass
from fusiondoc.model.reasons.reason import Reason

WRITTEN_AND_READ = "written and read"
"""One end makes the tensor and the other reads it."""

READ_TWICE = "read twice"
"""Both ends read the tensor, which another node makes."""


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
    """The end that makes the tensor; for a tensor that is read twice, its first
    reader."""
    consumer: BoundaryEnd
    tensor: str | None
    """Its type, as printed; None if the log does not show it."""
    bytes: int | None
    """Bytes of the tensor, each element counted once."""
    kind: str
    """"written and read" or "read twice"."""
    cause: Reason | None
    """Why they stayed apart; None if it is not known."""
    between: tuple[BoundaryEnd, ...]
    """The nodes between them: views and branches on the path of the tensor, or a
    node that reads from one end and feeds the other."""
    count: int = 1
    """Number of such pairs of nodes in the plans."""

    def times(self, count: int) -> Boundary:
        return replace(self, count=count)
