"""Assigns graph nodes to each call of the generated code.

Kernels name their nodes in a comment. The nodes of a library call or a C++ function
are known by provenance if torch tracked it; otherwise a library call is the next
node with its operator in the order of the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import (
    FinalKind,
    FinalNode,
    GraphOperator,
)
from fusiondoc.fusers.inductor.kinds import CallKind
from fusiondoc.fusers.inductor.targets import moves_nothing, operator_name
from fusiondoc.parsers.inductor.generated_code import GeneratedModule
from fusiondoc.parsers.inductor.provenance import Provenance
from fusiondoc.parsers.inductor.repeated_kernels import RepeatedKernels

_OF_TARGET = {"aten.randint.low_out": "inductor_seeds"}
"""Target of a call -> the operator that it implements, if the names differ."""


def called_name(target: str) -> str:
    """Return ``mm`` for ``extern_kernels.mm`` and ``aten.mm.default``; ``_fft_r2c``
    for ``aten._fft_r2c.default``."""
    if target in _OF_TARGET:
        return _OF_TARGET[target]
    parts = target.split(".")
    if len(parts) > 1:
        return parts[1]
    return parts[0]


class _Naming:
    """Finds the operators of calls in the order of the code."""

    def __init__(
        self, called: Sequence[FinalNode], operators: Sequence[GraphOperator]
    ) -> None:
        self._computed = set()
        for operator in operators:
            if operator.op == "call_function":
                self._computed.add(operator.name)
        self._in_kernels = set()
        for node in called:
            for name in node.operators:
                self._in_kernels.add(name)
        self._waiting: dict[str, list[str]] = defaultdict(list)
        """Name of an operator -> its nodes that are not assigned to a call yet."""
        for operator in operators:
            if operator.op == "call_function":
                self._waiting[called_name(operator.target)].append(operator.name)

    def of_function(self, tracked: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes of a C++ function, which only provenance names."""
        return tuple(name for name in tracked if name in self._computed)

    def of_library_call(
        self, target: str, tracked: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the node of a library call: the next node with this operator;
        nodes that provenance names, and then nodes that no kernel computes, are
        preferred."""
        waiting = self._waiting[called_name(target)]
        if not waiting:
            return self.of_function(tracked)[:1]

        def preference(name: str) -> tuple[bool, bool]:
            return name in tracked, name not in self._in_kernels

        name = max(waiting, key=preference)  # the first of equally good nodes
        waiting.remove(name)
        return (name,)


def with_operators(
    called: Sequence[FinalNode],
    module: GeneratedModule,
    operators: Sequence[GraphOperator],
    provenance: Provenance,
) -> list[FinalNode]:
    """Return the calls of a module with their graph nodes."""
    tracked = []
    for step in module.wrapper.steps:
        tracked.append(provenance.nodes.get(step.handle or "", ()))
    again = _called_before(called)
    made = _named_once(called, operators, tracked, again)
    if operators and again:
        _name_repeats(
            made, again, RepeatedKernels(operators, *_known(made, again)), tracked
        )
    unnamed = []
    for at, node in enumerate(made):
        if not (node.operators or node.kind is FinalKind.CALL):
            unnamed.append(at)
    if len(unnamed) == 1:  # torch names no nodes of a foreach kernel
        left = _left(operators, {name for node in made for name in node.operators})
        made[unnamed[0]] = replace(made[unnamed[0]], operators=left)
    return made


def _named_once(
    called: Sequence[FinalNode],
    operators: Sequence[GraphOperator],
    tracked: Sequence[Sequence[str]],
    again: Sequence[int],
) -> list[FinalNode]:
    """Return the calls with their nodes, except calls of kernels that are called
    again with other nodes."""
    naming = _Naming(called, operators)
    repeats = set(again)
    made = []
    for index, node in enumerate(called):
        if index in repeats or node.operators or node.call is CallKind.EAGER_SUM:
            made.append(node)
        elif node.kind is FinalKind.CALL:
            made.append(
                replace(
                    node,
                    operators=naming.of_library_call(
                        str(node.kernel), tracked[index]
                    ),
                )
            )
        else:
            made.append(replace(node, operators=naming.of_function(tracked[index])))
    return made


def _known(
    made: Sequence[FinalNode], again: Sequence[int]
) -> tuple[set[str], set[str]]:
    """Return the graph nodes that are assigned for certain: those of all calls, and
    those of library calls."""
    repeats = set(again)
    sure = [node for index, node in enumerate(made) if index not in repeats]
    of_libraries: set[str] = set()
    for node in sure:
        if node.kind is FinalKind.CALL:
            of_libraries.update(node.operators)
    return {name for node in sure for name in node.operators}, of_libraries


def _name_repeats(
    made: list[FinalNode],
    again: Sequence[int],
    repeats: RepeatedKernels,
    tracked: Sequence[Sequence[str]],
) -> None:
    for index in again:
        named = repeats.nodes_of(made[index].operators, tracked[index])
        made[index] = replace(made[index], operators=named)


def _left(operators: Sequence[GraphOperator], known: set[str]) -> tuple[str, ...]:
    """Return the nodes that compute something and are not assigned to a call."""
    names = []
    for one in operators:
        is_left = one.op == "call_function" and one.name not in known
        if is_left and not moves_nothing(operator_name(one.target)):
            names.append(one.name)
    return tuple(names)


def _called_before(called: Sequence[FinalNode]) -> list[int]:
    """Return the indexes of repeated calls of kernels whose operators the code
    names."""
    seen: set[str | None] = set()
    again = []
    for index, node in enumerate(called):
        if node.kind is not FinalKind.CALL and node.operators:
            if node.kernel in seen:
                again.append(index)
            seen.add(node.kernel)
    return again
