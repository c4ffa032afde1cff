"""Runs of a group: the kernels that they launched, and the inputs that its guard
refused."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class GroupRuntime:
    """The kernels that a run of a group launches, as the fuser compiled them for
    some inputs: several kernels are the segments into which it was cut. Another
    ``GroupRuntime`` of the same instances was compiled for other inputs."""

    kernels: tuple[str, ...]
    """Ids of the kernels, in the order of the launches."""
    runs: int | None
    """Runs that launched exactly these; null if equal groups share the kernels and
    only the number of all runs is known."""
    instances: tuple[int, ...]
    """Indexes into ``Group.instances`` of the nodes that it runs: those that the
    fuser compiles together."""


@dataclass(frozen=True)
class GuardMiss:
    """An input for which the guard of an earlier specialisation failed, so that
    this specialisation was made."""

    group: str
    """Id of the earlier specialisation."""
    input: int
    """Index of the input among those of the group."""
    what: str
    """The property that differs: "shape", "strides", "dtype", "device",
    "requires_grad" or "kind" (other types, or another number)."""
    expected: str
    seen: str


@dataclass(frozen=True)
class LaunchesOfGroup:
    """The launches of a kernel that belong to one of the groups that share it."""

    group: str
    launches: int
