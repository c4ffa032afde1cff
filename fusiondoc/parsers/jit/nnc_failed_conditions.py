"""Reads the conditions that NNC reports as failed, line by line: the node, and the
group or operator with which it was to be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from fusiondoc.fusers.nnc.log import CONDITIONS, REMARKS, WRAPPER
from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.jit.rejections import read_node
from fusiondoc.parsers.jit.statements import Block, NodeStatement, NodeText

FAILED = b"Failed cond "
CONSIDERING = b"Considering node:"
MERGING = b"Trying to merge: "
INTO = b"Current fusion group: "
"""The target of MERGING: a group, or the operator that begins a new group."""

TOO_SMALL = b"Fusion group is too small, unmerging: "
SINGLE = (FAILED, CONSIDERING, MERGING, INTO, TOO_SMALL, *REMARKS)
"""Beginnings of the one-line messages of the pass."""
FILE = "tensorexpr_fuser"
"""The file of torch that prints them."""

_UNKNOWN = b"?"
"""Stands for the merge target, if the line that names it comes before the lines
that are read."""

_NEVER_STARTS = ("prim::Constant", "prim::Param", "prim::TensorExprGroup")


NncState = tuple[bytes | None, bytes | None, Stated | None]
"""The node under consideration, the target into which it is merged, the remark
before the next condition."""


@lru_cache(maxsize=500)
def _of_condition(condition: bytes) -> tuple[str, Stated] | None:
    """Return code and detail of a printed condition; None for WRAPPER."""
    text = condition.decode("utf-8", "replace").strip()
    if text == WRAPPER:
        return None
    known = CONDITIONS.get(text)
    if known is None:
        return "FD219", Stated("other_condition", text=text)
    code, name = known
    return code, Stated(name)


class FailedConditions:
    """The small state machine that assigns each ``Failed cond`` to its node."""

    def __init__(self) -> None:
        self.state: NncState = (None, None, None)
        self._known: dict[bytes, NodeText | None] = {}

    def take(self, payload: bytes) -> Sequence[NodeStatement]:
        """Read a one-line message and return its statements about nodes."""
        node, into, remark = self.state
        if payload.startswith(FAILED):
            self.state = node, into, None
            return self._failed(payload[len(FAILED) :], node, into, remark)
        if payload.startswith(CONSIDERING):
            # A node is under consideration,
            self.state = payload[len(CONSIDERING) :], into, None
        elif payload.startswith(MERGING):
            # or is tried as the next member of a group,
            self.state = payload[len(MERGING) :], into, None
        elif payload.startswith(INTO):
            # which is this group.
            self.state = node, payload[len(INTO) :], remark
        elif payload in REMARKS:
            self.state = node, into, Stated(REMARKS[payload])
        return ()

    def _failed(
        self,
        condition: bytes,
        looked_at: bytes | None,
        into: bytes | None,
        remark: Stated | None,
    ) -> Sequence[NodeStatement]:
        known = _of_condition(condition)
        if known is None or looked_at is None:
            return ()
        node = self._read(looked_at)
        if node is None or node.kind in _NEVER_STARTS:
            return ()
        code, detail = known
        refused = NodeStatement(
            node, code, remark if remark is not None and code == "FD215" else detail
        )
        if code == "FD216" and into is not None:
            # The operator that would have begun the group has the same reason.
            begins = self._read(into)
            if begins is not None and begins.kind not in _NEVER_STARTS:
                return refused, NodeStatement(
                    begins, code, Stated("order_of_group", node.kind)
                )
        return (refused,)

    def known_again(self, payloads: Iterable[tuple[int, bytes]]) -> Block | None:
        """Return the statements of lines, with their line numbers, or None if
        earlier lines matter. ``state`` is then the state after these lines."""
        found: list[tuple[int, NodeStatement]] = []
        self.state = None, _UNKNOWN, None
        for number, payload in payloads:
            if self.state[0] is None and not payload.startswith(
                (CONSIDERING, MERGING)
            ):
                return None
            into = self.state[1]
            statements = self.take(payload)
            if into is _UNKNOWN and any(one.code == "FD216" for one in statements):
                return None
            found += [(number, one) for one in statements]
        return found

    def goes_on(self, state: NncState) -> None:
        """Continue from ``state``, which ``known_again`` left after lines that were
        read there."""
        node, into, remark = state
        self.state = node, self.state[1] if into is _UNKNOWN else into, remark

    def _read(self, text: bytes) -> NodeText | None:
        if text not in self._known:
            if len(self._known) >= 5_000:
                self._known.clear()
            self._known[text] = read_node(text)
        return self._known[text]
