"""Why a fuser refused a node, as it states it: the seven texts of nvFuser's partition.cpp (torch 1.12 to
2.1, level UPDATE), and every condition of NNC's tensorexpr_fuser.cpp, each with its code and detail.

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

from fusiondoc.model.reasons import Stated
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
    b"node not parsible": ("FD201", Stated("nvfuser_no_rule")),
    b"input scalar type not supported": ("FD202", Stated("input_type")),
    b"output scalar type not supported": ("FD203", Stated("output_type")),
    b"non-cuda device": ("FD204", Stated("not_cuda")),
    b"non element-wise op not supported on SM < 7X": ("FD205", Stated("before_volta")),
    b"bfloat not supported on SM < 8X": ("FD206", Stated("before_ampere")),
    b"outputs device not matching fusion": ("FD207", Stated("device_of_group")),
}
"""Text of torch/csrc/jit/codegen/cuda/partition.cpp -> (finding code, detail)."""

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

_UNREAD = Said(NodeText("", None, "", False), "", Stated("other"))


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
        known = CODES.get(said)
        code, detail = known or ("FD201", Stated("other", text=said.decode("utf-8", "replace")))
        node = read_node(found.group(2))
        return Said(node, code, detail) if node is not None else None


FAILED = b"Failed cond "
CONSIDERING = b"Considering node:"
MERGING = b"Trying to merge: "
INTO = b"Current fusion group: "
"""What MERGING tries to put it into: a group, or the operator that is to begin one."""

WRAPPER = "canHandle(producer) || producer->kind() == prim::TensorExprGroup"
"""It follows the condition of ``canHandle`` that failed."""

CONDITIONS = {
    # canHandle
    "allShapesAreKnown(node)": ("FD212", Stated("shape_not_profiled")),
    "isFusableOnDevice(node)": ("FD213", Stated("device_off")),
    "operators_not_to_fuse.find(node->kind()) == operators_not_to_fuse.end()": (
        "FD217",
        Stated("named_not_to_fuse"),
    ),
    "node->input(0)->node()->kind() == prim::ListConstruct": ("FD219", Stated("list_elsewhere")),
    "node->input(0)->uses().size() == 1": ("FD219", Stated("list_shared")),
    "node->input(1)->node()->kind() == prim::Constant": ("FD219", Stated("dim_not_constant")),
    "tensorexpr::pickDeviceType(listconstruct->inputs())": ("FD214", Stated("device_of_list")),
    "tensorexpr::pickDeviceType(node->inputs())": ("FD214", Stated("no_device")),
    "node->input(5)->node()->kind() == prim::Constant": ("FD219", Stated("training_not_constant")),
    "!toIValue(node->input(5)).value().toBool()": ("FD219", Stated("training")),
    "tensorexpr::isSupported(node)": ("FD211", Stated("no_lowering")),
    "typesAreSupported(node)": ("FD215", Stated("types")),
    "JIT_OPT_ALLOWED": ("FD219", Stated("pass_stopped")),
    "node->kind() == prim::ListConstruct || node->kind() == prim::TensorExprGroup"
    " || node->isMemberOf(tensorexpr::getCustomOperatorSet())"
    " || (node->maybeSchema() && shapeComputeGraphForSchema(node->schema()))": (
        "FD219",
        Stated("no_shape_function"),
    ),
    # canMerge
    "consumer->owningBlock() == producer->owningBlock()": ("FD228", Stated("other_block")),
    "nInputs <= subgraphArgLimit": ("FD218", Stated("group_full")),
    "consumer_device": ("FD214", Stated("group_without_device")),
    "producer_device": ("FD214", Stated("no_device")),
    "*consumer_device == *producer_device": ("FD214", Stated("group_on_other_device")),
    "aliasDb_->couldMoveBeforeTopologically(producer, consumer)": ("FD216", Stated("order")),
    "use.user == consumer": ("FD219", Stated("view_shared")),
    "consumer->kind() != prim::ListConstruct": ("FD219", Stated("before_list")),
    "consumer->kind() != aten::slice": ("FD219", Stated("before_slice")),
    "consumer->kind() != aten::unsqueeze": ("FD219", Stated("before_unsqueeze")),
    "consumer->kind() != prim::ConstantChunk": ("FD219", Stated("before_chunk")),
    "producer->kind() != prim::Constant": ("FD219", Stated("constant")),
    "producer->input(0)->node()->kind() == prim::ListConstruct": ("FD219", Stated("list_elsewhere")),
    "producer->input(0)->uses().size() == 1": ("FD219", Stated("list_shared")),
    "producer->input(1)->node()->kind() == prim::Constant": ("FD219", Stated("dim_not_constant")),
    "listconstruct_device": ("FD214", Stated("device_of_any_list")),
    "*listconstruct_device == *consumer_device": ("FD214", Stated("group_on_other_device")),
    "isFusableOnDevice(input->node())": ("FD213", Stated("device_of_list_off")),
    "(nInputs + listConstruct->inputs().size()) <= subgraphArgLimit": ("FD218", Stated("group_full")),
    "consumer->input(0)->node()->kind() == prim::ListConstruct": ("FD219", Stated("cat_elsewhere")),
    "consumer->input(0)->uses().size() == 1": ("FD219", Stated("cat_shared")),
    "consumer->input(1)->node()->kind() == prim::Constant": ("FD219", Stated("cat_dim_not_constant")),
    "isFusableOnDevice(producer)": ("FD213", Stated("device_off")),
}
"""C++ condition -> (finding code, detail). Any other is FD219 with its own text."""

REMARKS = {
    b"Params of conv2d are not supported": Stated("conv2d_parameters"),
    b"This aten::_convolution node is not a 2D conv": Stated("not_conv2d"),
    b"Shapes of matmul inputs are not supported": Stated("matmul_shapes"),
}
"""Printed on the line before ``typesAreSupported(node)``: conv2dIsSupported and matmulIsSupported of
torch/csrc/jit/tensorexpr/kernel.cpp and operators/conv2d.cpp."""

_UNKNOWN = b"?"
"""In place of what nodes are tried to go into, where that stands before the lines that are looked at."""

_NEVER_STARTS = ("prim::Constant", "prim::Param", "prim::TensorExprGroup")


NncState = tuple[bytes | None, bytes | None, Stated | None]
"""The node that is looked at, what it is tried to go into, the remark before the next condition."""


@lru_cache(maxsize=500)
def _of_condition(condition: bytes) -> tuple[str, Stated] | None:
    """Code and detail of a condition as it is printed; None for WRAPPER."""
    text = condition.decode("utf-8", "replace").strip()
    if text == WRAPPER:
        return None
    return CONDITIONS.get(text) or ("FD219", Stated("other_condition", text=text))


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
        self, condition: bytes, looked_at: bytes | None, into: bytes | None, remark: Stated | None
    ) -> Sequence[Said]:
        stated = _of_condition(condition)
        if stated is None or looked_at is None:
            return ()
        node = self._read(looked_at)
        if node is None or node.kind in _NEVER_STARTS:
            return ()
        code, detail = stated
        said = Said(node, code, remark if remark is not None and code == "FD215" else detail)
        if code == "FD216" and into is not None:
            # Of an operator that was to begin a group it says the same.
            begins = self._read(into)
            if begins is not None and begins.kind not in _NEVER_STARTS:
                return said, Said(begins, code, Stated("order_of_group", node.kind))
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
