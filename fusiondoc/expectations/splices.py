"""Changes of a YAML text that leave every other character as it is: comments, order, quotes, line ends.

Each takes the text and the path of a node and gives the new text. Positions are those of PyYAML's marks.
"""

from __future__ import annotations

from typing import Sequence

import yaml

from fusiondoc.expectations import document
from fusiondoc.expectations.expectation import Path


class CannotEdit(Exception):
    """The text is written in a way that these changes do not know."""


def value(text: str, path: Path) -> list[str] | None:
    """The scalars of a list; None where there is none."""
    root = document.compose(text, "the text")
    node = document.at(root, path) if root is not None else None
    return [str(one.value) for one in node.value] if isinstance(node, yaml.SequenceNode) else None


def set_value(text: str, path: Path, new: str | Sequence[str]) -> str:
    """Put a scalar, or a list of scalars, where another one is; a list keeps its style."""
    node = _node(text, path)
    start, end = node.start_mark.index, _end(node)
    if isinstance(new, str):
        return text[:start] + new + text[end:]
    if isinstance(node, yaml.SequenceNode) and not _flow(node):
        indent = _newline(text) + " " * node.start_mark.column
        return text[:start] + indent.join(f"- {one}" for one in new) + text[end:]
    return text[:start] + "[" + ", ".join(new) + "]" + text[end:]


def replace_item(text: str, path: Path, lines: Sequence[str]) -> str:
    """Put the lines of a block mapping where an item of a list is."""
    node = _node(text, path)
    if isinstance(_node(text, path[:-1]), yaml.MappingNode) or _in_flow(text, path[:-1]):
        raise CannotEdit("an item of a list in brackets")
    start, end = node.start_mark.index, _end(node)
    return text[:start] + (_newline(text) + " " * node.start_mark.column).join(lines) + text[end:]


def remove(text: str, path: Path) -> str:
    """Take out an item of a list or a key of a mapping, with the comment on its lines.

    What would be left empty is taken out too.
    """
    parent = _node(text, path[:-1])
    entries = parent.value
    if len(entries) == 1:
        if len(path) == 1:
            raise CannotEdit("the last key of the file")
        return remove(text, path[:-1])
    index = path[-1] if isinstance(path[-1], int) else [key.value for key, _ in entries].index(path[-1])
    spans = [_span(text, entry) for entry in entries]
    if _flow(parent):
        kept = ", ".join(text[a:b] for i, (a, b) in enumerate(spans) if i != index)
        return text[: parent.start_mark.index + 1] + kept + text[_end(parent) - 1 :]
    start, end = spans[int(index)]
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():  # behind the dash of an outer list: the next one moves up
        if int(index) + 1 == len(spans):
            raise CannotEdit("an entry behind others on one line")
        return text[:start] + text[spans[int(index) + 1][0] :]
    return text[:line] + text[_after_line(text, end) :]


def append(text: str, path: Path, lines: Sequence[str]) -> str:
    """Add an item to a list: in block style the lines of it, in brackets the first of them."""
    node = _node(text, path)
    if not isinstance(node, yaml.SequenceNode):
        raise CannotEdit("not a list")
    if _flow(node):
        if len(lines) > 1:
            raise CannotEdit("a list in brackets")
        return text[: _end(node) - 1] + (", " if node.value else "") + lines[0] + text[_end(node) - 1 :]
    indent = " " * node.start_mark.column
    return _insert(text, _end(node), [f"{indent}- {lines[0]}", *(f"{indent}  {line}" for line in lines[1:])])


def add_key(text: str, path: Path, lines: Sequence[str]) -> str:
    """Add a key to a mapping in block style; ``lines`` hold key and value."""
    node = _node(text, path)
    if not isinstance(node, yaml.MappingNode) or _flow(node):
        raise CannotEdit("a mapping in braces")
    indent = " " * node.start_mark.column
    return _insert(text, _end(node), [indent + line for line in lines])


def has_aliases(text: str) -> bool:
    """Whether a part of the text stands for another one, so that changing one would change both."""
    events = yaml.parse(text, Loader=yaml.SafeLoader)
    return any(isinstance(event, yaml.AliasEvent) for event in events)


def _node(text: str, path: Path) -> yaml.Node:
    root = document.compose(text, "the text")
    node = document.at(root, path) if root is not None else None
    if node is None:
        raise CannotEdit("a place that is not there")
    return node


def _flow(node: yaml.Node) -> bool:
    """Whether it is written in brackets or braces."""
    return bool(getattr(node, "flow_style", False))


def _in_flow(text: str, path: Path) -> bool:
    return any(_flow(_node(text, path[:i])) for i in range(len(path) + 1))


def _span(text: str, entry: object) -> tuple[int, int]:
    """From the dash or the key to the end of the value."""
    if isinstance(entry, tuple):
        key, value = entry
        return key.start_mark.index, max(_end(value), key.end_mark.index + 1)
    assert isinstance(entry, yaml.Node)
    start = entry.start_mark.index
    before = text[:start].rstrip(" ")
    return (len(before) - 1 if before.endswith("-") else start), _end(entry)


def _end(node: yaml.Node) -> int:
    """Where the node really ends: PyYAML ends a block collection where the next thing begins."""
    while not isinstance(node, yaml.ScalarNode) and not _flow(node) and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _after_line(text: str, index: int) -> int:
    """The start of the line behind the one that ends at or after ``index``."""
    if index and text[index - 1] == "\n":  # a block scalar ends behind its last line
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _insert(text: str, end: int, lines: Sequence[str]) -> str:
    newline = _newline(text)
    place = _after_line(text, end)
    before = text[:place]
    if before and not before.endswith("\n"):
        before += newline
    return before + "".join(line + newline for line in lines) + text[place:]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
