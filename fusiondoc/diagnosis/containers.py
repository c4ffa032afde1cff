"""What tensors come out of, or go into, and torch does not see through: dicts, lists, objects."""

from __future__ import annotations

from fusiondoc.parsers.jit import OUT_OF_CONTAINERS
from fusiondoc.parsers.jit.flow import FlowNode

INTO_OBJECT = "its result is kept in an attribute of an object, through which torch does not see"


def from_container(node: FlowNode) -> str | None:
    """That its tensors come out of a dict or list, or go into an object, as a clause; None where they do
    not."""
    if any(one.maker in OUT_OF_CONTAINERS and one.by is None for one in node.operands):
        return "its inputs come out of a dict or list, through which torch does not see"
    return INTO_OBJECT if node.stored else None
