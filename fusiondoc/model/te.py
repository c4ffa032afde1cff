"""The part of the report on Transformer Engine: its fusers, their plans and what their operators take."""

from __future__ import annotations

from fusiondoc.model.quick_dataclass import dataclass


@dataclass(frozen=True)
class TeTime:
    """An operator of a plan on the GPU, in one call: kernels, copies and fills, and microseconds, as planned
    and (``alone_``) of its basic operators when every fusion is left out. From torch's profiler."""

    kernels: int
    copies: int
    us: float
    alone_kernels: int | None = None
    alone_us: float | None = None


@dataclass(frozen=True)
class TeStep:
    """An operator of a plan: a fused one, or a basic one."""

    op: str
    operators: tuple[int, ...]
    """Which of the fuser's basic operators, from 0."""
    fused: bool
    own: bool
    """Of the program's own."""
    group: str | None
    """Id of its row in ``groups``."""
    time: TeTime | None


@dataclass(frozen=True)
class TePlan:
    """What a fuser planned under a recipe, in training (gradients on) or inference."""

    recipe: str | None
    training: bool
    calls: int | None
    forward: tuple[TeStep, ...]
    backward: tuple[TeStep, ...]
    """In the order of the forward pass; of training only, from the first operator that needs gradients."""


@dataclass(frozen=True)
class TeOperator:
    """A basic operator: its class, its path in the model and the line that makes it."""

    op: str
    path: str | None
    source: str | None


@dataclass(frozen=True)
class TeFuser:
    """A run of operators that are fused among themselves, and with nothing else."""

    layer: str | None
    """The sequence that it belongs to; None for operators that were called by themselves."""
    operators: tuple[TeOperator, ...]
    plans: tuple[TePlan, ...]


@dataclass(frozen=True)
class TeSplit:
    """A module that is no operator of te.ops, and separates the operators around it."""

    module: str
    path: str | None
    layer: str


@dataclass(frozen=True)
class TePass:
    """Kernels and microseconds on the GPU of a whole pass, as planned (``fused``) or without any fusion."""

    recipe: str | None
    training: bool
    fused: bool
    kernels: float | None
    us: float | None


@dataclass(frozen=True)
class TeReport:
    """What Transformer Engine planned."""

    version: str | None
    ran: bool
    """False where the inputs were no GPU tensors: a plan, not a run."""
    fusers: tuple[TeFuser, ...]
    splits: tuple[TeSplit, ...]
    own_fusions: tuple[str, ...]
    """Fusion functions that the program registered."""
    passes: tuple[TePass, ...]
