"""An operator in its plan: what a rule for reasons looks at."""

from __future__ import annotations

from typing import Callable, Iterator

from fusiondoc.diagnosis.operators import BY_FUSER, VIEWS
from fusiondoc.model.report import Reason
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, FlowNode
from fusiondoc.parsers.rows.unfused_rows import Outside

_MAKERS = "empty zeros ones full arange tensor scalar_tensor empty_like zeros_like ones_like full_like"
_MORE_VIEWS = (
    "alias as_strided chunk contiguous detach diagonal expand movedim narrow numpy_T select slice split"
    " split_with_sizes swapaxes T unbind unflatten unfold view_as"
)
NOTHING_TO_GAIN = VIEWS | {"prim::GetAttr", "prim::data"}
NOTHING_TO_GAIN |= {f"aten::{name}" for name in (_MAKERS + " " + _MORE_VIEWS).split()}

_NNC_SELDOM = {
    f"aten::{name}" for name in ["sum", "softmax", "log_softmax", "matmul", "conv2d", "_convolution"]
}
"""Operators that NNC takes only with a knob, or only on the CPU: nothing is lost next to one."""


class Place:
    """An operator in its plan."""

    def __init__(self, outside: Outside, fuser: str) -> None:
        self.flow = outside.flow
        self.loose = outside.node
        self.node = self.flow.nodes[self.loose.place]
        self.fuser = fuser
        self.unseen = outside.unseen
        self._refused = outside.refused

    def types(self) -> Iterator[TensorType]:
        for text in (*self.node.inputs, *self.node.outputs):
            parsed = parse_type(text)
            if isinstance(parsed, TensorType):
                yield parsed

    def takes(self, op: str) -> bool:
        """Whether the fuser has a rule for an operator, views left aside."""
        if op in NOTHING_TO_GAIN or (self.fuser == "nnc" and op in _NNC_SELDOM):
            return False
        return op in BY_FUSER[self.fuser]

    def joinable(self, node: FlowNode) -> bool:
        if node.kind == OPERATOR:
            return node.place not in self._refused and self.takes(node.op)
        return node.kind == GROUP

    def neighbours(self, node: FlowNode) -> list[FlowNode]:
        return [self.flow.nodes[i] for i in sorted(node.before | node.after)]


Rule = Callable[[Place], "Reason | None"]
"""Looks at one operator and gives a reason, or nothing."""


def reason(code: str, text: str) -> Reason:
    """A reason that fusiondoc worked out."""
    return Reason(code, text, False)


def at(node: FlowNode) -> str:
    """Where it stands, in brackets, for a sentence; empty where that is not known."""
    return f" ({node.source})" if node.source else ""
