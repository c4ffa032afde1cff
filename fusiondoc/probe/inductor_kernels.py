"""The kernels that Inductor generates for a graph, and the nodes of the scheduler
in each."""

from __future__ import annotations

from typing import Any, Iterable


class Kernels:
    """Kernels seen by one hook, in the order of their first call."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._kernel_of: dict[str, str] = {}
        """Name of a scheduler's node -> the first kernel that contains it."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, schedule: Any, name: str) -> None:
        """Record a kernel with the nodes that it computes."""
        if not isinstance(schedule, (list, tuple)):
            return  # a call of a library, which is no generated kernel
        self._calls[name] = self._calls.get(name, 0) + 1
        for node in schedule:
            if not hasattr(node, "get_nodes"):
                continue  # a mark for loops of a reduction
            for (
                member
            ) in node.get_nodes():  # a part of a foreach kernel may be a fused node
                self._kernel_of.setdefault(str(member.get_name()), name)

    def first_with(self, members: Iterable[str]) -> str | None:
        """The kernel of the first of some nodes that is in a kernel."""
        for name in members:
            if name in self._kernel_of:
                return self._kernel_of[name]
        return None

    def records(self) -> list[dict[str, Any]]:
        """Name and number of calls of each kernel."""
        records = []
        for name, calls in self._calls.items():
            records.append({"name": name, "calls": calls})
        return records
