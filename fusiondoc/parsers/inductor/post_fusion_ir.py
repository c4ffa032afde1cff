"""The loop IR after fusion: ``ir_post_fusion.txt`` of a debug folder, the artifact
``ir_post_fusion`` of TORCH_LOGS (2.11, 2.13; ``debug_str`` in
``torch/_inductor/scheduler.py``). It names the final nodes, and each of their
accesses with its index expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import (
    Access,
    Buffer,
    FinalKind,
    FinalNode,
    Line,
)
from fusiondoc.fusers.inductor.node_kinds import final_kind
from fusiondoc.parsers.inductor.fusion_log import members_of
from fusiondoc.parsers.inductor.python_text import arguments, size_of
from fusiondoc.parsers.inductor.tensor_types import element_size, short_name
from fusiondoc.parsers.inductor.text_lines import TextLines

_NODE = re.compile(r"(\w{1,4000}): (\w+)\(.*\)\s*$")
_MEMBER = re.compile(r"\w+\.snodes\[\d+\] =")
_FIELD = re.compile(
    r"(\w+)\.(writes|unmet_dependencies|met_dependencies|sizes|group\.device) = ?(.*)"
)
_DEPENDENCY = re.compile(r"(MemoryDep|StarDep|WeakDep)\(")
_QUOTED = re.compile(r"'(\w+)'")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_LAYOUT = re.compile(
    r"\s*(\w+?)(?:\.layout|_layout) = \w+\('([\w:]+)', torch\.(\w+)"
)


class _Node:
    """A final node while it is read."""

    def __init__(self, name: str, scheduler_class: str, line: Line) -> None:
        self.name = name
        self.scheduler_class = scheduler_class
        self.line = line
        self.fields: dict[str, list[str]] = {}

    def text(self, field: str) -> str:
        return " ".join(self.fields.get(field, ())).strip()


class _Reader:
    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.types: dict[str, str] = {}
        """Buffer -> element type: ``f32``."""
        self._member_comes = False
        self._open: list[str] | None = None
        """Lines of the current field."""

    def take(self, text: str, line: Line) -> None:
        """Read the next line."""
        layout = _LAYOUT.match(text)
        if layout is not None:
            self.types[layout.group(1)] = short_name(layout.group(3))
        if _MEMBER.match(text):
            self._member_comes, self._open = True, None
            return
        node = _NODE.match(text)
        if node is not None:
            if not self._member_comes:
                self.nodes.append(_Node(node.group(1), node.group(2), line))
            self._member_comes, self._open = False, None
            return
        field = _FIELD.match(text)
        if field is not None:
            self._begin_field(*field.groups())
        elif self._open is not None and text.startswith(" "):
            self._open.append(text.strip())
        else:
            self._open = None

    def _begin_field(self, owner: str, name: str, rest: str) -> None:
        self._open = None
        if (
            self.nodes
            and self.nodes[-1].name == owner
            and name not in self.nodes[-1].fields
        ):
            self._open = self.nodes[-1].fields[name] = [rest.strip()]


def final_nodes(text: str, lines: TextLines) -> list[FinalNode]:
    """Return the final nodes in the IR, in order, with the buffers that each reads
    and writes.

    Args:
        lines: position of the text.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines()):
        reader.take(line, lines.line(number))
    return [_final_node(node, reader.types) for node in reader.nodes]


def _final_node(node: _Node, types: dict[str, str]) -> FinalNode:
    writes = _accesses(node.text("writes"), types)
    reads = _accesses(
        node.text("unmet_dependencies") + node.text("met_dependencies"), types
    )
    return FinalNode(
        node.name,
        members_of(node.name),
        final_kind(node.scheduler_class),
        node.scheduler_class,
        (),
        reads=reads,
        writes=writes,
        sizes=node.text("sizes") or None,
        device=node.text("group.device") or None,
        lines=(node.line,),
    )


def _accesses(text: str, types: dict[str, str]) -> tuple[Access, ...]:
    """Return the distinct buffers of a list of dependencies; several accesses of
    one buffer are shown with the first index."""
    made: dict[str, Access] = {}
    for found in _DEPENDENCY.finditer(text):
        if found.group(1) == "WeakDep":  # an order without data
            continue
        parts, _ = arguments(text, found.end() - 1)
        name = _QUOTED.search(parts[0]) if parts else None
        if name is None:
            continue
        access = _access(name.group(1), parts, types)
        before = made.get(access.buffer)
        made[access.buffer] = access if before is None else _both(before, access)
    return tuple(made.values())


def _access(name: str, parts: list[str], types: dict[str, str]) -> Access:
    if len(parts) < 3:
        return Access(name)
    ranges = [part.partition(":") for part in arguments(parts[2], 0)[0]]
    in_index = set(_VARIABLE.findall(parts[1]))
    size = element_size(types.get(name, ""))
    for variable, _, text in ranges:
        if variable.strip() in in_index:
            number = size_of(text.strip(), {})
            size = None if size is None or number is None else size * number
    shown = ", ".join(text.strip() for _, _, text in ranges)
    return Access(name, size, f"{parts[1]}, ({shown})")


def _both(one: Access, other: Access) -> Access:
    """Return two accesses of a buffer as one: together they move at most the
    sum."""
    known = one.bytes is not None and other.bytes is not None
    return replace(
        one, bytes=(one.bytes or 0) + (other.bytes or 0) if known else None
    )


def in_memory(node: FinalNode, buffers: Mapping[str, Buffer]) -> FinalNode:
    """Return a node of the IR whose accesses move no more than the size of the
    buffer. Buffers that are not in the code are never in memory: they stay in
    registers."""

    def moved(access: Access) -> Access:
        buffer = buffers.get(access.buffer)
        if buffer is None:
            return replace(access, bytes=0)
        both = (access.bytes, buffer.bytes)
        if any(both):
            return replace(
                access, bytes=min(size for size in both if size is not None)
            )
        return access

    if not any(access.index for access in (*node.reads, *node.writes)):
        return node
    return replace(
        node,
        reads=tuple(map(moved, node.reads)),
        writes=tuple(map(moved, node.writes)),
    )


def with_accesses(
    decided: list[FinalNode], of_ir: list[FinalNode]
) -> list[FinalNode]:
    """Return the final nodes of the fusion log with the accesses from the IR;
    without the log, the final nodes of the IR."""
    if not decided:
        return of_ir
    by_name = {node.name: node for node in of_ir}
    made = []
    for node in decided:
        shown = by_name.get(node.name)
        if shown is not None:
            node = replace(
                node,
                kind=node.kind if node.kind is not FinalKind.LOOPS else shown.kind,
                scheduler_class=shown.scheduler_class,
                reads=shown.reads,
                writes=shown.writes,
                sizes=shown.sizes,
                device=shown.device,
                lines=node.lines + shown.lines,
            )
        made.append(node)
    return made
