"""YAML with positions: text to nodes, nodes to plain values, and problems that name line and column."""

from __future__ import annotations

from typing import Any, Iterator

import yaml

from fusiondoc.errors import UsageError
from fusiondoc.expectations.expectation import Path, Position

_MOST_SHOWN = 10


class Problems:
    """What is wrong in a file, in the order of its lines; raised together."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[tuple[int, int, str]] = []

    def add(self, node: yaml.Node, message: str) -> None:
        place = position(node)
        self._found.append((place.line, place.column, message))

    def raise_if_any(self, hint: str) -> None:
        """UsageError with every problem, one a line."""
        if not self._found:
            return
        found = sorted(set(self._found))
        lines = [f"{self._file}:{line}:{column}: {message}" for line, column, message in found]
        if len(lines) > _MOST_SHOWN:
            lines[_MOST_SHOWN:] = [f"and {len(lines) - _MOST_SHOWN} more"]
        raise UsageError("\n".join(lines), hint)


def position(node: yaml.Node) -> Position:
    """Where a node begins."""
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def compose(text: str, file: str) -> yaml.Node | None:
    """The root node; None for a file with no content. UsageError for what is no YAML, with its position."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _expanded(root) > _MOST_NODES:
            raise UsageError(
                f"{file}: its aliases expand to more than {_MOST_NODES:,} values",
                "Write them out.",
            )
        return root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        began = error.context_mark
        since = f" ({error.context} that begins at {began.line + 1}:{began.column + 1})" if began else ""
        raise UsageError(f"{file}{place}: {error.problem or 'not YAML'}{since}", _HINT) from None
    except yaml.YAMLError as error:
        place = ""
        if isinstance(error, yaml.reader.ReaderError) and isinstance(error.position, int):
            before = text[: error.position]
            place = f":{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        reason = getattr(error, "reason", None) or "not YAML"
        raise UsageError(f"{file}{place}: {reason}", _HINT) from None
    except RecursionError:
        raise UsageError(f"{file}: brackets nested too deeply", _HINT) from None


_HINT = "It is read as YAML: keys and values with a colon and a space between them, lists with a dash."


_MOST_NODES = 200_000
"""Values that a document may have, counted with every alias written out."""


def _expanded(root: yaml.Node) -> int:
    """The values of a document with its aliases written out, without writing them out; an alias inside what
    it names counts as too many."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        sizes[id(node)] = _MOST_NODES + 1  # of itself, while it is counted
        parts = node.value if isinstance(node, (yaml.SequenceNode, yaml.MappingNode)) else ()
        inner = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        total = min(1 + sum(map(size, inner)), _MOST_NODES + 1)
        sizes[id(node)] = total
        return total

    return size(root)


def kind(node: yaml.Node) -> str:
    """What a node is, in words of YAML: mapping, list, text, number, true or false, nothing."""
    if isinstance(node, yaml.MappingNode):
        return "mapping"
    if isinstance(node, yaml.SequenceNode):
        return "list"
    name = str(node.tag).rpartition(":")[2]
    return {"str": "text", "int": "number", "float": "number", "bool": "bool", "null": "nothing"}.get(
        name, name
    )


def number(node: yaml.Node) -> float | None:
    """The value of a number; None if it is none, or not finite."""
    if kind(node) != "number":
        return None
    try:
        value: Any = yaml.SafeLoader("").construct_object(node)
        value = float(value)
    except (ValueError, OverflowError, yaml.YAMLError):
        return None
    return value if abs(value) < 1e15 else None


def text(node: yaml.Node) -> str | None:
    """The text of a scalar that is text; None for numbers and all else."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) and kind(node) == "text" else None


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
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        else:
            return None
    return node
