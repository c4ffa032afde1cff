"""Which node of the graph a call of a library is: by provenance where torch tracked it, else by what is
called, in the order of the graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import CallKind, FinalKind, FinalNode, GraphOperator
from fusiondoc.parsers.inductor.generated_code import GeneratedModule
from fusiondoc.parsers.inductor.provenance import Provenance

_OF_TARGET = {"aten.randint.low_out": "inductor_seeds"}
"""What is called -> the operator that it is for, where the names differ."""


def operator_name(target: str) -> str:
    """``mm`` of ``extern_kernels.mm``, ``aten.mm.default``; ``_fft_r2c`` of ``aten._fft_r2c.default``."""
    if target in _OF_TARGET:
        return _OF_TARGET[target]
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


class _Naming:
    """Names the operators of calls in the order of the code."""

    def __init__(self, called: Sequence[FinalNode], operators: Sequence[GraphOperator]) -> None:
        self._computed = {operator.name for operator in operators if operator.op == "call_function"}
        self._in_kernels = {name for node in called for name in node.operators}
        self._waiting: dict[str, list[str]] = defaultdict(list)
        """Name of an operator -> its nodes that no call is known of yet."""
        for operator in operators:
            if operator.op == "call_function":
                self._waiting[operator_name(operator.target)].append(operator.name)

    def of_function(self, tracked: Sequence[str]) -> tuple[str, ...]:
        """The nodes of a C++ function, which only provenance names."""
        return tuple(name for name in tracked if name in self._computed)

    def of_library_call(self, target: str, tracked: Sequence[str]) -> tuple[str, ...]:
        """The node that a library call is: the next of this operator, rather one that provenance names and
        no kernel computes."""
        waiting = self._waiting[operator_name(target)]
        if not waiting:
            return self.of_function(tracked)[:1]

        def preference(name: str) -> tuple[bool, bool]:
            return name in tracked, name not in self._in_kernels

        name = max(waiting, key=preference)  # the first of those that are equally good
        waiting.remove(name)
        return (name,)


def with_operators(
    called: Sequence[FinalNode],
    module: GeneratedModule,
    operators: Sequence[GraphOperator],
    provenance: Provenance,
) -> list[FinalNode]:
    """The calls of a module, library calls and C++ functions with the nodes that they are of."""
    naming = _Naming(called, operators)
    made = []
    for node, step in zip(called, module.wrapper.steps):
        tracked = provenance.nodes.get(step.handle or "", ())
        if node.operators or node.call is CallKind.EAGER_SUM:
            made.append(node)
        elif node.kind is FinalKind.CALL:
            made.append(replace(node, operators=naming.of_library_call(step.target, tracked)))
        else:
            made.append(replace(node, operators=naming.of_function(tracked)))
    return made
