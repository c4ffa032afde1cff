"""Why a fuser refused a node, as it states it: the seven texts of nvFuser's partition.cpp (torch 1.12 to
2.1, level UPDATE), and every condition of NNC's tensorexpr_fuser.cpp in plain words.

NNC's macro ``REQ(cond)`` prints ``Failed cond `` and the condition as it is written. The conditions are the
same in 1.12.1, 1.13.1, 2.0.1, 2.1.2 and 2.13.0, as the strings of the libraries of these releases show
(``fixtures/nnc-conditions.txt``). ``canHandle`` asks of one node; ``canMerge`` of a producer that may join
the group of its consumer. Two of the checks print what they found before the condition fails (``REMARKS``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING

from fusiondoc.parsers.ir import parse_values, split_tail
from fusiondoc.parsers.ir.parse import LONG, NODE, parse_node
from fusiondoc.parsers.ir.types import holds_tensor
from fusiondoc.parsers.jit import hands_on
from fusiondoc.parsers.jit.statements import Block, NodeText, Said

if TYPE_CHECKING:
    from fusiondoc.parsers.jit.message_runs import Lines

REJECTS = b"rejecting node"
"""In each line of torch that says so."""
REJECTED = re.compile(rb"rejecting node(?: from fusion)? \((.+?)\): (.*)", re.S)

CODES = {
    b"node not parsible": ("FD201", "nvFuser has no parsing rule for it"),
    b"input scalar type not supported": ("FD202", "nvFuser does not support the type of an input"),
    b"output scalar type not supported": ("FD203", "nvFuser does not support the type of an output"),
    b"non-cuda device": ("FD204", "it does not run on a CUDA device"),
    b"non element-wise op not supported on SM < 7X": (
        "FD205",
        "nvFuser fuses only element-wise operators on a GPU older than Volta",
    ),
    b"bfloat not supported on SM < 8X": ("FD206", "nvFuser needs an Ampere GPU or newer for bfloat16"),
    b"outputs device not matching fusion": ("FD207", "it runs on another device than the group"),
}
"""Text of torch/csrc/jit/codegen/cuda/partition.cpp -> (finding code, plain words)."""

_COPY = re.compile(r"^prim::(\w+)_copy$")


_PLAIN_NODE = re.compile(
    rb" *%([^\s:,=%]+) : ([^\s,%=][^%=\n]*) = ([A-Za-z_]\w*::\w*[A-Za-z_])\((?:%[^()\n]*)?\)"
    rb"((?:, scope: | # ).*)?$"
)
"""A node as nearly all are printed: one output, no attributes, no number that names a section."""

_MOST_SHAPES = 5_000
_shapes: dict[tuple[bytes, bytes, bytes | None], tuple[str, str | None, bool]] = {}
"""What was read of such nodes, by all but their names: type, operator, scope and source."""


def read_node(text: bytes) -> NodeText | None:
    """The gist of a node print; the full grammar is in :mod:`fusiondoc.parsers.ir`.

    nvFuser rewrites aliasing operators to ``prim::*_copy`` while it partitions and reverts them later
    (graph_fuser.cpp), so the copy is named by the operator of the program.
    """
    text = text.split(b"\n", 1)[0]
    plain = _PLAIN_NODE.match(text)
    if plain is None:
        return _read_node(text)
    shape = plain[2], plain[3], plain[4]
    known = _shapes.get(shape)
    if known is None:
        node = _read_node(text)
        if node is None:
            return None
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        _shapes[shape] = node.kind, node.source, node.tensor
        return node
    kind, source, tensor = known
    return NodeText(kind, source, plain.group(1).decode("utf-8", "backslashreplace"), tensor)


def _read_node(text: bytes) -> NodeText | None:
    line = text.decode("utf-8", "backslashreplace")
    found = NODE.match(line) if len(line) < LONG and not line.endswith("\r") else None
    if found is not None and found[3][-1] > "9":
        # All but few: no subgraph, so its line says all.
        kind, outputs, source = found[3], parse_values(found[2]), split_tail(found[6])[1]
    else:
        node = parse_node(text)
        if node is None:
            return None
        kind, outputs, source = node.kind, node.outputs, node.source
    copied = _COPY.match(kind)
    if copied:
        kind = "aten::" + copied.group(1)
    tensor = not hands_on(kind, outputs) and any(holds_tensor(v.type) for v in outputs)
    return NodeText(intern(kind), source, outputs[0].name if outputs else "", tensor)


_KEPT = 5_000
"""Distinct lines that are remembered, 600 bytes each: more than the passes of a large model print."""

_UNREAD = Said(NodeText("", None, "", False), "", "")


class Rejections:
    """Gathers rejections; equal lines are read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Said | None] = {}

    def clear(self) -> None:
        """There are no more lines."""
        self._known.clear()

    def found(self, run: Lines, cut: int) -> Block:
        """The rejections in a run of lines of partition.cpp, and which line each is on; what is none (blocks
        of a node) is passed over."""
        found = run.seen.rejections if run.seen is not None else None
        if found is None:
            found = list(self._known_lines(run, cut))
            if run.seen is not None:
                run.seen.rejections = found
        return found

    def _known_lines(self, run: Lines, cut: int) -> Iterator[tuple[int, Said]]:
        """The rejections, and which line each is on. Most lines are of blocks of nodes: they are not split
        off."""
        known, text = self._known, run.text
        number = start = 0
        at = text.find(REJECTS)
        while at >= 0:
            line = text.rfind(b"\n", start, at) + 1 or start
            end = text.find(b"\n", at)
            end = end if end >= 0 else len(text)
            if at == line + cut:
                number += text.count(b"\n", start, line)
                start = line
                own = text[line:end]
                one = known.get(own, _UNREAD)
                if one is _UNREAD:
                    if len(known) >= _KEPT:
                        known.clear()
                    one = known[own] = self._read(own[cut:])
                if one is not None:
                    yield number, one
            at = text.find(REJECTS, end)

    def _read(self, payload: bytes) -> Said | None:
        found = REJECTED.match(payload)
        if found is None:
            return None
        said = found.group(1)
        code, text = CODES.get(said, ("FD201", said.decode("utf-8", "replace")))
        node = read_node(found.group(2))
        return Said(node, code, text) if node is not None else None


FAILED = b"Failed cond "
CONSIDERING = b"Considering node:"
MERGING = b"Trying to merge: "
INTO = b"Current fusion group: "
"""What MERGING tries to put it into: a group, or the operator that is to begin one."""

WRAPPER = "canHandle(producer) || producer->kind() == prim::TensorExprGroup"
"""It follows the condition of ``canHandle`` that failed."""

NO_DEVICE = "its inputs have no device, or several"
NO_TYPES = "NNC does not support a type or argument of it"
NO_LOWERING = "NNC has no lowering for it"
_FULL = "the group would have more than 128 arguments"
_OTHER_DEVICE = "its tensors are on another device than the group"
LIST_ELSEWHERE = "its list of tensors is made outside the graph, or changed"
LIST_SHARED = "its list of tensors is used a second time"
DIM = "its `dim` is not a constant"
CAT_ELSEWHERE = "the list of the aten::cat after it is made outside the graph, or changed"
CAT_SHARED = "the list of the aten::cat after it is used a second time"
CAT_DIM = "the `dim` of the aten::cat after it is not a constant"
_REORDERS = "would change the order of dependent operators"
_STARTS_NONE = "what comes after it is {}, and NNC starts no group with one"

VIEW_SHARED = "it makes a view that is used outside the group, too"
PASS_STOPPED = "PYTORCH_JIT_OPT_LIMIT stops the pass before it"
NO_SHAPE = "torch cannot compute its shape from those of its inputs, which groups of dynamic shapes need"
TRAINING = "it is in training mode, and NNC takes it in eval mode only"

CONDITIONS = {
    # canHandle
    "allShapesAreKnown(node)": ("FD212", "the shape of an input or output was not profiled"),
    "isFusableOnDevice(node)": ("FD213", "NNC may not fuse on its device"),
    "operators_not_to_fuse.find(node->kind()) == operators_not_to_fuse.end()": (
        "FD217",
        "PYTORCH_TENSOREXPR_DONT_FUSE names it",
    ),
    "node->input(0)->node()->kind() == prim::ListConstruct": ("FD219", LIST_ELSEWHERE),
    "node->input(0)->uses().size() == 1": ("FD219", LIST_SHARED),
    "node->input(1)->node()->kind() == prim::Constant": ("FD219", DIM),
    "tensorexpr::pickDeviceType(listconstruct->inputs())": (
        "FD214",
        "the tensors of its list have no device, or several",
    ),
    "tensorexpr::pickDeviceType(node->inputs())": ("FD214", NO_DEVICE),
    "node->input(5)->node()->kind() == prim::Constant": ("FD219", "its `training` is not a constant"),
    "!toIValue(node->input(5)).value().toBool()": (
        "FD219",
        TRAINING,
    ),
    "tensorexpr::isSupported(node)": ("FD211", NO_LOWERING),
    "typesAreSupported(node)": ("FD215", NO_TYPES),
    "JIT_OPT_ALLOWED": ("FD219", PASS_STOPPED),
    "node->kind() == prim::ListConstruct || node->kind() == prim::TensorExprGroup"
    " || node->isMemberOf(tensorexpr::getCustomOperatorSet())"
    " || (node->maybeSchema() && shapeComputeGraphForSchema(node->schema()))": (
        "FD219",
        NO_SHAPE,
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
        f"moving it to the group {_REORDERS}",
    ),
    "use.user == consumer": ("FD219", VIEW_SHARED),
    "consumer->kind() != prim::ListConstruct": ("FD219", _STARTS_NONE.format("a list")),
    "consumer->kind() != aten::slice": ("FD219", _STARTS_NONE.format("aten::slice")),
    "consumer->kind() != aten::unsqueeze": ("FD219", _STARTS_NONE.format("aten::unsqueeze")),
    "consumer->kind() != prim::ConstantChunk": ("FD219", _STARTS_NONE.format("a chunk")),
    "producer->kind() != prim::Constant": ("FD219", "NNC starts no group for a constant"),
    "producer->input(0)->node()->kind() == prim::ListConstruct": ("FD219", LIST_ELSEWHERE),
    "producer->input(0)->uses().size() == 1": ("FD219", LIST_SHARED),
    "producer->input(1)->node()->kind() == prim::Constant": ("FD219", DIM),
    "listconstruct_device": ("FD214", "the tensors of a list have no device, or several"),
    "*listconstruct_device == *consumer_device": ("FD214", _OTHER_DEVICE),
    "isFusableOnDevice(input->node())": ("FD213", "NNC may not fuse on the device of a tensor of its list"),
    "(nInputs + listConstruct->inputs().size()) <= subgraphArgLimit": ("FD218", _FULL),
    "consumer->input(0)->node()->kind() == prim::ListConstruct": ("FD219", CAT_ELSEWHERE),
    "consumer->input(0)->uses().size() == 1": ("FD219", CAT_SHARED),
    "consumer->input(1)->node()->kind() == prim::Constant": ("FD219", CAT_DIM),
    "isFusableOnDevice(producer)": ("FD213", "NNC may not fuse on its device"),
}
"""C++ condition -> (finding code, plain words). Any other is FD219 with its own text."""

REMARKS = {
    b"Params of conv2d are not supported": "NNC takes only 3x3 depthwise convolutions of float32 with a bias,"
    " equal strides, equal padding and no dilation",
    b"This aten::_convolution node is not a 2D conv": "NNC takes convolutions in two dimensions only",
    b"Shapes of matmul inputs are not supported": "NNC takes only products of two matrices, both contiguous",
}
"""What stands on the line before ``typesAreSupported(node)``, in plain words: conv2dIsSupported and
matmulIsSupported of torch/csrc/jit/tensorexpr/kernel.cpp and operators/conv2d.cpp."""

_UNKNOWN = b"?"
"""In place of what nodes are tried to go into, where that stands before the lines that are looked at."""

_NEVER_STARTS = ("prim::Constant", "prim::Param", "prim::TensorExprGroup")


NncState = tuple[bytes | None, bytes | None, str | None]
"""The node that is looked at, what it is tried to go into, the remark before the next condition."""


@lru_cache(maxsize=500)
def _of_condition(condition: bytes) -> tuple[str, str] | None:
    """Code and plain words of a condition as it is printed; None for WRAPPER."""
    text = condition.decode("utf-8", "replace").strip()
    if text == WRAPPER:
        return None
    return CONDITIONS.get(text, ("FD219", f"NNC's condition `{text}` does not hold"))


class FailedConditions:
    """The small state machine that ties each ``Failed cond`` to its node."""

    def __init__(self) -> None:
        self.state: NncState = (None, None, None)
        self._known: dict[bytes, NodeText | None] = {}

    def take(self, payload: bytes) -> Sequence[Said]:
        """A message of one line; what it says of nodes."""
        node, into, remark = self.state
        if payload.startswith(FAILED):
            self.state = node, into, None
            return self._failed(payload[len(FAILED) :], node, into, remark)
        if payload.startswith(CONSIDERING):
            # A node is being considered,
            self.state = payload[len(CONSIDERING) :], into, None
        elif payload.startswith(MERGING):
            # or tried as the next member of a group,
            self.state = payload[len(MERGING) :], into, None
        elif payload.startswith(INTO):
            # which is this one.
            self.state = node, payload[len(INTO) :], remark
        elif payload in REMARKS:
            self.state = node, into, REMARKS[payload]
        return ()

    def _failed(
        self, condition: bytes, looked_at: bytes | None, into: bytes | None, remark: str | None
    ) -> Sequence[Said]:
        stated = _of_condition(condition)
        if stated is None or looked_at is None:
            return ()
        node = self._read(looked_at)
        if node is None or node.kind in _NEVER_STARTS:
            return ()
        code, words = stated
        said = Said(node, code, remark if remark is not None and code == "FD215" else words)
        if code == "FD216" and into is not None:
            # Of an operator that was to begin a group it says the same.
            begins = self._read(into)
            if begins is not None and begins.kind not in _NEVER_STARTS:
                return said, Said(begins, code, f"moving {node.kind} to it {_REORDERS}")
        return (said,)

    def known_again(self, payloads: Iterable[tuple[int, bytes]]) -> Block | None:
        """What lines say, with their numbers, if it is the same whatever stands before them; ``state`` is
        then that behind them."""
        said: list[tuple[int, Said]] = []
        self.state = None, _UNKNOWN, None
        for number, payload in payloads:
            if self.state[0] is None and not payload.startswith((CONSIDERING, MERGING)):
                return None
            into = self.state[1]
            told = self.take(payload)
            if into is _UNKNOWN and any(one.code == "FD216" for one in told):
                return None
            said += [(number, one) for one in told]
        return said

    def goes_on(self, state: NncState) -> None:
        """Lines were read whose ``state`` it is by ``known_again``."""
        node, into, remark = state
        self.state = node, self.state[1] if into is _UNKNOWN else into, remark

    def _read(self, text: bytes) -> NodeText | None:
        if text not in self._known:
            if len(self._known) >= 5_000:
                self._known.clear()
            self._known[text] = read_node(text)
        return self._known[text]
