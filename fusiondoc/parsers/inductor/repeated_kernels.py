"""Finds the graph nodes that a kernel computes when it is called again.

The code names only the nodes of its first call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.fusers.inductor.compilation import GraphOperator
from fusiondoc.fusers.inductor.targets import operator_name
from fusiondoc.operators import VIEWS


class RepeatedKernels:
    """Finds the nodes of repeated calls of a kernel, call by call in the order of
    the code.

    Args: operators: the nodes of the graph, in its order. known: names of the nodes
    that other calls certainly compute. of_libraries: those of them that library
    calls compute: comments of kernels also name these.
    """

    def __init__(
        self,
        operators: Sequence[GraphOperator],
        known: AbstractSet[str],
        of_libraries: AbstractSet[str],
    ) -> None:
        self._by_name = {}
        for one in operators:
            if one.op == "call_function":
                self._by_name[one.name] = one
        self._of_libraries = of_libraries
        self._order = {name: at for at, name in enumerate(self._by_name)}
        self._free: dict[tuple[str, str, int], dict[str, None]] = {}
        """``_alike`` -> nodes that are not assigned to a call, in the order of the
        graph."""
        for name in self._by_name:
            if name not in known:
                self._free.setdefault(self._alike(name), {})[name] = None

    def nodes_of(
        self, first: Sequence[str], tracked: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the nodes of a later call.

        Args:
            first: the nodes of the first call.
            tracked: the nodes that provenance names, which may belong to another
                graph.
        """
        names = []
        for name in first:
            if name in self._by_name and name not in self._of_libraries:
                names.append(name)
        found = self._like(names, tracked) or self._next(names)
        for name in found:
            self._free.get(self._alike(name), {}).pop(name, None)
        return found

    def _like(
        self, first: Sequence[str], tracked: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the tracked nodes, if they have the same number of each operator;
        else ()."""
        known = []
        for name in tracked:
            if name in self._by_name and name not in self._of_libraries:
                known.append(name)
        if self._targets(known) == self._targets(first):
            return tuple(known)
        return ()

    def _targets(self, names: Sequence[str]) -> Counter[str]:
        return Counter(self._by_name[name].target for name in names)

    def _next(self, first: Sequence[str]) -> tuple[str, ...]:
        """Return the next unassigned nodes with the same operators, sizes and
        connections."""
        twins: dict[str, str] = {}
        first = [name for name in first if not _is_view(self._by_name[name])]
        nodes = frozenset(first)
        for result in sorted(first, key=self._order.__getitem__, reverse=True):
            if result in twins:
                continue
            free = self._free.get(self._alike(result), {})
            found = (self._twins(result, other, nodes, twins) for other in free)
            more = next((one for one in found if one), None)
            if more is None:
                return ()
            twins.update(more)
        return tuple(twins[name] for name in first)

    def _twins(
        self,
        result: str,
        other: str,
        nodes: AbstractSet[str],
        known: Mapping[str, str],
    ) -> dict[str, str]:
        """Return the twin of each node from which a result is computed, if another
        result is computed in the same way; else {}. Several kernels may compute the
        same intermediate nodes."""
        taken, found = set(known.values()), dict[str, str]()
        waiting = [(result, other)]
        while waiting:
            mine, its = waiting.pop()
            expected = found.get(mine, known.get(mine))
            if mine not in nodes or expected == its:
                continue
            if (
                expected is not None
                or its in taken
                or not self._are_alike(mine, its)
            ):
                return {}
            found[mine] = its
            taken.add(its)
            waiting += zip(self._inputs(mine), self._inputs(its))
        return found

    def _inputs(self, name: str) -> list[str]:
        """Return the inputs of a node; a view is replaced by the node that it
        views."""
        return [self._seen(read) for read in self._by_name[name].inputs]

    def _seen(self, name: str) -> str:
        """Return the node that a view views; any other node itself."""
        met = set()  # in a damaged log names can form a cycle
        while (
            name not in met
            and name in self._by_name
            and _is_view(self._by_name[name])
        ):
            met.add(name)
            name = next(iter(self._by_name[name].inputs), name)
        return name

    def _alike(self, name: str) -> tuple[str, str, int]:
        """Return operator, size and number of inputs of a node; strides may
        differ."""
        node = self._by_name[name]
        return node.target, (node.type or "").partition("]")[0], len(node.inputs)

    def _are_alike(self, name: str, other: str) -> bool:
        return other in self._by_name and self._alike(name) == self._alike(other)


def _is_view(operator: GraphOperator) -> bool:
    """True for ``aten.reshape.default`` and others that compute nothing."""
    return operator_name(operator.target) in VIEWS
