"""What the probe told of Transformer Engine's operation fuser: plans, sequences, profiles; typed."""

from __future__ import annotations

from typing import Any, Callable, Mapping, TypeVar

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.model.typed_fields import read_object


@dataclass(frozen=True)
class FusionFunction:
    """A function that the fuser asks: of the package, or registered by the program."""

    name: str
    module: str = ""

    @property
    def own(self) -> bool:
        return not self.module.startswith("transformer_engine.")


@dataclass(frozen=True)
class Package:
    """``fusions``: the functions of each pass in their order (2.13 and later)."""

    version: str | None = None
    fusions: Mapping[str, tuple[FusionFunction, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class BasicOperator:
    """A basic operator of a pipeline: its class, the basic classes among its bases, and where it was made."""

    kind: str
    path: str | None = None
    source: str | None = None
    bases: tuple[str, ...] = ()
    own: bool = False


@dataclass(frozen=True)
class OperatorFacts:
    """What the fuser's rules look at in a basic operator, at the time of a plan."""

    in_place: bool | None = None
    dtype: str | None = None
    """Of its weight."""
    tensor_parallel: str | None = None
    """"row", "column" or None."""
    tensor_parallel_size: int | None = None
    process_group_size: int | None = None
    userbuffers: bool = False
    grad_quantizer: bool | None = None
    """It takes the gradient of its output quantized."""


@dataclass(frozen=True)
class PlannedOperator:
    """An operator of a plan: a fused one, or a basic one as it was."""

    kind: str
    operators: tuple[int, ...] = ()
    fused: bool = False
    own: bool = False
    """Of the program's own."""


@dataclass(frozen=True)
class Recipe:
    kind: str
    backward_override: str | None = None


@dataclass(frozen=True)
class Plan:
    """What a fuser had planned after a call. ``backward`` is in the order of the forward pass."""

    plan: int
    fuser: int
    grad: bool = False
    recipe: Recipe | None = None
    first_backward: int = 0
    """The first operator that a backward pass reaches."""
    device: str | None = None
    operators: tuple[OperatorFacts, ...] = ()
    forward: tuple[PlannedOperator, ...] = ()
    backward: tuple[PlannedOperator, ...] = ()
    world_size: int | None = None
    """Processes of torch.distributed; None where it is not in use."""


@dataclass(frozen=True)
class Pipeline:
    """The basic operators of a fuser."""

    fuser: int
    operators: tuple[BasicOperator, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of a sequence: a fuser, or a module that no fuser takes."""

    fuser: int | None = None
    kind: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Sequence:
    path: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Launched:
    """A kernel, copy ("gpu_memcpy") or fill ("gpu_memset") of one call of an operator."""

    name: str
    kind: str = "kernel"
    us: float = 0.0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int | None = None


@dataclass(frozen=True)
class ProfiledOperator:
    """``us``: minimum, median and maximum of its time on the GPU, of all that one call launches."""

    fuser: int
    phase: str
    entry: int
    """Index in ``forward`` or ``backward`` of the plan."""
    plan: int = 0
    calls: int = 0
    us: tuple[float, ...] = ()
    kernels: tuple[Launched, ...] = ()


@dataclass(frozen=True)
class Profile:
    """A profiled pass. ``fused``: as planned, else with every fusion left out."""

    fused: bool
    training: bool
    recipe: str | None = None
    kernels: float | None = None
    """Kernels of a pass."""
    us: float | None = None
    """Time on the GPU of a pass."""
    entries: tuple[ProfiledOperator, ...] = ()


@dataclass(frozen=True)
class TeRecords:
    """``calls``: how often each plan was used."""

    package: Package = Package()
    pipelines: tuple[Pipeline, ...] = ()
    plans: tuple[Plan, ...] = ()
    sequences: tuple[Sequence, ...] = ()
    profiles: tuple[Profile, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)


T = TypeVar("T")


def read_te(all_of: Callable[[str], list[dict[str, Any]]]) -> TeRecords:
    """The records of a run; ``all_of`` gives the lines of a kind."""

    def every(kind: type[T], name: str) -> tuple[T, ...]:
        read = (read_object(kind, one) for one in all_of(name))
        return tuple(one for one in read if one is not None)

    packages = every(Package, "te_package")
    calls: dict[str, int] = {}
    for record in all_of("te_calls"):
        told = record.get("calls")
        if isinstance(told, dict):
            calls.update({str(plan): count for plan, count in told.items() if type(count) is int})
    return TeRecords(
        packages[-1] if packages else Package(),
        every(Pipeline, "te_fuser"),
        every(Plan, "te_plan"),
        every(Sequence, "te_sequence"),
        every(Profile, "te_profile"),
        calls,
    )
