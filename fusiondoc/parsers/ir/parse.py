"""Printed TorchScript IR -> graphs and nodes. Any bytes are accepted; damage is
counted, never raised.

One node line -> its raw fields. One regex reads nearly every line, a scanner the
others. The print is that of ``Node::print`` (torch/csrc/jit/ir/ir.cpp)::

    indent outs " = " callee "[" attributes "]" "(" inputs ")" [", scope: " scope]
    [" # " file:line:column]

where ``outs`` may be empty and ``callee`` is ``ns::op``, ``ns::op_0`` for a node
whose subgraph follows as a ``with`` section, or ``^Name[attributes](scalars)`` for
a Python function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fusiondoc.parsers.ir import IrDump, Node, RawNode, end_of_string
from fusiondoc.parsers.ir.build import STRUCTURE, Builder

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# Three levels of brackets are enough for everything except lists of lists of lists.
# The loops are unrolled, so that a line that does not match fails in linear time.
_FLAT = rf'[^"\[\]]*(?:{_STRING}[^"\[\]]*)*'
_NESTED = rf'[^"\[\]]*(?:(?:{_STRING}|\[{_FLAT}\])[^"\[\]]*)*'
_ATTRIBUTES = rf'[^"\[\]]*(?:(?:{_STRING}|\[{_NESTED}\])[^"\[\]]*)*'
# No type and no value name contains "= ": the first one ends the outputs.
_OUTPUTS = r"( *)((?:%[^=]*(?:=[^ ][^=]*)*)?)= "
_CALLEE = r"[A-Za-z_]\w*::[\w.:]+"
_TAIL = r"\(((?:%[^()]*)?)\)(, scope: .*| # .*)?"

NODE = re.compile(rf"{_OUTPUTS}({_CALLEE})(?:\[({_ATTRIBUTES})\])?{_TAIL}$")
"""Matches a node line; its groups are a :data:`RawNode`."""

_HEAD = re.compile(rf"{_OUTPUTS}({_CALLEE})(?=[\[(])")
_INPUTS = re.compile(rf"{_TAIL}\s*\Z")
_PYTHON_HEAD = re.compile(rf"{_OUTPUTS}\^(?=[^\s\[(])")
# The scalars of a Python function are printed with str(), unquoted: only the last
# `)(%...)` of the line can be recognised as the inputs
# (torch/csrc/jit/python/python_ir.cpp, ConcretePythonOp::writeScalars).
_PYTHON = re.compile(
    rf"{_OUTPUTS}(\^[^\s\[(]+)(?:\[({_ATTRIBUTES})\])?\((.*)\){_TAIL}\s*\Z",
    re.DOTALL,
)
_BRACKET = re.compile(r'["\[\]]')
_CALLED = re.compile(rf"({_CALLEE})(?=[\[(])")

LONG = 4_000
"""Number of characters from which on a line is scanned: the regex engine keeps 100
bytes and more for each step of a repeated group, which is 200 MB for a string of a
megabyte."""


def _head(text: str) -> tuple[tuple[str | None, ...], int] | None:
    """Return indentation, outputs and callee of a node, and the offset after them;
    None for another line."""
    if len(text) < LONG:
        match = _HEAD.match(text)
        if match is None:
            return None
        return match.groups(), match.end()
    equals = text.find("= ")
    called = _CALLED.match(text, equals + 2) if equals >= 0 else None
    outputs = text[:equals].lstrip(" ")
    if called is None or (outputs and not outputs.startswith("%")):
        return None
    return (" " * (equals - len(outputs)), outputs, called[1]), called.end()


def starts_node(text: str) -> bool:
    """True if the line begins like a node, with any ending."""
    return _head(text) is not None or _PYTHON_HEAD.match(text) is not None


def scan_node(text: str) -> RawNode | None:
    """Return the raw fields of a node that :data:`NODE` does not match; None if it
    is no node or not complete."""
    head = _head(text)
    if head is None:
        python = _PYTHON.match(text) if "^" in text else None
        if python is None:
            return None
        indent, outputs, callee, attributes, scalars, inputs, tail = python.groups()
        return indent, outputs, callee, attributes, inputs, tail, scalars
    attributes, position = None, head[1]
    if text[position] == "[":
        end = _closing(text, position)
        if end is None:
            return None
        attributes, position = text[position + 1 : end], end + 1
    rest = _INPUTS.match(text, position)
    if rest is None:
        return None
    return (*head[0], attributes, rest[1], rest[2])


def _closing(text: str, position: int) -> int | None:
    """Return the index where the bracket opened at ``position`` closes; None if it
    does not."""
    depth = 0
    match = _BRACKET.search(text, position)
    while match is not None:
        at = match.start()
        if match[0] == "[":
            depth += 1
        elif match[0] == "]":
            depth -= 1
            if depth == 0:
                return at
        else:
            at = end_of_string(text, at + 1)
            if at < 0:
                return None
        match = _BRACKET.search(text, at + 1)
    return None


_GRAPH = re.compile(r"(?:^|(?<=\W))graph\((?=\s*%|\)|\s*$)")
_PARAMETER_LINE = re.compile(r"\s*%[^\s,=]+(?: : .*)?(?:,|\):)\s*$")
_NODE_LINES = 64
"""Number of lines over which one node may be printed: tensors with rows, or the
arguments of a Python function."""


_BLOCK = 1 << 17
"""Number of bytes that are decoded at once."""


class _Texts:
    """The lines of a dump as text, decoded in blocks that are kept only while they
    are read: a graph of 100,000 nodes has 15 MB.

    Args:
        data: the lines.
        cut: number of bytes that are left out at the beginning of each line.
    """

    def __init__(self, data: bytes, cut: int) -> None:
        self._data = data
        self._cut = cut
        self._at = 0
        self._blocks: list[tuple[int, list[str]]] = []
        """The number of each block's first line, and its lines."""
        self._read = 0
        """Number of lines in the blocks so far."""
        self._size = data.count(b"\n") + 1 if data else 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, line: int) -> str:
        """Return a line of the block that ``blocks`` yielded last, or a later
        line."""
        while line >= self._read:
            self._decode()
        for first, lines in reversed(self._blocks):
            if line >= first:
                return lines[line - first]
        raise IndexError(line)

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """Yield all lines in blocks: the number of the first line, and the
        lines."""
        while self._blocks or self._at < len(self._data):
            if not self._blocks:
                self._decode()
            yield self._blocks[0]
            del self._blocks[0]

    def _decode(self) -> None:
        data, at = self._data, self._at
        end = data.find(b"\n", at + _BLOCK)
        end = len(data) if end < 0 else end
        block, self._at = data[at:end], end + 1
        if self._cut and not block.isascii():
            block = b"\n".join([line[self._cut :] for line in block.split(b"\n")])
        # A byte that is not UTF-8 becomes \xNN: distinct, printable, and it never
        # closes a string.
        lines = block.decode("utf-8", "backslashreplace").split("\n")
        if self._cut and block.isascii():
            lines = [line[self._cut :] for line in lines]
        if b"\r" in block:
            lines = [line.rstrip("\r") for line in lines]
        self._blocks.append((self._read, lines))
        self._read += len(lines)


def _long_node(texts: _Texts, start: int) -> tuple[RawNode | None, int]:
    """Return the node that begins on a line that the node regex does not match, and
    the line after it."""
    text = texts[start]
    raw = scan_node(text.rstrip())
    end = start + 1
    while raw is None and end < min(start + _NODE_LINES, len(texts)):
        following = texts[end]
        if (
            (len(following) < LONG and NODE.match(following) is not None)
            or STRUCTURE.match(following) is not None
            or starts_node(following)
        ):
            break
        text += "\n" + following
        end += 1
        raw = scan_node(text)
    return raw, end


def parse_dump(lines: Sequence[bytes]) -> IrDump:
    """Return one printed graph with its sections.

    ``lines`` are without their log prefix; header text may come before ``graph(``,
    on its line or on lines of its own. Lines that are not IR are set aside; a
    missing beginning or end is reported.
    """
    return parse_text(b"\n".join(lines))


def parse_text(data: bytes, cut: int = 0) -> IrDump:
    """The same for the lines as one text; ``cut``: length of the log's prefix on
    each line."""
    texts = _Texts(data, cut)
    builder = Builder()
    _structural_pass(texts, _begin(texts, builder), builder)
    return builder.finish(len(texts))


def parse_node_lines(lines: Sequence[bytes]) -> Node | None:
    """Return a node printed by itself, with the lines of its blocks; None if the
    first line does not begin a node."""
    texts = _Texts(b"\n".join(lines), 0)
    if not len(texts) or not starts_node(texts[0]):
        return None
    builder = Builder()
    builder.headless(0, in_params=False)
    _structural_pass(texts, 0, builder)
    nodes = builder.finish(len(texts)).graph.nodes
    if nodes and nodes[0].line == 0:
        return nodes[0]
    return None


def parse_node(text: bytes) -> Node | None:
    """Return a node printed by itself, as in the rejections of partition.cpp; None
    if ``text`` does not begin with a node."""
    return parse_node_lines(text.split(b"\n"))


def _begin(texts: _Texts, builder: Builder) -> int:
    """Open the graph; return the line to continue with."""
    for line in range(len(texts)):
        text = texts[line]
        if (len(text) < LONG and NODE.match(text) is not None) or STRUCTURE.match(
            text
        ) is not None:
            return line
        opening = _GRAPH.search(text)
        if opening is not None:
            builder.open_graph(line, text[opening.end() :])
            return line + 1
        if _PARAMETER_LINE.match(text) is not None:
            builder.headless(line, in_params=True)
            return line
    return 0


def _structural_pass(texts: _Texts, start: int, builder: Builder) -> None:
    match_node = NODE.match
    nodes, indent = builder.nodes, builder.indent
    taken = start
    for first, block in texts.blocks():
        for line, text in enumerate(block, first):
            match = match_node(text) if len(text) < LONG else None
            if line < start:
                continue
            if match is not None:
                raw: RawNode = match.groups()
            elif line < taken:
                continue
            else:
                found, taken = _other_line(texts, line, builder)
                nodes, indent = builder.nodes, builder.indent
                if found is None:
                    continue
                raw = found
            if raw[0] != indent:
                if not builder.find_block(raw, line):
                    builder.problems.set_aside(line, text)
                    continue
                nodes, indent = builder.nodes, builder.indent
            node = Node(raw, line)
            nodes.append(node)
            if node.kind[-1] <= "9":
                builder.sections.candidate(node)


def _other_line(
    texts: _Texts, line: int, builder: Builder
) -> tuple[RawNode | None, int]:
    """Read a line that the node regex does not match. Return the node on it, if it
    is one after all, and the line after it."""
    text = texts[line]
    match = STRUCTURE.match(text)
    if match is not None:
        if not builder.structure(match, line):
            builder.problems.set_aside(line, text)
    elif builder.parameter(text) or not text or text.isspace():
        pass
    elif starts_node(text):
        raw, end = _long_node(texts, line)
        if raw is not None:
            return raw, end
        builder.mangled(line)
    elif _GRAPH.search(text) is not None:
        builder.second_graph(line)
        builder.problems.set_aside(line, text)
    else:
        builder.problems.set_aside(line, text)
    return None, line + 1
