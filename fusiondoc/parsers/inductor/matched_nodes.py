"""Matches the scheduler's final nodes to the calls of the generated code.

The code does not name scheduler nodes. A kernel belongs to the node with the same
operators; if several nodes have the same (two stages of a reduction), the numbers
of the buffers that it writes decide (``op3`` makes ``buf3`` unless numbers were
shifted), then the order. A C++ function contains several nodes: nodes that write
its buffers, and nodes that change arguments in place, at their position in the
scheduler's order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import Access, FinalKind, FinalNode
from fusiondoc.fusers.inductor.kinds import CallKind
from fusiondoc.numbers import whole_numbers
from fusiondoc.parsers.inductor.called_nodes import CalledNodes, NestTraffic
from fusiondoc.parsers.inductor.cpp_loops import nests_of_nodes, nests_without_node

_NUMBER = re.compile(r"(?:op|buf)(\d+)$")
_LEAST_ALIKE = 0.34
"""Smallest ratio of common operators to all operators of a kernel and a node for
which they may match."""


def matched(
    decided: Sequence[FinalNode],
    called: CalledNodes,
    functions: Set[str],
    elements: Mapping[str, str],
) -> tuple[FinalNode, ...]:
    """Return the scheduler's final nodes with the facts from the code about each,
    in the order of the code.

    Args:
        decided: final nodes of the scheduler.
        called: calls of the code.
        functions: names of C++ functions, each of which may contain several nodes.
        elements: buffer -> the tuple of results of a call of which it is a part.
    """
    matching = _Matching(decided, called, elements)
    for index, call in enumerate(called.nodes):
        if call.kernel not in functions:
            matching.take(index)
    matching.take_the_rest(functions)
    if functions:
        matching.take_functions(functions)
    return matching.nodes()


class _Matching:
    def __init__(
        self,
        decided: Sequence[FinalNode],
        called: CalledNodes,
        elements: Mapping[str, str],
    ) -> None:
        self._called = called.nodes
        self._nests = called.nests
        self._names_before = called.names_before
        self._elements = elements
        parts = _numbers(list(elements))
        calls = [node for node in decided if node.kind is FinalKind.CALL]
        self._parts = [node for node in calls if parts & _numbers(node.members)]
        """Nodes that only take a result out of a tuple."""
        self._left = [node for node in decided if node not in self._parts]
        self._of_call: dict[int, list[FinalNode]] = {}

    def take(self, index: int) -> None:
        """Find the node of a call that contains one node."""
        call = self._called[index]
        written = self._numbers_written(call)
        found = max(
            self._left,
            key=lambda node: _likeness(node, call, written),
            default=None,
        )
        if found is not None and _likeness(found, call, written) > _NOT_ALIKE:
            self._left.remove(found)
            self._of_call[index] = [found]

    def _numbers_written(self, call: FinalNode) -> set[int]:
        """Return the numbers of the buffers that a call makes; for a part of a
        tuple, the number of the tuple."""
        names = [access.buffer for access in call.writes]
        return _numbers([self._elements.get(name, name) for name in names])

    def take_the_rest(self, functions: Set[str]) -> None:
        """Match the remaining kernels to the remaining nodes in order, if there are
        as many: the code names the operators only for a kernel's first call, and a
        kernel that changes arguments makes no buffer."""
        left = []
        for index, call in enumerate(self._called):
            if (
                index not in self._of_call
                and call.kind is not FinalKind.CALL
                and call.kernel not in functions
            ):
                left.append(index)
        nodes = sorted(self._left_loops(), key=_first_number)
        if len(left) == len(nodes) and not functions:
            for index, node in zip(left, nodes):
                self._put(node, index)

    def take_functions(self, functions: Set[str]) -> None:
        """Assign the remaining nodes to the functions: by the buffers that each
        writes, else in the scheduler's order."""
        at_functions = []
        for index, call in enumerate(self._called):
            if call.kernel in functions:
                at_functions.append(index)
        self._take_writers(at_functions)
        self._take_in_order(at_functions)

    def _take_writers(self, at_functions: Sequence[int]) -> None:
        """Assign each node to the function that writes most of its buffers, else to
        a function that made them."""
        written = {index: _written(self._called[index]) for index in at_functions}
        before = {}
        for index in at_functions:
            before[index] = _numbers(sorted(self._names_before[index]))
        for made in (written, before):
            for node in self._left_loops():
                numbers = _numbers(node.members)
                at = max(
                    at_functions,
                    key=lambda index: len(numbers & made[index]),
                    default=None,
                )
                if at is not None and numbers & made[at]:
                    self._put(node, at)

    def _take_in_order(self, at_functions: Sequence[int]) -> None:
        for node in self._left_loops():
            at = self._next_function(
                _first_number(node), self._with_nests_left(at_functions)
            )
            if at is not None:
                self._put(node, at)

    def _with_nests_left(self, at_functions: Sequence[int]) -> Sequence[int]:
        """Return the functions that have loop nests without a node, else those with
        more nests than nodes, else all. In truncated code any number is
        possible."""
        without, more = [], []
        for index in at_functions:
            nests = [_numbers(nest.writes) for nest in self._nests.get(index, ())]
            nodes = []
            for node in _computing(self._of_call.get(index, ())):
                nodes.append(_numbers(node.members))
            if not nests or nests_without_node(nests, nodes) > 0:
                without.append(index)
            if len(nests) > len(nodes):
                more.append(index)
        return without or more or at_functions

    def _left_loops(self) -> list[FinalNode]:
        return [node for node in self._left if node.kind is not FinalKind.CALL]

    def _put(self, node: FinalNode, index: int) -> None:
        self._left.remove(node)
        self._of_call.setdefault(index, []).append(node)

    def _next_function(
        self, number: int, at_functions: Sequence[int]
    ) -> int | None:
        """Return the function that contains a node with that first number: the
        function of the previous node in the scheduler's order, or, if that is a
        call, the function after the call."""
        before = (-1, -1)
        for index, nodes in self._of_call.items():
            for node in nodes:
                if _first_number(node) <= number:
                    before = max(before, (_first_number(node), index))
        following = (index for index in at_functions if index >= before[1])
        return next(following, at_functions[-1] if at_functions else None)

    def nodes(self) -> tuple[FinalNode, ...]:
        """Return all nodes: those of calls in the order of the code, then those
        without a call."""
        made: list[FinalNode] = []
        for index, call in enumerate(self._called):
            nodes = self._of_call.get(index, [])
            if len(nodes) == 1:
                made.append(_with_call(nodes[0], call))
            elif nodes:
                made += _in_function(
                    _computing(nodes), call, self._nests.get(index, [])
                )
                made += [node for node in nodes if node.kind is FinalKind.NOTHING]
            else:
                made.append(call)
        made += [replace(node, kind=FinalKind.NOTHING) for node in self._parts]
        return tuple(made + self._left)


_NOT_ALIKE = (0.0, 0)


def _likeness(
    node: FinalNode, call: FinalNode, written: set[int]
) -> tuple[float, int]:
    """Return how similar a call is to a node: share of equal operators, number of
    equal buffers."""
    buffers = len(_numbers(node.members) & written)
    if call.call is CallKind.EAGER_SUM:
        if buffers and len(node.members) == 1:
            return 1.0, buffers
        return _NOT_ALIKE
    if call.kind is FinalKind.CALL:
        return _likeness_of_call(node, buffers)
    if node.kind in (FinalKind.CALL, FinalKind.OTHER, FinalKind.NOTHING):
        return _NOT_ALIKE
    return _likeness_of_kernel(set(node.operators), set(call.operators), buffers)


def _likeness_of_call(node: FinalNode, buffers: int) -> tuple[float, int]:
    """Return the likeness of a library call to a node: a call of the scheduler, or
    a template for which autotuning chose the library."""
    if node.kind in (FinalKind.CALL, FinalKind.OTHER):
        return (0.5, buffers)
    may_be_template = node.kind is FinalKind.LOOPS and len(node.members) == 1
    if may_be_template and buffers:
        return 0.1, buffers
    return _NOT_ALIKE


def _likeness_of_kernel(
    mine: set[str], its: set[str], buffers: int
) -> tuple[float, int]:
    share = len(mine & its) / len(mine | its) if its else 0.2
    if buffers or (its and share >= _LEAST_ALIKE):
        return (share, buffers)
    return _NOT_ALIKE


def _numbers(names: Sequence[str]) -> set[int]:
    """Return the numbers of names such as ``op3`` and ``buf3``."""
    found = (_NUMBER.match(name) for name in names)
    return set(whole_numbers(one.group(1) for one in found if one is not None))


def _written(call: FinalNode) -> set[int]:
    return _numbers([access.buffer for access in call.writes])


def _computing(nodes: Sequence[FinalNode]) -> list[FinalNode]:
    return [node for node in nodes if node.kind is not FinalKind.NOTHING]


def _first_number(node: FinalNode) -> int:
    return min(_numbers(node.members), default=-1)


def _with_call(node: FinalNode, call: FinalNode) -> FinalNode:
    """Return a node with the facts from its call."""
    is_call = call.kind is FinalKind.CALL
    if node.kind is not FinalKind.LOOPS or not is_call:
        kind = node.kind
    else:
        kind = FinalKind.CALL
    if call.kind in (FinalKind.TEMPLATE, FinalKind.FOREACH, FinalKind.MIXED_ORDER):
        kind = call.kind
    return replace(
        node,
        kind=kind,
        operators=tuple(dict.fromkeys(call.operators + node.operators)),
        reads=node.reads or call.reads,
        writes=node.writes or call.writes,
        read_bytes=call.read_bytes if not node.reads else None,
        write_bytes=call.write_bytes if not node.writes else None,
        kernel=call.kernel,
        call=call.call,
        lines=node.lines + call.lines,
    )


def _in_function(
    nodes: Sequence[FinalNode], call: FinalNode, nests: Sequence[NestTraffic]
) -> list[FinalNode]:
    """Return the nodes of a function that contains several, in the order of their
    loop nests, with their traffic."""
    shares = nests_of_nodes(
        [_numbers(nest.writes) for nest in nests],
        [_numbers(node.members) for node in nodes],
    )
    in_order = sorted(
        range(len(nodes)), key=lambda index: shares[index][:1] or [len(nests)]
    )
    held = {access.buffer for access in call.reads}
    """Buffers in memory before the function, or written by an earlier node in
    it."""
    made = []
    for index in in_order:
        known = replace(
            nodes[index], kernel=call.kernel, lines=nodes[index].lines + call.lines
        )
        known, writes = _with_traffic(
            known, [nests[at] for at in shares[index]], held
        )
        made.append(known)
        held |= writes
    return made


def _with_traffic(
    node: FinalNode, nests: Sequence[NestTraffic], held: Set[str]
) -> tuple[FinalNode, set[str]]:
    """Return a node with the reads and writes of its loop nests, unless they are
    known, and the buffers that the nests write. A buffer that the node writes
    itself counts as read only if it was in ``held``."""
    writes: dict[str, None] = {}
    for nest in nests:
        for name in nest.writes:
            writes[name] = None
    reads: dict[str, None] = {}
    for nest in nests:
        for name in nest.reads:
            reads[name] = None
    before = [name for name in reads if name not in writes or name in held]
    node = replace(
        node,
        reads=node.reads or tuple(map(Access, before)),
        writes=node.writes or tuple(map(Access, writes)),
    )
    return node, set(writes)
