"""Why NNC refused a node: ``Failed cond`` of tensorexpr_fuser.cpp (level DEBUG), which names no node.

The node is the one of the last ``Considering node:`` (refused as the start of a group) or ``Trying to
merge:``
(refused as the next member). After the latter the pass prints the inner condition and then a wrapper
``canHandle(producer) || ...``; the inner one is the reason. Source:
torch/csrc/jit/passes/tensorexpr_fuser.cpp
(1.12 to 2.13).
"""

from __future__ import annotations

from fusiondoc.parsers.facts import Statements
from fusiondoc.parsers.rejections import NodeText, read_node, state

FAILED = b"Failed cond "
CONSIDERING = b"Considering node:"
MERGING = b"Trying to merge: "

WRAPPER = "canHandle(producer) || producer->kind() == prim::TensorExprGroup"

CONDITIONS = {
    "tensorexpr::isSupported(node)": ("FD211", "NNC has no lowering for it"),
    "allShapesAreKnown(node)": ("FD212", "the shape of an input or output was not profiled"),
    "isFusableOnDevice(node)": ("FD213", "NNC may not fuse on its device"),
    "isFusableOnDevice(producer)": ("FD213", "NNC may not fuse on its device"),
    "tensorexpr::pickDeviceType(node->inputs())": ("FD214", "its inputs have no device, or several"),
    "typesAreSupported(node)": ("FD215", "NNC does not support a type or argument of it"),
    "aliasDb_->couldMoveBeforeTopologically(producer, consumer)": (
        "FD216",
        "moving it to the group would change the order of dependent operators",
    ),
    "operators_not_to_fuse.find(node->kind()) == operators_not_to_fuse.end()": (
        "FD217",
        "PYTORCH_TENSOREXPR_DONT_FUSE names it",
    ),
    "nInputs <= subgraphArgLimit": ("FD218", "the group would have more than 128 arguments"),
    "(nInputs + listConstruct->inputs().size()) <= subgraphArgLimit": (
        "FD218",
        "the group would have more than 128 arguments",
    ),
}
"""C++ condition -> (finding code, plain words); every other condition is FD219 with its own text."""

_NEVER_STARTS = ("prim::Constant", "prim::Param", "prim::TensorExprGroup")


class FailedConditions:
    """The small state machine that ties each ``Failed cond`` to its node."""

    def __init__(self) -> None:
        self._node: bytes | None = None
        self._known: dict[bytes, NodeText | None] = {}

    def look_at(self, node: bytes) -> None:
        """A node is being considered, or tried as the next member of a group."""
        self._node = node

    def failed(self, condition: bytes, pos: int, into: Statements) -> None:
        text = condition.decode("utf-8", "replace").strip()
        if text == WRAPPER or self._node is None:
            return
        node = self._read(self._node)
        if node is None or node.kind in _NEVER_STARTS:
            return
        code, words = CONDITIONS.get(text, ("FD219", f"NNC's condition `{text}` does not hold"))
        state(into, node, code, words, pos)

    def _read(self, text: bytes) -> NodeText | None:
        if text not in self._known:
            if len(self._known) >= 5_000:
                self._known.clear()
            self._known[text] = read_node(text)
        return self._known[text]
