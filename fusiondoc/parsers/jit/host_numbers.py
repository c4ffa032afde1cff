"""Tensors that are numbers for the host: traces compute sizes with them, and no fuser takes that alone.

``NumToTensor`` of a size begins such arithmetic, ``aten::Int`` ends it; in a training plan torch makes
differentiable graphs of it too, whose executors take integers without dimensions on the CPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Callable

from fusiondoc.parsers.ir.types import is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Node

_ONE_NUMBER = re.compile(r"\w+\((requires_grad=[01], )?device=cpu\)\Z")
"""The type of a tensor of one number on the CPU."""

_SIZE = re.compile(r"Long\((requires_grad=0, )?device=cpu\)\Z")
"""That of a size or an index."""


class HostNumbers:
    """Which values of a graph are such numbers, as far as its nodes were read."""

    def __init__(self, type_of: Callable[[str], str]) -> None:
        self._type_of = type_of
        self._names: set[str] = set()
        self._constants: set[str] = set()

    def parameter(self, name: str, text: str) -> None:
        """An input of the graph."""
        if _SIZE.match(text):
            self._names.add(name)

    def made(self, node: Node) -> None:
        """A node that is no operator."""
        constant = node.kind == "prim::Constant"
        if node.kind == "prim::NumToTensor" or (
            constant and any(_ONE_NUMBER.match(value.type) for value in node.outputs)
        ):
            self._names.update(value.name for value in node.outputs)
        elif constant and node.attributes.get("value", "").startswith("{"):
            # A tensor of one number, of which the executor's plan does not tell where it is.
            self._constants.update(value.name for value in node.outputs)

    def handed_on(self, node: Node) -> None:
        """A guard or profile node: each output is the input at its place."""
        for name, value in zip(node.inputs, node.outputs):
            self.alias(value.name, name)

    def alias(self, name: str, other: str) -> None:
        """``name`` is ``other``."""
        if other in self._names:
            self._names.add(name)

    def computes(self, node: Node) -> bool:
        """Whether a node computes with such numbers alone: then its results are some, too."""
        tensors = {name for name in node.inputs if is_tensor(self._type_of(name))}
        if not self._names.intersection(tensors) or not tensors <= self._names | self._constants:
            return False
        self._names.update(value.name for value in node.outputs)
        return True
