"""Why NNC refused a node: every condition of torch/csrc/jit/passes/tensorexpr_fuser.cpp, in plain words.

The macro ``REQ(cond)`` prints ``Failed cond `` and the condition as it is written. The conditions are the
same in 1.12.1, 1.13.1, 2.0.1, 2.1.2 and 2.13.0, as the strings of the libraries of these releases show
(``fixtures/nnc-conditions.txt``). ``canHandle`` asks of one node; ``canMerge`` of a producer that may join
the group of its consumer. Two of the checks print what they found before the condition fails (``REMARKS``).
"""

from __future__ import annotations

from fusiondoc.parsers.facts import Statements
from fusiondoc.parsers.jit.rejections import NodeText, read_node, state

FAILED = b"Failed cond "
CONSIDERING = b"Considering node:"
MERGING = b"Trying to merge: "

WRAPPER = "canHandle(producer) || producer->kind() == prim::TensorExprGroup"
"""It follows the condition of ``canHandle`` that failed."""

NO_DEVICE = "its inputs have no device, or several"
NO_TYPES = "NNC does not support a type or argument of it"
NO_LOWERING = "NNC has no lowering for it"
_FULL = "the group would have more than 128 arguments"
_OTHER_DEVICE = "its tensors are on another device than the group"
_LIST_ELSEWHERE = "its list of tensors is made outside the graph, or changed"
_LIST_SHARED = "its list of tensors is used a second time"
_DIM = "its `dim` is no constant"
_CAT_ELSEWHERE = "the list of the aten::cat after it is made outside the graph, or changed"
_CAT_SHARED = "the list of the aten::cat after it is used a second time"
_CAT_DIM = "the `dim` of the aten::cat after it is no constant"
_STARTS_NONE = "what comes after it is {}, and NNC starts no group with one"

CONDITIONS = {
    # canHandle
    "allShapesAreKnown(node)": ("FD212", "the shape of an input or output was not profiled"),
    "isFusableOnDevice(node)": ("FD213", "NNC may not fuse on its device"),
    "operators_not_to_fuse.find(node->kind()) == operators_not_to_fuse.end()": (
        "FD217",
        "PYTORCH_TENSOREXPR_DONT_FUSE names it",
    ),
    "node->input(0)->node()->kind() == prim::ListConstruct": ("FD219", _LIST_ELSEWHERE),
    "node->input(0)->uses().size() == 1": ("FD219", _LIST_SHARED),
    "node->input(1)->node()->kind() == prim::Constant": ("FD219", _DIM),
    "tensorexpr::pickDeviceType(listconstruct->inputs())": (
        "FD214",
        "the tensors of its list have no device, or several",
    ),
    "tensorexpr::pickDeviceType(node->inputs())": ("FD214", NO_DEVICE),
    "node->input(5)->node()->kind() == prim::Constant": ("FD219", "its `training` is no constant"),
    "!toIValue(node->input(5)).value().toBool()": (
        "FD219",
        "it is in training mode, and NNC takes it in eval mode only",
    ),
    "tensorexpr::isSupported(node)": ("FD211", NO_LOWERING),
    "typesAreSupported(node)": ("FD215", NO_TYPES),
    "JIT_OPT_ALLOWED": ("FD219", "PYTORCH_JIT_OPT_LIMIT stops the pass before it"),
    "node->kind() == prim::ListConstruct || node->kind() == prim::TensorExprGroup"
    " || node->isMemberOf(tensorexpr::getCustomOperatorSet())"
    " || (node->maybeSchema() && shapeComputeGraphForSchema(node->schema()))": (
        "FD219",
        "torch cannot compute its shape from those of its inputs, which groups of dynamic shapes need",
    ),
    # canMerge
    "consumer->owningBlock() == producer->owningBlock()": (
        "FD228",
        "what it could fuse with is on the other side of a block of control flow",
    ),
    "nInputs <= subgraphArgLimit": ("FD218", _FULL),
    "consumer_device": ("FD214", "the group has no device, or several"),
    "producer_device": ("FD214", NO_DEVICE),
    "*consumer_device == *producer_device": ("FD214", _OTHER_DEVICE),
    "aliasDb_->couldMoveBeforeTopologically(producer, consumer)": (
        "FD216",
        "moving it to the group would change the order of dependent operators",
    ),
    "use.user == consumer": ("FD219", "it makes a view that is used outside the group, too"),
    "consumer->kind() != prim::ListConstruct": ("FD219", _STARTS_NONE.format("a list")),
    "consumer->kind() != aten::slice": ("FD219", _STARTS_NONE.format("aten::slice")),
    "consumer->kind() != aten::unsqueeze": ("FD219", _STARTS_NONE.format("aten::unsqueeze")),
    "consumer->kind() != prim::ConstantChunk": ("FD219", _STARTS_NONE.format("a chunk")),
    "producer->kind() != prim::Constant": ("FD219", "NNC starts no group for a constant"),
    "producer->input(0)->node()->kind() == prim::ListConstruct": ("FD219", _LIST_ELSEWHERE),
    "producer->input(0)->uses().size() == 1": ("FD219", _LIST_SHARED),
    "producer->input(1)->node()->kind() == prim::Constant": ("FD219", _DIM),
    "listconstruct_device": ("FD214", "the tensors of a list have no device, or several"),
    "*listconstruct_device == *consumer_device": ("FD214", _OTHER_DEVICE),
    "isFusableOnDevice(input->node())": ("FD213", "NNC may not fuse on the device of a tensor of its list"),
    "(nInputs + listConstruct->inputs().size()) <= subgraphArgLimit": ("FD218", _FULL),
    "consumer->input(0)->node()->kind() == prim::ListConstruct": ("FD219", _CAT_ELSEWHERE),
    "consumer->input(0)->uses().size() == 1": ("FD219", _CAT_SHARED),
    "consumer->input(1)->node()->kind() == prim::Constant": ("FD219", _CAT_DIM),
    "isFusableOnDevice(producer)": ("FD213", "NNC may not fuse on its device"),
}
"""C++ condition -> (finding code, plain words). Any other is FD219 with its own text."""

REMARKS = {
    b"Params of conv2d are not supported": "NNC takes only 3x3 depthwise convolutions of float32 with a bias,"
    " equal strides, equal padding and no dilation",
    b"Shapes of matmul inputs are not supported": "NNC takes only products of two matrices, both contiguous",
}
"""What stands on the line before ``typesAreSupported(node)``, in plain words: conv2dIsSupported and
matmulIsSupported of torch/csrc/jit/tensorexpr/kernel.cpp and operators/conv2d.cpp."""

_NEVER_STARTS = ("prim::Constant", "prim::Param", "prim::TensorExprGroup")


class FailedConditions:
    """The small state machine that ties each ``Failed cond`` to its node."""

    def __init__(self) -> None:
        self._node: bytes | None = None
        self._remark: str | None = None
        self._known: dict[bytes, NodeText | None] = {}

    def look_at(self, node: bytes) -> None:
        """A node is being considered, or tried as the next member of a group."""
        self._node, self._remark = node, None

    def remarked(self, remark: bytes) -> None:
        """One of REMARKS: why the next condition fails."""
        self._remark = REMARKS[remark]

    def failed(self, condition: bytes, pos: int, into: Statements) -> None:
        text = condition.decode("utf-8", "replace").strip()
        remark, self._remark = self._remark, None
        if text == WRAPPER or self._node is None:
            return
        node = self._read(self._node)
        if node is None or node.kind in _NEVER_STARTS:
            return
        code, words = CONDITIONS.get(text, ("FD219", f"NNC's condition `{text}` does not hold"))
        state(into, node, code, remark if remark is not None and code == "FD215" else words, pos)

    def _read(self, text: bytes) -> NodeText | None:
        if text not in self._known:
            if len(self._known) >= 5_000:
                self._known.clear()
            self._known[text] = read_node(text)
        return self._known[text]
