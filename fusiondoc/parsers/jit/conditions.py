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
"""Counts the rounds of a loop that torch unrolls."""
_DEEPEST = 6
"""Nodes in a row that a condition is traced back through."""
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
    """The value of a constant as printed; None for another node."""
    if node.kind != "prim::Constant":
        return None
    value = node.attribute("value")
    return "None" if value is None else value


def condition_of(node: Node, makers: Makers) -> Condition:
    """The condition of a prim::If or prim::Loop."""
    if node.kind == "prim::Loop":
        return _of_loop(node, makers)
    return _cause(node.inputs[0], makers, _DEEPEST) if node.inputs else _UNKNOWN


def _of_loop(node: Node, makers: Makers) -> Condition:
    """Which of the two loops that torch makes of one it is: that of the steps it
    has unrolled, or the rest (unroll in torch/csrc/jit/passes/loop_unrolling.cpp).
    A counted loop has more than 32 nodes (kMaxBodySize of that file, 1.12 to
    2.13)."""
    trips = makers.get(node.inputs[0]) if node.inputs else None
    steps = _steps_of_rounds(trips)
    if steps is not None:
        return Condition("unrolled_loop", steps=_constant(steps, makers))
    if trips is not None and trips.kind == "aten::sub" and len(trips.inputs) == 2:
        done = makers.get(trips.inputs[1])
        rounds = (
            makers.get(done.inputs[0])
            if done is not None and done.kind == "aten::mul"
            else None
        )
        steps = _steps_of_rounds(rounds)
        if steps is not None:
            return Condition("remainder_of_loop", steps=_constant(steps, makers))
    return Condition("counted_loop" if _goes_on_always(node, makers) else "loop")


def _steps_of_rounds(node: Node | None) -> str | None:
    """Name of the steps in a round, where the node counts the rounds of an unrolled
    loop."""
    if node is None or node.kind != _ROUNDS or len(node.inputs) != 2:
        return None
    return node.inputs[1]


def _goes_on_always(loop: Node, makers: Makers) -> bool:
    """Whether the number of rounds alone ends a loop: it goes on before the first
    and after each."""
    if len(loop.inputs) < 2 or not loop.blocks or not loop.blocks[0].outputs:
        return False
    tests = (loop.inputs[1], loop.blocks[0].outputs[0])
    return all(_constant(test, makers) in ("1", "True") for test in tests)


def _constant(name: str, makers: Makers) -> str | None:
    node = makers.get(name)
    return constant_of(node) if node is not None else None


_HARDEST = (
    Condition("tensor_value"),
    Condition("shape_or_type"),
    Condition("training"),
    Condition("argument"),
    Condition("test_for_none"),
)
"""Of a condition of several parts, what is hardest to make a constant: with another
part alone the branch stays."""


def _cause(name: str, makers: Makers, depth: int) -> Condition:
    """The condition that a value is.

    Args:
        depth: nodes in a row that may be traced back through.
    """
    found = dict.fromkeys(_causes(name, makers, depth))
    for condition in _HARDEST:
        if condition in found:
            return condition
    first = next(iter(found), _UNKNOWN)
    # Of several attributes one alone is no constant that takes the branch away.
    return first if len(found) < 2 else Condition(first.on, first.attribute)


def _causes(name: str, makers: Makers, depth: int) -> Iterator[Condition]:
    """What a value is made of, as far as it decides; of ``a or b`` both, whose
    second is in a branch."""
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
