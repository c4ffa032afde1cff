"""What the runs of a group launched, and which inputs its guard refused."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class GroupRuntime:
    """The kernels that a run of a group launches, as the fuser compiled them for
    some inputs: several are the segments that it was cut into. Another runtime of
    the same instances was compiled for other inputs."""

    kernels: tuple[str, ...]
    """Their ids, in the order of the launches."""
    runs: int | None
    """Runs that launched just these; null if equal groups share the kernels and
    only all runs are known."""
    instances: tuple[int, ...]
    """Places in ``Group.instances`` of the nodes that it runs: those that the fuser
    compiles together."""


@dataclass(frozen=True)
class GuardMiss:
    """An input for which the guard of an earlier specialisation did not hold, so
    that this one was made."""

    group: str
    """Id of that specialisation."""
    input: int
    """Its place among the inputs of the group, from 0."""
    what: str
    """"shape", "strides", "dtype", "device", "requires_grad" or "kind" (other
    types, or another number)."""
    expected: str
    seen: str


@dataclass(frozen=True)
class LaunchesOfGroup:
    """The launches of a kernel that are of one of the groups that share it."""

    group: str
    launches: int
