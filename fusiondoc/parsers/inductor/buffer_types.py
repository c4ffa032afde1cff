"""Types and bytes of buffers that library calls make: the code does not state their
element types, but the graph does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import Buffer, FinalNode, GraphOperator
from fusiondoc.parsers.inductor.tensor_types import bytes_of, bytes_of_type
from fusiondoc.parsers.inductor.wrapper_calls import Wrapper


def typed_buffers(
    wrapper: Wrapper,
    called: Iterable[FinalNode],
    operators: Sequence[GraphOperator],
) -> tuple[Buffer, ...]:
    """Return the buffers of a wrapper. Buffers of unknown type get the type of the
    node that made them.

    Args:
        called: the calls, with their operators.
        operators: nodes of the graph.
    """
    buffers = dict(wrapper.buffers)
    by_name = {operator.name: operator for operator in operators}
    for node in called:
        if len(node.operators) != 1:
            continue
        made = by_name.get(node.operators[0])
        if made is not None:
            _give_types(buffers, node, _results(made, operators))
    for name, before in wrapper.reuses.items():
        known = buffers.get(before)
        if (
            known is not None
            and buffers[name].bytes is None
            and known.type is not None
        ):
            buffers[name] = _of_element_type(buffers[name], known.type)
    return tuple(buffers.values())


def _results(made: GraphOperator, operators: Sequence[GraphOperator]) -> list[str]:
    """Return the types of an operator's results: its own type, or those of the
    parts of its tuple."""
    parts = []
    for one in operators:
        if one.target == "getitem" and made.name in one.inputs:
            parts.append(one)
    types = []
    for one in (made, *parts):
        if one.type is not None:
            types.append(one.type)
    return types


def _give_types(
    buffers: dict[str, Buffer], node: FinalNode, types: list[str]
) -> None:
    """Set the types of a call's results. Of a tuple each result gets the first
    unused type with the same sizes."""
    for access in node.writes:
        buffer = buffers.get(access.buffer)
        if buffer is None or buffer.bytes is not None:
            continue
        found = None
        for text in types:
            if _sizes(text) == _sizes(buffer.type or ""):
                found = text
                break
        if found is None and len(node.writes) == 1 and types:
            found = types[0]
        if found is not None:
            types.remove(found)
            size = bytes_of_type(found, {})
            buffers[buffer.name] = replace(
                buffer, type=found.partition("]")[0] + "]", bytes=size
            )


def _sizes(text: str) -> str:
    return text.partition("[")[2].partition("]")[0]


def _of_element_type(buffer: Buffer, other: str) -> Buffer:
    """Return a buffer that reuses the memory of another: with its own sizes and the
    other's element type."""
    short = other.partition("[")[0]
    sizes = _sizes(buffer.type or other)
    parts = []
    for part in sizes.split(","):
        if part.strip():
            parts.append(part.strip())
    return replace(
        buffer, type=f"{short}[{sizes}]", bytes=bytes_of(short, parts, [], {})
    )
