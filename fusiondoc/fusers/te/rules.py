"""Transformer Engine: the fused operators of its operation fuser, by version, and
their conditions.

Read from ``transformer_engine/pytorch/ops/fused/*.py`` and ``ops/fuser.py`` of
1.13, 2.7, 2.10, 2.13, 2.15 and 2.20. To add a fused operator, add its rule to
``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusiondoc.fusers.te.records import OperatorFacts, RecordedPlan

LATEST = (2, 20)
"""The newest version whose rules are in this table."""

_NEVER = (99, 0)

LINEAR, BIAS, ADD, SCALE, MAKE = (
    "BasicLinear",
    "Bias",
    "AddExtraInput",
    "ConstantScale",
    "MakeExtraOutput",
)


@dataclass(frozen=True)
class RecordedOperator:
    """A basic operator with its known facts."""

    index: int
    kinds: frozenset[str]
    kind: str
    facts: OperatorFacts

    def is_a(self, kinds: Sequence[str]) -> bool:
        return not kinds or bool(self.kinds.intersection(kinds))


Check = Callable[[Sequence[RecordedOperator], RecordedPlan], bool]


@dataclass(frozen=True)
class RuleCondition:
    """A condition on the operators that match. ``name`` is its key in
    ``TE_CONDITIONS``, which has the words for a failed condition."""

    code: str
    name: str
    holds: Check
    since: tuple[int, int] = (0, 0)
    until: tuple[int, int] = _NEVER


@dataclass(frozen=True)
class Slot:
    """An element of a pattern: the classes that fit (any, if empty)."""

    kinds: tuple[str, ...]
    optional: bool = False
    beside: bool = False
    """It must be present, but stays a separate operator."""
    modes: tuple[str | None, ...] = ()
    """It matches only after a linear operator of these tensor-parallel modes; any,
    if empty."""


@dataclass(frozen=True)
class FusedOperatorRule:
    """A fused operator: its pattern, the first version that has it, and its
    conditions."""

    fused: str
    phase: str
    slots: tuple[Slot, ...]
    conditions: tuple[RuleCondition, ...]
    since: tuple[int, int]
    until: tuple[int, int] = _NEVER

    def known_to(self, version: tuple[int, int]) -> bool:
        return self.since <= version < self.until


def _last(kind: str) -> Callable[[Sequence[RecordedOperator]], OperatorFacts]:
    def facts(window: Sequence[RecordedOperator]) -> OperatorFacts:
        for one in window:
            if kind in one.kinds:
                return one.facts
        return OperatorFacts()

    return facts


_linear, _add, _make = _last(LINEAR), _last(ADD), _last(MAKE)


def _not(mode: str) -> RuleCondition:
    return RuleCondition(
        "FD243",
        f"{mode}_parallel",
        lambda window, _: _linear(window).tensor_parallel != mode,
    )


_ADD_IN_PLACE = RuleCondition(
    "FD242",
    "sum_not_in_place",
    lambda window, _: _add(window).in_place is not False,
)
_HALF = RuleCondition(
    "FD241",
    "not_half",
    lambda window, _: _linear(window).dtype in ("float16", "bfloat16"),
)
_MAKE_IN_PLACE = RuleCondition(
    "FD242",
    "output_not_in_place",
    lambda window, _: _make(window).in_place is not False,
)
_MAKE_NOT_IN_PLACE = RuleCondition(
    "FD242",
    "output_in_place",
    lambda window, _: _make(window).in_place is False,
)
_RECIPE = RuleCondition(
    "FD244", "no_recipe", lambda window, plan: plan.recipe is not None
)
_RECIPE_26 = RuleCondition(
    "FD244",
    "other_recipe",
    lambda window, plan: (
        plan.recipe is not None
        and plan.recipe.kind in ("DelayedScaling", "MXFP8BlockScaling")
    ),
    until=(2, 7),
)
_NO_OVERRIDE = RuleCondition(
    "FD244",
    "backward_override",
    lambda window, plan: (
        plan.recipe is None or plan.recipe.backward_override is None
    ),
)
_QUANTIZED = RuleCondition(
    "FD244",
    "not_quantized",
    lambda window, _: window[0].facts.grad_quantizer is not False,
)


def _userbuffers(window: Sequence[RecordedOperator], plan: RecordedPlan) -> bool:
    """True for the combinations that userbuffers_*_linear.py accepts."""
    linear = _linear(window)
    scatter = None
    for one in window:
        if "ReduceScatter" in one.kinds:
            scatter = one.facts
            break
    if scatter is not None:
        return linear.tensor_parallel is None and scatter.process_group_size != 1
    return linear.tensor_parallel is not None and linear.tensor_parallel_size != 1


_UB_OPTIONS = RuleCondition(
    "FD247", "no_userbuffers", lambda window, _: _linear(window).userbuffers
)
_DISTRIBUTED = RuleCondition(
    "FD247",
    "one_process",
    lambda window, plan: plan.world_size is not None and plan.world_size > 1,
)
_UB_FITS = RuleCondition("FD247", "no_tensor_parallelism", _userbuffers)
_UB = (
    Slot((LINEAR,)),
    Slot((BIAS,), optional=True, modes=("column", None)),
    Slot(("ReduceScatter",), optional=True, modes=(None,)),
)

_GROUPED = (
    Slot(("GroupedLinear",)),
    Slot(
        (
            "ScaledSwiGLU",
            "ScaledClampedQGeGLU",
            "ScaledSReLU",
            "ScaledSiTUGLU",
            "ScaledTanhSReLU",
        )
    ),
    Slot(("GroupedLinear",)),
)
_NEVER_HERE = RuleCondition(
    "FD248",
    "grouped_mlp",
    lambda window, _: False,
)

RULES = (
    FusedOperatorRule(
        "UserbuffersForwardLinear",
        "forward",
        _UB,
        (_UB_OPTIONS, _DISTRIBUTED, _NO_OVERRIDE, _UB_FITS),
        (1, 13),
    ),
    FusedOperatorRule(
        "ForwardLinearBiasAdd",
        "forward",
        (Slot((LINEAR,)), Slot((BIAS,), optional=True), Slot((ADD, "AddInPlace"))),
        (_not("row"), _ADD_IN_PLACE),
        (1, 10),
    ),
    FusedOperatorRule(
        "ForwardLinearBiasActivation",
        "forward",
        (Slot((LINEAR,)), Slot((BIAS,))),
        (_not("row"), _HALF),
        (1, 10),
    ),
    FusedOperatorRule(
        "ForwardLinearScaleAdd",
        "forward",
        (Slot((LINEAR,)), Slot((SCALE,)), Slot((ADD,))),
        (_not("row"), _ADD_IN_PLACE),
        (2, 7),
    ),
    FusedOperatorRule(
        "UserbuffersBackwardLinear",
        "backward",
        _UB,
        (_UB_OPTIONS, _DISTRIBUTED, _UB_FITS),
        (1, 13),
    ),
    FusedOperatorRule(
        "BackwardLinearAdd",
        "backward",
        (Slot((MAKE,)), Slot((LINEAR,))),
        (_MAKE_IN_PLACE, _not("column")),
        (1, 10),
    ),
    FusedOperatorRule(
        "BackwardLinearScale",
        "backward",
        (Slot((LINEAR,)), Slot((SCALE,))),
        (_not("column"),),
        (2, 7),
    ),
    FusedOperatorRule(
        "BackwardBiasActivation",
        "backward",
        (Slot((), beside=True), Slot((BIAS,)), Slot(("GELU", "ReLU"))),
        (_RECIPE, _RECIPE_26, _QUANTIZED),
        (2, 6),
        (2, 7),
    ),
    FusedOperatorRule(
        "BackwardActivationBias",
        "backward",
        (Slot((), beside=True), Slot((BIAS,)), Slot(("GELU", "ReLU"))),
        (_RECIPE, _NO_OVERRIDE, _QUANTIZED),
        (2, 7),
    ),
    FusedOperatorRule(
        "BackwardAddRMSNorm",
        "backward",
        (Slot((MAKE,)), Slot(("RMSNorm",))),
        (_MAKE_NOT_IN_PLACE,),
        (2, 8),
    ),
    FusedOperatorRule(
        "GroupedMLP_CuTeGEMM", "forward", _GROUPED, (_NEVER_HERE,), (2, 14)
    ),
    FusedOperatorRule(
        "GroupedMLP_CuTeGEMM", "backward", _GROUPED, (_NEVER_HERE,), (2, 14)
    ),
)
"""In the order in which the fuser tries them."""


CONDITIONS_IN_WORDS: Mapping[str, str] = {
    "row_parallel": "the linear operator is row-parallel: its outputs are summed over the processes first",
    "column_parallel": "the linear operator is column-parallel: its input gradient is summed over the"
    " processes",
    "sum_not_in_place": "the sum is not in place: AddExtraInput(in_place=True) lets the matrix product add to"
    " it",
    "not_half": "the weight is neither float16 nor bfloat16: cuBLAS adds a bias in these only",
    "output_not_in_place": "the extra output is not in place: with in_place=True the matrix product adds to"
    " its gradient",
    "output_in_place": "the extra output is in place: the norm adds the gradient only for"
    " MakeExtraOutput(in_place=False)",
    "no_recipe": "there is no recipe: nothing is quantized",
    "other_recipe": "the recipe is neither DelayedScaling nor MXFP8BlockScaling",
    "backward_override": "the recipe overrides the backward pass (backward_override)",
    "not_quantized": "the operator before the bias takes no quantized gradient",
    "no_userbuffers": "it has no userbuffers options",
    "one_process": "torch.distributed does not run with several processes",
    "no_tensor_parallelism": "userbuffers need tensor parallelism of several processes",
    "grouped_mlp": "the grouped MLP needs NVTE_CUTEDSL_FUSED_GROUPED_MLP=1, a GPU of compute capability 10, a"
    " new cuDNN front end and an MXFP8 or NVFP4 recipe",
    "left_basic": "all that the rule needs is there, and Transformer Engine left it basic",
}
"""Failed conditions of Transformer Engine's rules, in words."""
