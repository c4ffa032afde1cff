"""Tensors that one compiled graph returns and another takes, as across a graph
break, where no pass of the compiler sees both graphs. They are recognised by their
memory, in the first calls of ``CompiledFxGraph`` (torch/_inductor/output_code.py,
2.6 to 2.13).
"""

from __future__ import annotations

from typing import Any, Iterator

from .inductor_facts import or_none
from .log_and_records import Records

OUTPUT_CODE = "torch._inductor.output_code"
_NAME = "_fusiondoc_graph"
"""The attribute in which a lowering, and the code compiled from it, keep their
graph."""
_MOST_CALLS = 200
"""Most calls of compiled graphs that are examined."""
_MOST_TENSORS = 4_000


class _Named:
    """A graph, with the names of its inputs and results."""

    def __init__(self, compile_id: str | None, order: int, lowering: Any) -> None:
        self.compile_id = compile_id
        self.order = order
        self.inputs = list(getattr(lowering, "graph_input_names", None) or ())
        outputs = getattr(lowering, "graph_outputs", None) or ()
        self.outputs = [
            or_none(lambda one=one: str(one.get_name())) for one in outputs
        ]


class Crossings:
    """Writes a record of each such tensor, once."""

    def __init__(self, torch: Any, records: Records) -> None:
        self._torch = torch
        self._records = records
        self._calls = 0
        self._made: dict[int, tuple[Any, _Named, str]] = {}
        """Address of memory -> a reference that shows whether the memory is still
        in use, its graph, the name of the result."""
        self._seen: set[tuple[Any, ...]] = set()

    def name(self, lowering: Any, compile_id: str | None, order: int) -> None:
        """A forward graph was generated: give its lowering a name."""
        setattr(lowering, _NAME, _Named(compile_id, order, lowering))

    def compiled(self, made: Any, values: tuple[Any, ...]) -> None:
        """A lowering was compiled: if it is among the values, name the compiled
        object."""
        for value in values:
            named = getattr(value, _NAME, None)
            if named is not None:
                setattr(made, _NAME, named)

    def graph_of(self, compiled: Any) -> _Named | None:
        """The graph of an examined call; None for others."""
        named: _Named | None = getattr(compiled, _NAME, None)
        if named is not None and self._calls < _MOST_CALLS:
            return named
        return None

    def take(self, graph: _Named, inputs: Any) -> None:
        """A graph is called: record those inputs that other graphs returned."""
        self._calls += 1
        for address, _, name in self._tensors(inputs, graph.inputs):
            known = self._made.get(address)
            if known is None or known[0].expired() or known[1] is graph:
                continue
            _, source, result = known
            key = (
                source.compile_id,
                source.order,
                result,
                graph.compile_id,
                graph.order,
                name,
            )
            if key not in self._seen:
                self._seen.add(key)
                names = (
                    "from_id",
                    "from_order",
                    "result",
                    "to_id",
                    "to_order",
                    "input",
                )
                self._records.write("inductor_crossing", **dict(zip(names, key)))

    def give(self, graph: _Named, outputs: Any) -> None:
        """A call of a graph has ended: remember its results."""
        if len(self._made) > _MOST_TENSORS:
            self._made.clear()
        for address, reference, name in self._tensors(outputs, graph.outputs):
            self._made[address] = (reference, graph, name)

    def _tensors(
        self, values: Any, names: list[str | None]
    ) -> Iterator[tuple[int, Any, str]]:
        from torch.multiprocessing.reductions import (
            StorageWeakRef,
        )  # here: it is no import for each run

        for value, name in zip(
            values if isinstance(values, (list, tuple)) else (), names
        ):
            if name is not None and isinstance(value, self._torch.Tensor):
                storage = value.untyped_storage()
                if storage.data_ptr():
                    reference: Any = StorageWeakRef(storage)
                    yield storage.data_ptr(), reference, name
