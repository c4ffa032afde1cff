"""The reasons for which a fusion pass refused nodes, from the lines that it prints
in a fixed form (``Refusals`` of its fuser)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import intern
from typing import TYPE_CHECKING

from fusiondoc.fusers.fuser_log import Refusals
from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.ir import parse_values, split_tail
from fusiondoc.parsers.ir.parse import LONG, NODE, parse_node
from fusiondoc.parsers.ir.types import holds_tensor
from fusiondoc.parsers.jit import hands_on
from fusiondoc.parsers.jit.statements import Block, NodeStatement, NodeText

if TYPE_CHECKING:
    from fusiondoc.parsers.jit.message_runs import Lines

_COPY = re.compile(r"^prim::(\w+)_copy$")


_PLAIN_NODE = re.compile(
    rb" *%([^\s:,=%]+) : ([^\s,%=][^%=\n]*) = ([A-Za-z_]\w*::\w*[A-Za-z_])\((?:%[^()\n]*)?\)"
    rb"((?:, scope: | # ).*)?$"
)
"""The common form of a node: one output, no attributes, no number that names a
section."""

_MOST_SHAPES = 5_000
_shapes: dict[tuple[bytes, bytes, bytes | None], tuple[str, str | None, bool]] = {}
"""(Type, operator, scope and source) of a plain node -> its kind, source, and True
if it makes a tensor. Names differ, so they are not part of the key."""


def read_node(text: bytes) -> NodeText | None:
    """Return the main facts of a printed node; the full grammar is in
    :mod:`fusiondoc.parsers.ir`.

    A fusion pass may rewrite aliasing operators to ``prim::*_copy`` while it
    partitions and reverts them later (graph_fuser.cpp), so the copy gets the name
    of the program's operator.
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
    return NodeText(
        kind, source, plain.group(1).decode("utf-8", "backslashreplace"), tensor
    )


def _read_node(text: bytes) -> NodeText | None:
    line = text.decode("utf-8", "backslashreplace")
    found = None
    if len(line) < LONG and not line.endswith("\r"):
        found = NODE.match(line)
    if found is not None and found[3][-1] > "9":
        # Most nodes: they have no subgraph, so their line is complete.
        kind, outputs, source = (
            found[3],
            parse_values(found[2]),
            split_tail(found[6])[1],
        )
    else:
        node = parse_node(text)
        if node is None:
            return None
        kind, outputs, source = node.kind, node.outputs, node.source
    copied = _COPY.match(kind)
    if copied:
        kind = "aten::" + copied.group(1)
    tensor = not hands_on(kind, outputs) and any(
        holds_tensor(v.type) for v in outputs
    )
    return NodeText(
        intern(kind), source, outputs[0].name if outputs else "", tensor
    )


_KEPT = 5_000
"""Number of distinct lines that are remembered, 600 bytes each: more than the
passes of a large model print."""

_UNREAD = NodeStatement(NodeText("", None, "", False), "", Stated("other"))


class Rejections:
    """Collects the refusals of a fuser. Equal lines are read once."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._known: dict[bytes, NodeStatement | None] = {}
        stated = {}
        for _, condition in refusals.causes.values():
            stated[condition] = Stated(condition)
        self._stated = stated
        """One shared object for all nodes with the same condition."""

    def clear(self) -> None:
        """Drop the remembered lines at the end of the log."""
        self._known.clear()

    def found(self, run: Lines, cut: int) -> Block:
        """Return the rejections in a run of lines of the pass, with their line
        numbers; other lines (blocks of a node) are skipped."""
        found = run.seen.rejections if run.seen is not None else None
        if found is None:
            found = list(self._known_lines(run, cut))
            if run.seen is not None:
                run.seen.rejections = found
        return found

    def _known_lines(
        self, run: Lines, cut: int
    ) -> Iterator[tuple[int, NodeStatement]]:
        """Yield the rejections with their line numbers. Most lines belong to blocks
        of nodes: they are not split off."""
        known, text, mark = self._known, run.text, self._refusals.mark
        number = start = 0
        at = text.find(mark)
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
            at = text.find(mark, end)

    def _read(self, payload: bytes) -> NodeStatement | None:
        found = self._refusals.form.match(payload)
        if found is None:
            return None
        node = read_node(found.group(2))
        if node is None:
            return None
        cause = found.group(1)
        known = self._refusals.causes.get(cause)
        if known is None:
            text = cause.decode("utf-8", "replace")
            return NodeStatement(
                node, self._refusals.other, Stated("other", text=text)
            )
        code, condition = known
        return NodeStatement(node, code, self._stated[condition])
