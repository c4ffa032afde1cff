"""Inputs and plans of Transformer Engine's operation fuser, as the probe recorded
them (probe/te_plans.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BasicOperator:
    """A basic operator of a pipeline: its class, the basic classes among its bases,
    and the line that made it."""

    kind: str
    path: str | None = None
    source: str | None = None
    bases: tuple[str, ...] = ()
    own: bool = False


@dataclass(frozen=True)
class OperatorFacts:
    """Facts about a basic operator that the fuser's rules use, at the time of a
    plan."""

    in_place: bool | None = None
    dtype: str | None = None
    """The dtype of its weight."""
    tensor_parallel: str | None = None
    """"row", "column" or None."""
    tensor_parallel_size: int | None = None
    process_group_size: int | None = None
    userbuffers: bool = False
    grad_quantizer: bool | None = None
    """Whether it takes the gradient of its output quantized."""


@dataclass(frozen=True)
class PlannedOperator:
    """An operator of a plan: a fused one, or an unchanged basic one."""

    kind: str
    operators: tuple[int, ...] = ()
    fused: bool = False
    own: bool = False
    """Whether it belongs to the program."""


@dataclass(frozen=True)
class PrecisionRecipe:
    kind: str
    backward_override: str | None = None


@dataclass(frozen=True)
class RecordedPlan:
    """The plan of a fuser after a call. ``backward`` is in the order of the forward
    pass."""

    plan: int
    fuser: int
    grad: bool = False
    recipe: PrecisionRecipe | None = None
    first_backward: int = 0
    """The first operator that a backward pass reaches."""
    device: str | None = None
    operators: tuple[OperatorFacts, ...] = ()
    forward: tuple[PlannedOperator, ...] = ()
    backward: tuple[PlannedOperator, ...] = ()
    world_size: int | None = None
    """Number of processes of torch.distributed; None if that is not in use."""
    training: bool = False
    """Some operator was in training mode."""
    now: tuple[str | None, ...] | None = None
    """Types of the weights in this call, if they differ from those in
    ``operators``, which hold from the making of the plan."""
    asked: bool = True
    """Whether some rule ran: 2.6 and older run none for an operator that is called
    by itself."""
    own_asked: tuple[str, ...] = ()
    """The program's own fusions that ran when it was made (2.13 and later)."""
    taken_out: tuple[str, ...] = ()
    """The package's fusions that the program had removed by then."""
