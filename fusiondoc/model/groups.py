"""Fusion groups of a report: operators, instances, segments (the parts that became
separate kernels)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.model.evidence import Evidence
from fusiondoc.model.group_runs import GroupRuntime, GuardMiss
from fusiondoc.model.runs import Time


@dataclass(frozen=True, slots=True)
class OpNode:
    """An operator: ``op`` as printed (``aten::add``), ``source`` as printed
    (``file:line:column``).

    ``user_source`` is the line of the user's program it comes from (``file:line``),
    if that is known.
    """

    op: str
    source: str | None
    user_source: str | None


class Wiring(NamedTuple):
    """The flow of tensors in a group; empty if its graph is not known."""

    takes: tuple[tuple[int, ...], ...] = ()
    """For each operator its inputs, also those in a list: an earlier operator of
    the group by its index, the n-th input of the group (from 0) by -1 - n."""
    makes: tuple[int, ...] = ()
    """For each output of the group the index of the operator that makes it."""


@dataclass(frozen=True)
class Segment:
    """A part of a group, which its fuser compiled to a separate kernel."""

    index: int
    """From 0, as the fuser numbers them; the order is not that of execution."""
    scheduler: str | None
    """The scheduler of the kernel: pointwise, reduction, persistent ..."""
    refused: tuple[tuple[str, str], ...]
    """(scheduler, why it cannot schedule this part), for the schedulers that were
    tried before."""
    ops: tuple[str, ...]
    """The operators in it, as far as the log shows them."""
    kernels: tuple[str, ...]
    """Ids of its kernels."""
    evidence: Sequence[Evidence] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """One fusion node of the run's plans."""

    layer: str | None
    """Its module path ("encoder.layer.0.output"; parsers/jit/layers.py); None if it
    is unknown."""
    kernels: tuple[str, ...]
    """Ids of the kernels that run it."""
    runs: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A fusion group: the common properties of one or more equal fusion nodes of
    the run's plans."""

    id: str
    kind: str
    """The kind of its node without ``prim::``, such as CudaFusionGroup; or
    "te.ops." followed by a class."""
    name: str
    """The name as first printed, such as ``prim::CudaFusionGroup_0``; not
    unique."""
    phase: str | None
    """"forward", "backward" or None if the log does not show it."""
    specialisation: int
    respecialises: str | None
    nodes: tuple[OpNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    runs: int | None
    kernels: tuple[str, ...]
    bytes_in: int | None
    """Bytes of the input tensors, each element once (an expanded dimension counts
    as one)."""
    bytes_out: int | None
    fallback: bool
    rank: int | None
    evidence: Sequence[Evidence] = ()
    """The lines where a plan that holds this group was printed."""
    iteration: int | None = None  # ``diagnose`` pass, from 1, in which it appeared
    runtimes: tuple[GroupRuntime, ...] = ()
    """The kernels that its runs launched; empty if the log does not show both runs
    and launches."""
    guard_misses: tuple[GuardMiss, ...] = ()
    """For a specialisation: how its inputs differ from those of the first and of
    the one before it."""
    segments: tuple[Segment, ...] = ()
    """More than one if the fuser cut the group into several kernels; empty if the
    log does not show it."""
    instances: tuple[Instance, ...] = (Instance(None, (), None),)
    """The nodes: equal layers, unrolled copies, equal plans of several
    executors."""
    time: Time | None = None
    """Time of all its nodes together, in a step of the profiled run."""
    values_left_out: int = 0
    """Inputs and outputs beyond the first thousand of each."""
    kernels_left_out: int = 0
    """Kernels of its graph that ``kernels`` does not list: hundreds of groups share
    hundreds of them."""
    evidence_left_out: int = 0
    """Lines of evidence that a saved report does not hold."""
    nodes_left_out: int = 0
    """Operators beyond those in ``nodes``."""
    instances_left_out: int = 0
    """Nodes of plans beyond those in ``instances``."""
    wiring: Wiring = field(default=Wiring(), metadata={"json": False})

    @classmethod
    def of_operators(
        cls, id: str, phase: str | None, nodes: Iterable[OpNode]
    ) -> Group:
        """Return a group of which only the operators are known."""
        return cls(
            id=id,
            kind="",
            name="",
            phase=phase,
            specialisation=1,
            respecialises=None,
            nodes=tuple(nodes),
            inputs=(),
            outputs=(),
            runs=None,
            kernels=(),
            bytes_in=None,
            bytes_out=None,
            fallback=False,
            rank=None,
        )

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(node.op for node in self.nodes)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of its instances, each once."""
        layers: dict[str, None] = {}
        for instance in self.instances:
            if instance.layer is not None:
                layers[instance.layer] = None
        return tuple(layers)

    @property
    def count(self) -> int:
        """Number of fusion nodes in this row."""
        return len(self.instances) + self.instances_left_out

    @property
    def size(self) -> int:
        """Number of operators of one instance."""
        return len(self.nodes) + self.nodes_left_out

    @property
    def operators(self) -> int:
        """Number of operators of all its instances."""
        return self.size * self.count

    @property
    def first_line(self) -> str | None:
        """The first line of the user's program that its operators come from
        (``file:line``)."""
        for node in self.nodes:
            if node.user_source:
                return node.user_source
        return None
