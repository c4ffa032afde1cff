"""What AOTAutograd made of the functions of a run, and of modules that come to it
by themselves.

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
    """Such as ``float32[8,128]``; None for what is no tensor."""
    bytes: int | None
    inputs: tuple[str, ...]
    group: str | None
    """Id of the TorchScript fusion group that it is in."""
    reason: str | None
    """Code of the reason why it is in none."""


@dataclass(frozen=True)
class AotGraph:
    """A graph in the order of its operators."""

    phase: str
    """"joint", "forward" or "backward"."""
    source: str | None
    """The name that TorchScript has for its code, such as ``<eval_with_key>.7``;
    None if it was never scripted."""
    operators: int
    """Without inputs, and without taking results of an operator apart."""
    fused: int
    """Operators in TorchScript fusion groups."""
    groups: tuple[str, ...]
    """Ids of these groups."""
    nodes: tuple[AotNode, ...]
    cut: int = 0
    """Nodes that were left out because there are too many."""


@dataclass(frozen=True)
class AotValue:
    """A tensor that the forward graph keeps for the backward graph, or that both
    compute."""

    name: str
    op: str | None
    """None for an input."""
    user_source: str | None
    type: str | None
    bytes: int | None
    """Its own; 0 for a view of what is kept or was given anyway."""


@dataclass(frozen=True)
class Partition:
    """How a joint graph is divided into forward and backward."""

    name: str
    """The partition function."""
    saved: tuple[AotValue, ...]
    """Computed in the forward graph and kept until the backward graph has run."""
    saved_bytes: int
    saved_inputs: tuple[AotValue, ...]
    """Inputs that the backward graph reads: they are not written again."""
    recomputed: tuple[AotValue, ...]
    """Computed in the forward graph and once more in the backward graph."""
    recomputed_bytes: int
    """Bytes of their results: what keeping them would take."""


@dataclass(frozen=True)
class AotFunction:
    """A place of the program that hands functions to AOTAutograd. Graphs and
    partitions are those of its first compilation with a gradient, else of its first
    one."""

    id: str
    name: str
    how: str
    """What was called: ``memory_efficient_fusion``, ``aot_function``,
    ``torch.compile`` ..."""
    user_source: str | None
    """Where."""
    wraps: int | None
    """How often; None where the run did not come to its end."""
    calls: int | None
    """Of what that returned; None where it is not counted (torch.compile)."""
    compiles: int
    shapes: tuple[str, ...]
    """The arguments of its calls, each once."""
    graphs: tuple[AotGraph, ...]
    partition: Partition | None
    """None where no gradient was needed."""
    default: Partition | None
    """What torch's default partition of the same joint graph saves; None where that
    could not be tried."""
    changed: tuple[str, ...]
    """Arguments that it changes in place."""
    shared: tuple[str, ...]
    """Arguments and results that share memory."""
    fixed_sizes: tuple[str, ...]
    """Nodes with sizes of the first call's arguments written into them."""
    failure: str | None
    """The first error of compiling it."""
    processes: int = 1
    """Processes of the program that used it; wraps, calls and compilations are
    those of one of them."""

    def graph(self, phase: str) -> AotGraph | None:
        """Its graph of a phase."""
        return next((graph for graph in self.graphs if graph.phase == phase), None)


@dataclass(frozen=True)
class FusedModules:
    """The modules of one class that fuse themselves (xFormers' ``NVFused...``), and
    what they did."""

    kind: str
    """The class."""
    layers: tuple[str, ...]
    """Their module paths, as far as they are known."""
    calls: int
    fused: int
    """Calls that went to AOTAutograd."""
    wraps: int
    """Calls of memory_efficient_fusion in them."""
    eager: tuple[str, ...]
    """Why the others did not, each once."""

    def joined(self, other: FusedModules) -> FusedModules:
        """With what modules of the class did in another process."""
        return FusedModules(
            self.kind,
            tuple(dict.fromkeys(self.layers + other.layers)),
            self.calls + other.calls,
            self.fused + other.fused,
            self.wraps + other.wraps,
            tuple(dict.fromkeys(self.eager + other.eager)),
        )
