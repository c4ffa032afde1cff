"""The condition of a branch or loop, traced back through the nodes that compute
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fusiondoc.model.reasons import Condition

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Node

Makers = Mapping[str, "Node"]
"""Name of a value -> the node that makes it."""

_UNKNOWN = Condition("unknown")
_ROUNDS = "aten::__round_to_zero_floordiv"
"""Computes the number of rounds of a loop that torch unrolls."""
_DEEPEST = 6
"""Length of the chain of nodes through which a condition is traced back."""
_KINDS = {
    "aten::__is__": Condition("test_for_none"),
    "aten::__isnot__": Condition("test_for_none"),
    "aten::Bool": Condition("tensor_value"),
    "aten::item": Condition("tensor_value"),
    "aten::is_nonzero": Condition("tensor_value"),
    "prim::TensorToBool": Condition("tensor_value"),
    "aten::IntImplicit": Condition("tensor_value"),
    "aten::dim": Condition("shape_or_type"),
    "aten::size": Condition("shape_or_type"),
    "aten::len": Condition("shape_or_type"),
    "aten::numel": Condition("shape_or_type"),
    "prim::layout": Condition("shape_or_type"),
    "prim::dtype": Condition("shape_or_type"),
}
"""Kind of a node -> the condition that it computes."""


def constant_of(node: Node) -> str | None:
    """Return the value of a constant as printed; None for another node."""
    if node.kind != "prim::Constant":
        return None
    value = node.attribute("value")
    if value is None:
        return "None"
    return value


def condition_of(node: Node, makers: Makers) -> Condition:
    """Return the condition of a prim::If or prim::Loop."""
    if node.kind == "prim::Loop":
        return _of_loop(node, makers)
    if node.inputs:
        return _cause(node.inputs[0], makers, _DEEPEST)
    return _UNKNOWN


def _of_loop(node: Node, makers: Makers) -> Condition:
    """Return the condition of a loop. torch makes two loops of one: the loop over
    the unrolled steps, and the remainder (unroll in
    torch/csrc/jit/passes/loop_unrolling.cpp). A counted loop that is not unrolled
    has more than 32 nodes (kMaxBodySize of that file, 1.12 to 2.13)."""
    trips = makers.get(node.inputs[0]) if node.inputs else None
    steps = _steps_of_rounds(trips)
    if steps is not None:
        return Condition("unrolled_loop", steps=_constant(steps, makers))
    if trips is not None and trips.kind == "aten::sub" and len(trips.inputs) == 2:
        done = makers.get(trips.inputs[1])
        rounds = None
        if done is not None and done.kind == "aten::mul":
            rounds = makers.get(done.inputs[0])
        steps = _steps_of_rounds(rounds)
        if steps is not None:
            return Condition("remainder_of_loop", steps=_constant(steps, makers))
    return Condition("counted_loop" if _goes_on_always(node, makers) else "loop")


def _steps_of_rounds(node: Node | None) -> str | None:
    """Return the name of the number of steps per round, if the node computes the
    rounds of an unrolled loop; None for others."""
    if node is None or node.kind != _ROUNDS or len(node.inputs) != 2:
        return None
    return node.inputs[1]


def _goes_on_always(loop: Node, makers: Makers) -> bool:
    """True if only the number of rounds ends a loop: its condition is constant true
    before the first round and after each."""
    if len(loop.inputs) < 2 or not loop.blocks or not loop.blocks[0].outputs:
        return False
    tests = (loop.inputs[1], loop.blocks[0].outputs[0])
    return all(_constant(test, makers) in ("1", "True") for test in tests)


def _constant(name: str, makers: Makers) -> str | None:
    node = makers.get(name)
    if node is None:
        return None
    return constant_of(node)


_HARDEST = (
    Condition("tensor_value"),
    Condition("shape_or_type"),
    Condition("training"),
    Condition("argument"),
    Condition("test_for_none"),
)
"""Conditions, the one that is hardest to make constant first. It represents a
condition with several parts: if only another part becomes constant, the branch
stays."""


def _cause(name: str, makers: Makers, depth: int) -> Condition:
    """Return the condition that a value represents.

    Args:
        depth: number of nodes in a row that may be traced back through.
    """
    found = dict.fromkeys(_causes(name, makers, depth))
    for condition in _HARDEST:
        if condition in found:
            return condition
    first = next(iter(found), _UNKNOWN)
    # If the condition has several attributes, making one of them constant does not
    # remove the branch.
    if len(found) < 2:
        return first
    return Condition(first.on, first.attribute)


def _causes(name: str, makers: Makers, depth: int) -> Iterator[Condition]:
    """Yield the conditions from which a value is computed. For ``a or b`` these are
    both, although the second is in a branch."""
    node = makers.get(name)
    if node is None:
        yield Condition("argument")
    elif node.kind == "prim::GetAttr":
        yield _of_attribute(node)
    elif node.kind in _KINDS:
        yield _KINDS[node.kind]
    elif depth:
        outputs = (output for block in node.blocks for output in block.outputs)
        for read in (*node.inputs, *(outputs if node.kind == "prim::If" else ())):
            if read not in makers or makers[read].kind != "prim::Constant":
                yield from _causes(read, makers, depth - 1)


def _of_attribute(node: Node) -> Condition:
    attribute = node.attributes.get("name", "").strip('"')
    if attribute == "training":
        return Condition("training")
    type_ = node.outputs[0].type.partition("<")[0] if node.outputs else "bool"
    return Condition("attribute", attribute, type_)
