"""Why nvFuser refused a node: the seven texts of partition.cpp (torch 1.12 to 2.1, level UPDATE). What both
fusers state of nodes is gathered here, too."""

from __future__ import annotations

import re

from fusiondoc.parsers.facts import Statement, Statements
from fusiondoc.parsers.ir.types import holds_tensor, is_tensor

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


class NodeText:
    """Kind, source, first output and whether it makes a tensor, from the one-line print of a node."""

    __slots__ = ("kind", "source", "tensor", "value")

    def __init__(self, kind: str, source: str | None, value: str, tensor: bool) -> None:
        self.kind = kind
        self.source = source
        self.value = value
        self.tensor = tensor


def read_node(text: bytes) -> NodeText | None:
    """The gist of a node print; the full grammar is in :mod:`fusiondoc.parsers.ir`.

    nvFuser rewrites aliasing operators to ``prim::*_copy`` while it partitions and reverts them later
    (graph_fuser.cpp), so the copy is named by the operator of the program.
    """
    text = text.split(b"\n", 1)[0]
    from fusiondoc.parsers.ir.parse import parse_node

    node = parse_node(text)
    if node is None:
        return None
    kind = node.kind
    copied = _COPY.match(kind)
    if copied:
        kind = "aten::" + copied.group(1)
    outputs = node.outputs
    tensor = any(is_tensor(v.type) or holds_tensor(v.type) for v in outputs)
    return NodeText(kind, node.source, outputs[0].name if outputs else "", tensor)


class _Known:
    """A rejection line that was read before, and where its last evidence went."""

    __slots__ = ("code", "into", "node", "said", "text")

    def __init__(self, node: NodeText, code: str, text: str) -> None:
        self.node = node
        self.code = code
        self.text = text
        self.into: Statements | None = None
        self.said: Statement | None = None


_KEPT = 20_000
"""Distinct lines that are remembered: ten times what the passes of a large model print."""

_UNREAD = _Known(NodeText("", None, "", False), "", "")


class Rejections:
    """Gathers rejections; equal lines are read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Known | None] = {}

    def add(self, lines: list[bytes], cut: int, pos: int, into: Statements) -> None:
        """Take a run of lines of partition.cpp; what is no rejection (blocks of a node) is passed over."""
        known = self._known
        for line in lines:
            seen = known.get(line, _UNREAD)
            if seen is _UNREAD:
                if len(known) >= _KEPT:
                    known.clear()
                seen = known[line] = self._read(line[cut:])
            if seen is not None:
                if seen.into is into and seen.said is not None:
                    seen.said.lines.append(pos)
                else:
                    seen.into = into
                    seen.said = state(into, seen.node, seen.code, seen.text, pos)
            pos += 1

    def _read(self, payload: bytes) -> _Known | None:
        found = REJECTED.match(payload)
        if found is None:
            return None
        said = found.group(1)
        code, text = CODES.get(said, ("FD201", said.decode("utf-8", "replace")))
        node = read_node(found.group(2))
        return _Known(node, code, text) if node is not None else None


def state(into: Statements, node: NodeText, code: str, text: str, pos: int) -> Statement:
    """Note that the log says ``code`` of ``node`` at ``pos``; the statement that now holds it."""
    key = (node.kind, node.source if node.source is not None else "%" + node.value)
    codes = into.get(key)
    if codes is None:
        codes = into[key] = {}
    said = codes.get(code)
    if said is None:
        said = codes[code] = Statement(code, text, node.tensor)
    said.lines.append(pos)
    if len(said.values) < MOST_NAMES:
        said.values.add(node.value)
    return said


MOST_NAMES = 1000
"""Names of one statement; of more it is not told of which nodes it was said."""


def merge(into: Statements, more: Statements, of_plan: bool = False) -> None:
    """Add the statements of a pass that has ended to those of others.

    Args:
        of_plan: ``into`` is of the plan that the pass left, and has the same names of values.
    """
    for key, codes in more.items():
        mine = into.setdefault(key, {})
        for code, said in codes.items():
            if of_plan and len(said.values) < MOST_NAMES:
                said.of_plan = set(said.values)
            said.pass_ends()
            if code in mine:
                mine[code].lines.extend(said.lines)
                mine[code].nodes = max(mine[code].nodes, said.nodes)
                if of_plan:
                    mine[code].of_plan = _both(mine[code].of_plan, said.of_plan)
            else:
                mine[code] = said


def _both(some: set[str] | None, more: set[str] | None) -> set[str] | None:
    return None if some is None or more is None else some | more


def with_source(statements: Statements) -> Statements:
    """Those of nodes with a source: the others are known by the names of one print only."""
    return {key: codes for key, codes in statements.items() if not (key[1] or "").startswith("%")}
