"""Reasons of the operator itself: its kind, arguments, types and device, and
whether its code ran."""

from __future__ import annotations

from typing import Literal

from fusiondoc.fusers.fuser_words import GivenOverload
from fusiondoc.model import dataclass, field
from fusiondoc.model.reasons.parts import Condition, OperatorAt


@dataclass(frozen=True)
class NoRule:
    """A fuser has no rule for an operator."""

    kind: Literal["no_rule"] = field(default="no_rule", init=False)
    op: str
    fuser: str | None
    """None: no fuser has a rule for it."""


@dataclass(frozen=True)
class NewerRule:
    """The fuser has a rule for the operator only since a later version of torch."""

    kind: Literal["newer_rule"] = field(default="newer_rule", init=False)
    since: str
    """The first version of torch with the rule."""
    torch_known: bool
    """True if the version that ran is known to be older."""
    fuser: str | None = None


@dataclass(frozen=True)
class PythonCall:
    """A call of a Python function, which no fuser can look into."""

    kind: Literal["python_call"] = field(default="python_call", init=False)


@dataclass(frozen=True)
class Overload:
    """A fuser has a rule for the operator, but for another overload."""

    kind: Literal["overload"] = field(default="overload", init=False)
    op: str
    fuser: str
    given: GivenOverload
    types: str | None = None
    """The types of its arguments, as far as they identify the overload."""


@dataclass(frozen=True)
class ReductionsOff:
    """The fuser takes the reduction only with the knob ``nnc_reductions``."""

    kind: Literal["reductions_off"] = field(default="reductions_off", init=False)


@dataclass(frozen=True)
class NotConstant:
    """Arguments that have to be constants are not."""

    kind: Literal["not_constant"] = field(default="not_constant", init=False)
    arguments: tuple[str, ...]
    """Their names in the schema; empty if only the operator is known."""
    maker: str | None
    """Kind of the node that makes the first of them; empty for an argument of the
    graph, None if it is not known."""
    runs: Literal["not_profiled", "differ"] | None = None
    """For a profiled argument: the code did not run in the profiled passes, or the
    values differed."""


@dataclass(frozen=True)
class Argument:
    """An argument has a value that the fuser's rule does not take."""

    kind: Literal["argument"] = field(default="argument", init=False)
    problem: Literal[
        "given",
        "not_floating",
        "half",
        "half_to_float",
        "no_elements",
        "no_dimensions",
        "unknown_number",
        "not_shown",
    ]
    """``given``: it has to be None; ``unknown_number``: a number whose type
    TorchScript does not know; ``not_shown``: the log does not show which argument
    it is."""
    argument: str | None = None
    """Its name in the schema."""
    dtype: str | None = None
    """The scalar type of the tensor that it does not fit."""


@dataclass(frozen=True)
class WrongType:
    """The fuser does not take this operator, or any operator, with a scalar
    type."""

    kind: Literal["wrong_type"] = field(default="wrong_type", init=False)
    fuser: str
    dtype: str
    takes: Literal["none", "not_on_cpu", "some_on_cpu", "floating", "integer"]
    """The fuser's limit: no tensors of this type; none on the CPU; on the CPU only
    for few operators; only floating-point or only integer tensors."""


@dataclass(frozen=True)
class WrongDevice:
    """The tensors are on several devices, or on a device on which the fuser does
    not take the operator."""

    kind: Literal["wrong_device"] = field(default="wrong_device", init=False)
    problem: Literal["several", "cpu", "numbers_on_cpu", "gpu_only", "cpu_only"]
    fuser: str | None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dimensions:
    """A tensor has more dimensions than the fuser takes."""

    kind: Literal["dimensions"] = field(default="dimensions", init=False)
    dimensions: int
    most: int
    fuser: str | None = None


@dataclass(frozen=True)
class ControlFlow:
    """A branch or loop, which cuts the graph in two."""

    kind: Literal["control_flow"] = field(default="control_flow", init=False)
    condition: Condition
    in_formula: bool
    """It is in one of torch's own gradient formulas."""


@dataclass(frozen=True)
class WithBlock:
    """The beginning or end of a with block."""

    kind: Literal["with_block"] = field(default="with_block", init=False)


@dataclass(frozen=True)
class AbsentGradients:
    """The gradient executor adds it for gradients that may be absent."""

    kind: Literal["absent_gradients"] = field(
        default="absent_gradients", init=False
    )


@dataclass(frozen=True)
class NothingToGain:
    """A kernel would save nothing by computing it."""

    kind: Literal["nothing_to_gain"] = field(default="nothing_to_gain", init=False)
    does: Literal[
        "counts_batches",
        "makes",
        "views",
        "hands_on",
        "is_contiguous",
        "copies",
        "may_copy",
    ]
    fuser: str | None = None
    """For an operator that copies, or may copy: the fuser of this run, if it is
    known."""
    after: OperatorAt | None = None
    """For an operator that may copy: the operator before it that changes the order
    in memory."""


@dataclass(frozen=True)
class InPlace:
    """It changes its input in place."""

    kind: Literal["in_place"] = field(default="in_place", init=False)
    plain: str
    """The out-of-place form of the operator."""
    plain_fusible: bool | None
    """True if the fuser has a rule for ``plain``; None if that is not known."""
    fuser: str | None


@dataclass(frozen=True)
class WritesOut:
    """It writes its result into the tensor given as ``out``."""

    kind: Literal["writes_out"] = field(default="writes_out", init=False)


@dataclass(frozen=True)
class FullGroup:
    """The group next to it has too many inputs and outputs to take it."""

    kind: Literal["full_group"] = field(default="full_group", init=False)
    arguments: int
    most: int


@dataclass(frozen=True)
class Unprofiled:
    """No types were profiled for its inputs."""

    kind: Literal["unprofiled"] = field(default="unprofiled", init=False)
    why: Literal["never_ran", "not_in_first_passes"]


@dataclass(frozen=True)
class NotOptimised:
    """No fusion pass of a fuser looked at the plan that holds it."""

    kind: Literal["not_optimised"] = field(default="not_optimised", init=False)
    why: Literal["no_plan_yet", "gave_up", "fuser_off"]
    """``no_plan_yet``: the executor of its differentiable graph made no plan;
    ``gave_up``: its guard failed and no specialisation was left; ``fuser_off``: no
    fuser was on."""
    off_by: str | None = None
    """How the fuser was switched off, as a clause."""


@dataclass(frozen=True)
class NotKnown:
    """The reason is not known."""

    kind: Literal["not_known"] = field(default="not_known", init=False)
    because: str
    """Why not: "log": the log does not state it; the name of a fuser that logs no
    reasons; "te_version", "te_operator": the version of the package of te.ops, or
    the operator in its plan, is not known."""


Refusal = NoRule | NewerRule | Overload | NotConstant | Argument
"""Why the fuser refuses one operator."""
