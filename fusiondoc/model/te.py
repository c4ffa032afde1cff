"""The plans of Transformer Engine: its fusers, their plans and the time of their
operators; and its finding codes as rows, of which ``codes.py`` makes ``Code``
objects."""

from __future__ import annotations

from fusiondoc.model import dataclass
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.source import last_name


@dataclass(frozen=True)
class TeTime:
    """Time of an operator of a plan on the GPU, in one call, from torch's profiler:
    kernels, copies and fills, and microseconds, as planned; with ``alone_`` for its
    basic operators when every fusion is left out."""

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
    """Indexes of the fuser's basic operators that it covers."""
    fused: bool
    own: bool
    """It is a fusion of the program's own."""
    group: str | None
    """Id of its row in ``groups``."""
    time: TeTime | None


@dataclass(frozen=True)
class TePlan:
    """The plan of a fuser under a recipe, in training (gradients on) or
    inference."""

    recipe: str | None
    training: bool
    calls: int | None
    forward: tuple[TeStep, ...]
    backward: tuple[TeStep, ...]
    """In the order of the forward pass, from the first operator that needs
    gradients on; empty in inference."""


@dataclass(frozen=True)
class TeOperator:
    """A basic operator: its class, its path in the model and the line that makes
    it."""

    op: str
    path: str | None
    source: str | None


@dataclass(frozen=True)
class TeFuser:
    """A sequence of operators that can be fused with each other, and with nothing
    else."""

    layer: str | None
    """The sequence that it belongs to; None for operators that were called by
    themselves."""
    operators: tuple[TeOperator, ...]
    plans: tuple[TePlan, ...]


@dataclass(frozen=True)
class TeSplit:
    """A module that is no operator of te.ops, and separates the operators around
    it."""

    module: str
    path: str | None
    layer: str
    """Path of the sequence; empty if it is no part of a known model."""
    source: str | None = None
    """The line that makes the sequence."""
    of: str | None = None
    """The Python module that defines its class: ``torch.nn.modules.dropout``."""

    @property
    def where(self) -> str:
        """``seq.2``; ``2 in the sequence of train.py:12`` if that is no part of a
        known model."""
        line = last_name(self.source or "")
        inside = f" in the sequence of {line}" if line and not self.layer else ""
        return (self.path or self.layer or "?") + inside


@dataclass(frozen=True)
class TePass:
    """Kernels and microseconds on the GPU of a whole pass, as planned (``fused``)
    or without any fusion."""

    recipe: str | None
    training: bool
    fused: bool
    kernels: float | None
    us: float | None


@dataclass(frozen=True)
class TeReport:
    """The plans of Transformer Engine in a run."""

    version: str | None
    ran: bool
    """False if the inputs were no GPU tensors: planned, but not run."""
    fusers: tuple[TeFuser, ...]
    splits: tuple[TeSplit, ...]
    own_fusions: tuple[str, ...]
    """Fusion functions that the program registered."""
    passes: tuple[TePass, ...]

    @property
    def in_words(self) -> str:
        """``Transformer Engine 2.20.2``, with a remark if it only planned."""
        if self.ran or not self.fusers:
            planned = ""
        else:
            planned = ", planned on the CPU: a plan, not a run"
        return f"Transformer Engine {self.version or 'of unknown version'}{planned}"


OF_TE: tuple[tuple[str, str, str, Remedy | None], ...] = (
    (
        "FD111",
        "warning",
        "No operator of Transformer Engine's te.ops was called",
        None,
    ),
    (
        "FD112",
        "note",
        "Transformer Engine planned on the CPU: a plan, not a run",
        None,
    ),
    ("FD113", "warning", "A module splits a te.ops.Sequential", None),
    ("FD114", "note", "ForwardLinearBiasActivation holds no activation", None),
    (
        "FD115",
        "note",
        "Transformer Engine plans differently by recipe or mode",
        None,
    ),
    (
        "FD116",
        "warning",
        "Transformer Engine's plan and the table of rules differ",
        None,
    ),
    ("FD117", "note", "The program registered fusions of its own", None),
    (
        "FD118",
        "warning",
        "Transformer Engine keeps a plan that was made for other weights",
        None,
    ),
    (
        "FD241",
        "warning",
        "Transformer Engine fuses it in float16 and bfloat16 only",
        Remedy(
            "Make the operator in bfloat16: te.ops.Linear(..., dtype=torch.bfloat16)."
        ),
    ),
    (
        "FD242",
        "warning",
        "Transformer Engine fuses it only in place, or only not in place",
        Remedy(
            "Change in_place of the AddExtraInput or MakeExtraOutput as the reason states, if nothing"
            " else reads the tensor that is changed."
        ),
    ),
    (
        "FD243",
        "note",
        "Transformer Engine does not fuse it in this tensor-parallel mode",
        nothing(
            "Nothing, if the model needs this mode: the processes exchange tensors between the operators."
        ),
    ),
    (
        "FD244",
        "note",
        "Transformer Engine fuses it only under another recipe",
        Remedy(
            "It is fused where the gradient is quantized: run under a recipe, such as --recipe delayed."
        ),
    ),
    (
        "FD245",
        "note",
        "Transformer Engine finds no operators next to it to fuse it with",
        Remedy(
            "Put the operators that the rule names next to each other, if the model allows it."
        ),
    ),
    (
        "FD246",
        "note",
        "Transformer Engine has no rule for it in this pass",
        nothing(
            "Nothing: it runs as kernels of its own.",
            "te.LayerNormLinear and te.LayerNormMLP have such fusions built in.",
        ),
    ),
    (
        "FD247",
        "note",
        "Userbuffers are not in use",
        Remedy(
            "Initialise torch.distributed and tensor parallelism, and te.initialize_ub, before the passes."
        ),
    ),
    (
        "FD248",
        "note",
        "The grouped MLP needs another GPU, recipe or setting",
        nothing(
            "Nothing on this GPU: NVTE_CUTEDSL_FUSED_GROUPED_MLP=1 and a GPU of compute capability"
            " 10 fuse it."
        ),
    ),
    (
        "FD249",
        "note",
        "Transformer Engine left it basic although the rules take it",
        Remedy(
            "Report it with fusiondoc bundle: the table of rules may be wrong for this version."
        ),
    ),
)
"""Code, severity, title, and remedy, if one answer fits every case."""

NOTHING_LOST = frozenset({"FD246"})
"""Reasons of operators that no fused operator could take, so that nothing is
lost."""
