"""YAML text with positions: to nodes and plain values, problems that name line and
column, and changes of the text that keep everything else: comments, order, line
ends.

A change takes the text and the path of a node and gives the new text. Positions are
those of PyYAML's marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml

from fusiondoc.errors import UsageError
from fusiondoc.expectations import FilePosition, Path

_MOST_SHOWN = 10


class Problems:
    """The mistakes in a file, in the order of its lines; raised together."""

    def __init__(
        self, file: str, in_words: Callable[[FilePosition], str] | None = None
    ) -> None:
        """``in_words``: makes the text for a position in messages, if not
        ``file:line:column``."""
        self._file = file
        self._in_words = in_words or self._of_file
        self._found: list[tuple[int, int, str]] = []

    def add(self, node: yaml.Node, message: str) -> None:
        at = position(node)
        self._found.append((at.line, at.column, message))

    def raise_if_any(self, hint: str) -> None:
        """Raise UsageError with every problem, one a line, if there are any."""
        if not self._found:
            return
        found = sorted(set(self._found))
        lines = []
        for *at, message in found:
            lines.append(f"{self._in_words(FilePosition(*at))}: {message}")
        if len(lines) > _MOST_SHOWN:
            lines[_MOST_SHOWN:] = [f"and {len(lines) - _MOST_SHOWN} more"]
        raise UsageError("\n".join(lines), hint)

    def _of_file(self, at: FilePosition) -> str:
        return f"{self._file}:{at.line}:{at.column}"


def position(node: yaml.Node) -> FilePosition:
    """The position at which a node begins."""
    return FilePosition(node.start_mark.line + 1, node.start_mark.column + 1)


def compose(text: str, file: str) -> yaml.Node | None:
    """Parse a text and return the root node; None for a file without content.
    UsageError, with the position, for a text that is no YAML."""
    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is not None and _expanded(root) > _MOST_NODES:
            raise UsageError(
                f"{file}: its aliases expand to more than {_MOST_NODES:,} values",
                "Write them out.",
            )
        return root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        began = error.context_mark
        since = ""
        if began:
            since = f" ({error.context} that begins at {began.line + 1}:{began.column + 1})"
        raise UsageError(
            f"{file}{position}: {error.problem or 'not YAML'}{since}", _HINT
        ) from None
    except yaml.YAMLError as error:
        position = ""
        if isinstance(error, yaml.reader.ReaderError) and isinstance(
            error.position, int
        ):
            before = text[: error.position]
            position = f":{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        reason = getattr(error, "reason", None) or "not YAML"
        raise UsageError(f"{file}{position}: {reason}", _HINT) from None
    except RecursionError:
        raise UsageError(f"{file}: brackets nested too deeply", _HINT) from None


_HINT = "It is read as YAML: keys and values with a colon and a space between them, lists with a dash."


_MOST_NESTED = 200
"""Most nested brackets; expectations have four. PyYAML examines all open ones for
each token, so that a thousand take seconds."""


class _Loader(yaml.SafeLoader):
    """Reports, with the position, brackets that are nested too deeply, without
    parsing further."""

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= _MOST_NESTED:
            raise yaml.scanner.ScannerError(
                None, None, "brackets nested too deeply", self.get_mark()
            )
        super().fetch_flow_collection_start(token)


_MOST_NODES = 200_000
"""Most values of a document, with every alias expanded."""


def _expanded(root: yaml.Node) -> int:
    """Return the number of values of a document with its aliases expanded, without
    expanding them; an alias inside its own anchor counts as too many."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        sizes[id(node)] = _MOST_NODES + 1  # of itself, while it is counted
        if isinstance(node, (yaml.SequenceNode, yaml.MappingNode)):
            parts = node.value
        else:
            parts = ()
        inner: list[Any] = []
        for part in parts:
            inner.extend(part if isinstance(part, tuple) else (part,))
        total = min(1 + sum(map(size, inner)), _MOST_NODES + 1)
        sizes[id(node)] = total
        return total

    return size(root)


def kind(node: yaml.Node) -> str:
    """The kind of a node, in YAML's terms: mapping, list, text, number, true or
    false, nothing."""
    if isinstance(node, yaml.MappingNode):
        return "mapping"
    if isinstance(node, yaml.SequenceNode):
        return "list"
    name = str(node.tag).rpartition(":")[2]
    return {
        "str": "text",
        "int": "number",
        "float": "number",
        "bool": "bool",
        "null": "nothing",
    }.get(name, name)


def number(node: yaml.Node) -> float | None:
    """The value of a number; None for anything else, and for a number that is not
    finite."""
    if kind(node) != "number":
        return None
    try:
        value: Any = yaml.SafeLoader("").construct_object(node)
        value = float(value)
    except (ValueError, OverflowError, yaml.YAMLError):
        return None
    return value if abs(value) < 1e15 else None


def text(node: yaml.Node) -> str | None:
    """The text of a text scalar; None for numbers and anything else."""
    if isinstance(node, yaml.ScalarNode) and kind(node) == "text":
        return str(node.value)
    return None


def plain_value(node: yaml.Node) -> str | None:
    """Text, a number or a boolean, as it is written; None for anything else."""
    if not isinstance(node, yaml.ScalarNode) or kind(node) not in (
        "text",
        "number",
        "bool",
        "timestamp",
    ):
        return None
    return str(node.value)


def flag(node: yaml.Node) -> bool | None:
    """The value of true or false; None for anything else."""
    if kind(node) != "bool":
        return None
    return str(getattr(node, "value", "")).lower() in ("true", "yes", "on")


def items(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping."""
    if isinstance(node, yaml.MappingNode):
        yield from node.value


def at(root: yaml.Node, path: Path) -> yaml.Node | None:
    """The node at a path of keys and indices."""
    node: yaml.Node | None = root
    for part in path:
        if isinstance(node, yaml.MappingNode):
            node = next((v for k, v in node.value if k.value == part), None)
        elif (
            isinstance(node, yaml.SequenceNode)
            and isinstance(part, int)
            and part < len(node.value)
        ):
            node = node.value[part]
        else:
            return None
    return node


class CannotEdit(Exception):
    """The text is written in a way that these changes do not support."""


def value(text: str, path: Path) -> list[str] | None:
    """The scalars of a list; None if there is no list."""
    root = compose(text, "the text")
    node = at(root, path) if root is not None else None
    if isinstance(node, yaml.SequenceNode):
        return [str(item.value) for item in node.value]
    return None


def scalar(text: str, path: Path) -> str | None:
    """The scalar at a path, as it is written; None if there is none."""
    root = compose(text, "the text")
    node = at(root, path) if root is not None else None
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    return None


def set_value(text: str, path: Path, new: str | Sequence[str]) -> str:
    """Replace a scalar, or a list of scalars; a list keeps its style."""
    node = _node(text, path)
    start, end = node.start_mark.index, _end(node)
    if isinstance(new, str):
        return text[:start] + new + text[end:]
    if isinstance(node, yaml.SequenceNode) and not _flow(node):
        indent = _newline(text) + " " * node.start_mark.column
        return text[:start] + indent.join(f"- {line}" for line in new) + text[end:]
    return text[:start] + "[" + ", ".join(new) + "]" + text[end:]


def replace_item(text: str, path: Path, lines: Sequence[str]) -> str:
    """Replace an item of a list by the lines of a block mapping."""
    node = _node(text, path)
    if isinstance(_node(text, path[:-1]), yaml.MappingNode) or _in_flow(
        text, path[:-1]
    ):
        raise CannotEdit("an item of a list in brackets")
    start, end = node.start_mark.index, _end(node)
    return (
        text[:start]
        + (_newline(text) + " " * node.start_mark.column).join(lines)
        + text[end:]
    )


def remove(text: str, path: Path) -> str:
    """Remove an item of a list or a key of a mapping, with the comment on its
    lines.

    A list or mapping that would be left empty is removed too.
    """
    parent = _node(text, path[:-1])
    entries = parent.value
    if len(entries) == 1:
        if len(path) == 1:
            raise CannotEdit("the last key of the file")
        return remove(text, path[:-1])
    if isinstance(path[-1], int):
        index = path[-1]
    else:
        index = [key.value for key, _ in entries].index(path[-1])
    spans = [_span(text, entry) for entry in entries]
    if _flow(parent):
        kept = ", ".join(text[a:b] for i, (a, b) in enumerate(spans) if i != index)
        return text[: parent.start_mark.index + 1] + kept + text[_end(parent) - 1 :]
    start, end = spans[int(index)]
    line = text.rfind("\n", 0, start) + 1
    if text[
        line:start
    ].strip():  # behind the dash of an outer list: the next one moves up
        if int(index) + 1 == len(spans):
            raise CannotEdit("an entry after others on one line")
        return text[:start] + text[spans[int(index) + 1][0] :]
    return text[:line] + text[_after_line(text, end) :]


def append(text: str, path: Path, lines: Sequence[str]) -> str:
    """Add an item to a list: in block style its lines, in brackets the first of
    them."""
    node = _node(text, path)
    if not isinstance(node, yaml.SequenceNode):
        raise CannotEdit("not a list")
    if _flow(node):
        if len(lines) > 1:
            raise CannotEdit("a list in brackets")
        return (
            text[: _end(node) - 1]
            + (", " if node.value else "")
            + lines[0]
            + text[_end(node) - 1 :]
        )
    indent = " " * node.start_mark.column
    return _insert(
        text,
        _end(node),
        [f"{indent}- {lines[0]}", *(f"{indent}  {line}" for line in lines[1:])],
    )


def add_key(text: str, path: Path, lines: Sequence[str]) -> str:
    """Add a key to a mapping in block style; ``lines`` contain key and value."""
    node = _node(text, path)
    if not isinstance(node, yaml.MappingNode) or _flow(node):
        raise CannotEdit("a mapping in braces")
    indent = " " * node.start_mark.column
    return _insert(text, _end(node), [indent + line for line in lines])


def first_alias(text: str) -> tuple[str, int, int] | None:
    """The first alias in the text, which a change would affect together with its
    anchor: its name, its line and the line of its anchor. None if there is none."""
    anchors: dict[str, int] = {}
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        name = getattr(event, "anchor", None)
        if name is None:
            continue
        mark = event.start_mark
        line = mark.line + 1 if mark is not None else 1
        if isinstance(event, yaml.AliasEvent):
            return name, line, anchors.get(name, line)
        anchors[name] = line
    return None


def _node(text: str, path: Path) -> yaml.Node:
    root = compose(text, "the text")
    node = at(root, path) if root is not None else None
    if node is None:
        raise CannotEdit("a place that is not there")
    return node


def _flow(node: yaml.Node) -> bool:
    """True if it is written in brackets or braces."""
    return bool(getattr(node, "flow_style", False))


def _in_flow(text: str, path: Path) -> bool:
    return any(_flow(_node(text, path[:i])) for i in range(len(path) + 1))


def _span(text: str, entry: object) -> tuple[int, int]:
    """The span from the dash or the key to the end of the value."""
    if isinstance(entry, tuple):
        key, value = entry
        return key.start_mark.index, max(_end(value), key.end_mark.index + 1)
    assert isinstance(entry, yaml.Node)
    start = entry.start_mark.index
    before = text[:start].rstrip(" ")
    return (len(before) - 1 if before.endswith("-") else start), _end(entry)


def _end(node: yaml.Node) -> int:
    """The real end of a node: PyYAML ends a block collection where the next node
    begins."""
    while not isinstance(node, yaml.ScalarNode) and not _flow(node) and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _after_line(text: str, index: int) -> int:
    """The start of the line after the one that ends at or after ``index``."""
    if (
        index and text[index - 1] == "\n"
    ):  # a block scalar ends behind its last line
        return index
    end = text.find("\n", index)
    if end < 0:
        return len(text)
    return end + 1


def _insert(text: str, end: int, lines: Sequence[str]) -> str:
    newline = _newline(text)
    start = _after_line(text, end)
    before = text[:start]
    if before and not before.endswith("\n"):
        before += newline
    return before + "".join(line + newline for line in lines) + text[start:]


def _newline(text: str) -> str:
    if "\r\n" in text:
        return "\r\n"
    return "\n"
