"""One node line -> its raw fields. One regex settles nearly every line, a scanner the rest.

The print is that of ``Node::print`` (torch/csrc/jit/ir/ir.cpp)::

    indent outs " = " callee "[" attributes "]" "(" inputs ")" [", scope: " scope] [" # " file:line:column]

where ``outs`` may be empty and ``callee`` is ``ns::op``, ``ns::op_0`` for a node whose subgraph follows as a
``with`` section, or ``^Name[attributes](scalars)`` for a Python function.
"""

from __future__ import annotations

import re
from typing import Tuple, Union

RawNode = Tuple[Union[str, None], ...]
"""Indentation, outputs, callee, attributes or None, inputs, tail or None, and for a Python function its
scalars."""

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# Three levels of brackets are enough for all but lists of lists of lists; unrolled loops, so that a line
# that does not match is given up in linear time.
_FLAT = rf'[^"\[\]]*(?:{_STRING}[^"\[\]]*)*'
_NESTED = rf'[^"\[\]]*(?:(?:{_STRING}|\[{_FLAT}\])[^"\[\]]*)*'
_ATTRIBUTES = rf'[^"\[\]]*(?:(?:{_STRING}|\[{_NESTED}\])[^"\[\]]*)*'
# No type and no value name holds "= ": the first one ends the outputs.
_OUTPUTS = r"( *)((?:%[^=]*(?:=[^ ][^=]*)*)?)= "
_CALLEE = r"[A-Za-z_]\w*::[\w.:]+"
_TAIL = r"\(((?:%[^()]*)?)\)(, scope: .*| # .*)?"

NODE = re.compile(rf"{_OUTPUTS}({_CALLEE})(?:\[({_ATTRIBUTES})\])?{_TAIL}$")
"""The structural pass; its groups are a :data:`RawNode`."""

_HEAD = re.compile(rf"{_OUTPUTS}({_CALLEE})(?=[\[(])")
_INPUTS = re.compile(rf"{_TAIL}\s*\Z")
_PYTHON_HEAD = re.compile(rf"{_OUTPUTS}\^(?=[^\s\[(])")
# The scalars of a Python function are printed with str(), unquoted: only the last `)(%...)` of the line can
# be told to be the inputs (torch/csrc/jit/python/python_ir.cpp, ConcretePythonOp::writeScalars).
_PYTHON = re.compile(
    rf"{_OUTPUTS}(\^[^\s\[(]+)(?:\[({_ATTRIBUTES})\])?\((.*)\){_TAIL}\s*\Z",
    re.DOTALL,
)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|["\[\]]', re.DOTALL)


def starts_node(text: str) -> bool:
    """Whether the line begins as a node does, however it ends."""
    return _HEAD.match(text) is not None or _PYTHON_HEAD.match(text) is not None


def scan_node(text: str) -> RawNode | None:
    """The raw fields of a node that :data:`NODE` could not settle; None if it is none or not whole."""
    head = _HEAD.match(text)
    if head is None:
        python = _PYTHON.match(text)
        if python is None:
            return None
        indent, outputs, callee, attributes, scalars, inputs, tail = python.groups()
        return indent, outputs, callee, attributes, inputs, tail, scalars
    attributes, position = None, head.end()
    if text[position] == "[":
        end = _closing(text, position)
        if end is None:
            return None
        attributes, position = text[position + 1 : end], end + 1
    rest = _INPUTS.match(text, position)
    if rest is None:
        return None
    return (*head.groups(), attributes, rest[1], rest[2])


def _closing(text: str, position: int) -> int | None:
    """Where the bracket opened at ``position`` closes; None if it does not."""
    depth = 0
    for match in _BRACKET.finditer(text, position):
        token = match[0]
        if token == "[":
            depth += 1
        elif token == "]":
            depth -= 1
            if depth == 0:
                return match.start()
        elif token == '"':
            return None
    return None


# Strings are printed with C escapes (c10::printQuotedString), so a quote inside one has a backslash before
# it.
_ATTRIBUTE_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[({]|[\])}]|, (?=[A-Za-z_]\w*=)', re.DOTALL)


def _one_line(text: str) -> str:
    return " ".join(line for line in map(str.strip, text.split("\n")) if line)


def split_values(text: str) -> list[tuple[str, ...]]:
    """``%x.1 : Tensor, %2 : (int, int)`` as pairs of name and type; the type is '' where none was printed.

    No type holds a ``%``, so the ``, %`` between two values is never inside one.
    """
    text = text.strip()
    if not text.startswith("%"):
        return []
    if "\n" in text:
        text = _one_line(text)
    return [part.partition(" : ")[::2] for part in text[1:].split(", %")]


def split_names(text: str) -> tuple[str, ...]:
    """``%x.1, %2`` as names without the ``%``."""
    text = text.strip()
    if not text.startswith("%"):
        return ()
    if "\n" in text:
        text = _one_line(text)
    return tuple(text[1:].split(", %"))


def split_attributes(text: str) -> dict[str, str]:
    """``value="a, b", types=[int, (int, int)]`` as a dictionary of the printed values, in print order."""
    if ", " not in text:
        name, equals, value = text.partition("=")
        return {name.strip(): value} if equals else {}
    pieces = []
    start = depth = 0
    for match in _ATTRIBUTE_TOKEN.finditer(text):
        token = match[0]
        if token in "[({":
            depth += 1
        elif token in "])}":
            depth -= 1
        elif token == ", " and depth <= 0:
            pieces.append(text[start : match.start()])
            start = match.end()
    pieces.append(text[start:])
    attributes = {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        if equals:
            attributes[name.strip()] = value
    return attributes


def split_tail(text: str | None) -> tuple[str | None, str | None]:
    """Scope and source of what follows the inputs: ``, scope: __module.l # file.py:134:0``."""
    text = text.rstrip() if text else ""
    if text.startswith(", scope: "):
        scope, hash_mark, source = text[9:].partition(" # ")
        return scope, source if hash_mark else None
    return None, text[3:] if text.startswith(" # ") else None
