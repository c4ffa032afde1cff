"""AOTAutograd in a run: the graphs and partitions of the functions that it
compiled, and the modules that call it by themselves.

A tensor is counted once: a view of an input or of another saved tensor needs no
memory of its own.
"""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class AotNode:
    """A node of a graph. ``inputs``: names of the nodes that it reads."""

    name: str
    op: str | None
    """None for inputs of the graph."""
    user_source: str | None
    type: str | None
    """Such as ``float32[8,128]``; None if the value is no tensor."""
    bytes: int | None
    inputs: tuple[str, ...]
    group: str | None
    """Id of the TorchScript fusion group that it is in."""
    reason: str | None
    """Code of the reason why it is in no fusion group."""


@dataclass(frozen=True)
class AotGraph:
    """A graph in the order of its operators."""

    phase: str
    """"joint", "forward" or "backward"."""
    source: str | None
    """The name that TorchScript has for its code, such as ``<eval_with_key>.7``;
    None if it was never scripted."""
    operators: int
    """Number of operators, without inputs and without nodes that unpack the results
    of an operator."""
    fused: int
    """Operators in TorchScript fusion groups."""
    groups: tuple[str, ...]
    """Ids of the TorchScript fusion groups that hold its operators."""
    nodes: tuple[AotNode, ...]
    cut: int = 0
    """Nodes that were left out because there are too many."""


@dataclass(frozen=True)
class AotValue:
    """A tensor that the forward graph keeps for the backward graph, or that both
    graphs compute."""

    name: str
    op: str | None
    """None for an input."""
    user_source: str | None
    type: str | None
    bytes: int | None
    """Bytes of its own memory; 0 for a view of an input or of another saved
    tensor."""


@dataclass(frozen=True)
class Partition:
    """The division of a joint graph into forward and backward."""

    name: str
    """The partition function."""
    saved: tuple[AotValue, ...]
    """Computed in the forward graph and kept until the backward graph has run."""
    saved_bytes: int
    saved_inputs: tuple[AotValue, ...]
    """Inputs that the backward graph reads; saving them takes no further memory."""
    recomputed: tuple[AotValue, ...]
    """Computed in the forward graph and once more in the backward graph."""
    recomputed_bytes: int
    """Bytes of the recomputed results: the memory that keeping them would take."""


@dataclass(frozen=True)
class AotFunction:
    """A call site of the program that passes functions to AOTAutograd. Graphs and
    partitions are those of its first compilation with a gradient, else of its first
    compilation."""

    id: str
    name: str
    how: str
    """The function that is called: ``memory_efficient_fusion``, ``aot_function``,
    ``torch.compile`` ..."""
    user_source: str | None
    """Position of that call in the user's program."""
    wraps: int | None
    """How often it wrapped a function; None if the run did not finish."""
    calls: int | None
    """Calls of the wrapped functions; None if they are not counted
    (torch.compile)."""
    compiles: int
    shapes: tuple[str, ...]
    """Types and sizes of the arguments of a call, each distinct text once."""
    graphs: tuple[AotGraph, ...]
    partition: Partition | None
    """None if no gradient was needed."""
    default: Partition | None
    """The partition of the same joint graph by torch's default partition function;
    None if that could not be tried."""
    changed: tuple[str, ...]
    """Arguments that it changes in place."""
    shared: tuple[str, ...]
    """Arguments and results that share memory."""
    fixed_sizes: tuple[str, ...]
    """Nodes in which the sizes of the first call's arguments are constants."""
    failure: str | None
    """The first error in compiling it."""
    processes: int = 1
    """Number of processes of the program that used it; wraps, calls and
    compilations are those of one process."""

    def graph(self, phase: str) -> AotGraph | None:
        """Return the graph of a phase; None if it has none."""
        return next((graph for graph in self.graphs if graph.phase == phase), None)


@dataclass(frozen=True)
class FusedModules:
    """The modules of one class that call AOTAutograd by themselves (xFormers'
    ``NVFused...``), with counts of their calls."""

    kind: str
    """Name of the class."""
    layers: tuple[str, ...]
    """Their module paths, as far as they are known."""
    calls: int
    fused: int
    """Number of calls that went to AOTAutograd."""
    wraps: int
    """Number of calls of memory_efficient_fusion in them."""
    eager: tuple[str, ...]
    """Why the other calls did not go to AOTAutograd, each reason once."""

    def joined(self, other: FusedModules) -> FusedModules:
        """Return the sum with the modules of the same class in another process."""
        return FusedModules(
            self.kind,
            tuple(dict.fromkeys(self.layers + other.layers)),
            self.calls + other.calls,
            self.fused + other.fused,
            self.wraps + other.wraps,
            tuple(dict.fromkeys(self.eager + other.eager)),
        )
