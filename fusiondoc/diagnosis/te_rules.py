"""The rules of Transformer Engine's operation fuser by version (patterns and conditions), the plan that they
make of a pipeline, and why an operator of it stays basic.

Read from ``transformer_engine/pytorch/ops/fused/*.py`` and ``ops/fuser.py`` of 1.13, 2.7, 2.10, 2.13, 2.15
and 2.20. The plan that they make is compared with the one that Transformer Engine made itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from fusiondoc.captures.frontend_records import BasicOperator, OperatorFacts, Plan
from fusiondoc.model import dataclass
from fusiondoc.model.numbers import pair_of
from fusiondoc.model.report import Reason

LATEST = (2, 20)
"""The newest version whose rules are in this table."""

_NEVER = (99, 0)
NO_RECIPE = "there is no recipe: nothing is quantized"

LINEAR, BIAS, ADD, SCALE, MAKE = "BasicLinear", "Bias", "AddExtraInput", "ConstantScale", "MakeExtraOutput"


@dataclass(frozen=True)
class Operand:
    """A basic operator with what is known of it."""

    index: int
    kinds: frozenset[str]
    kind: str
    facts: OperatorFacts

    def is_a(self, kinds: Sequence[str]) -> bool:
        return not kinds or bool(self.kinds.intersection(kinds))


Check = Callable[[Sequence[Operand], Plan], bool]


@dataclass(frozen=True)
class Condition:
    """What must hold of the operators that match. ``why`` says what is in the way, in words."""

    code: str
    why: str
    holds: Check
    since: tuple[int, int] = (0, 0)
    until: tuple[int, int] = _NEVER


@dataclass(frozen=True)
class Slot:
    """A place in a pattern: the classes that fit (any, if empty)."""

    kinds: tuple[str, ...]
    optional: bool = False
    beside: bool = False
    """It must be there, and stays an operator of its own."""
    modes: tuple[str | None, ...] = ()
    """It is filled only behind a linear operator of these tensor-parallel modes; any, if empty."""


@dataclass(frozen=True)
class Rule:
    """A fused operator: what it is made of, from which version on, and its conditions."""

    fused: str
    phase: str
    slots: tuple[Slot, ...]
    conditions: tuple[Condition, ...]
    since: tuple[int, int]
    until: tuple[int, int] = _NEVER

    def known_to(self, version: tuple[int, int]) -> bool:
        return self.since <= version < self.until


def _last(kind: str) -> Callable[[Sequence[Operand]], OperatorFacts]:
    def facts(window: Sequence[Operand]) -> OperatorFacts:
        return next((one.facts for one in window if kind in one.kinds), OperatorFacts())

    return facts


_linear, _add, _make = _last(LINEAR), _last(ADD), _last(MAKE)


def _not(mode: str) -> Condition:
    what = {
        "row": "the linear operator is row-parallel: its outputs are summed over the processes first",
        "column": "the linear operator is column-parallel: its input gradient is summed over the processes",
    }[mode]
    return Condition("FD243", what, lambda window, _: _linear(window).tensor_parallel != mode)


_ADD_IN_PLACE = Condition(
    "FD242",
    "the sum is not in place: AddExtraInput(in_place=True) lets the matrix product add to it",
    lambda window, _: _add(window).in_place is not False,
)
_HALF = Condition(
    "FD241",
    "the weight is neither float16 nor bfloat16: cuBLAS adds a bias in these only",
    lambda window, _: _linear(window).dtype in ("float16", "bfloat16"),
)
_MAKE_IN_PLACE = Condition(
    "FD242",
    "the extra output is not in place: with in_place=True the matrix product adds to its gradient",
    lambda window, _: _make(window).in_place is not False,
)
_MAKE_NOT_IN_PLACE = Condition(
    "FD242",
    "the extra output is in place: the norm adds the gradient only for MakeExtraOutput(in_place=False)",
    lambda window, _: _make(window).in_place is False,
)
_RECIPE = Condition("FD244", NO_RECIPE, lambda window, plan: plan.recipe is not None)
_RECIPE_26 = Condition(
    "FD244",
    "the recipe is neither DelayedScaling nor MXFP8BlockScaling",
    lambda window, plan: (
        plan.recipe is not None and plan.recipe.kind in ("DelayedScaling", "MXFP8BlockScaling")
    ),
    until=(2, 7),
)
_NO_OVERRIDE = Condition(
    "FD244",
    "the recipe overrides the backward pass (backward_override)",
    lambda window, plan: plan.recipe is None or plan.recipe.backward_override is None,
)
_QUANTIZED = Condition(
    "FD244",
    "the operator before the bias takes no quantized gradient",
    lambda window, _: window[0].facts.grad_quantizer is not False,
)


def _userbuffers(window: Sequence[Operand], plan: Plan) -> bool:
    """The combinations that userbuffers_*_linear.py takes."""
    linear = _linear(window)
    scatter = next((one.facts for one in window if "ReduceScatter" in one.kinds), None)
    if scatter is not None:
        return linear.tensor_parallel is None and scatter.process_group_size != 1
    return linear.tensor_parallel is not None and linear.tensor_parallel_size != 1


_UB_OPTIONS = Condition(
    "FD247", "it has no userbuffers options", lambda window, _: _linear(window).userbuffers
)
_DISTRIBUTED = Condition(
    "FD247",
    "torch.distributed does not run with several processes",
    lambda window, plan: plan.world_size is not None and plan.world_size > 1,
)
_UB_FITS = Condition("FD247", "userbuffers need tensor parallelism of several processes", _userbuffers)
_UB = (
    Slot((LINEAR,)),
    Slot((BIAS,), optional=True, modes=("column", None)),
    Slot(("ReduceScatter",), optional=True, modes=(None,)),
)

_GROUPED = (
    Slot(("GroupedLinear",)),
    Slot(("ScaledSwiGLU", "ScaledClampedQGeGLU", "ScaledSReLU", "ScaledSiTUGLU", "ScaledTanhSReLU")),
    Slot(("GroupedLinear",)),
)
_NEVER_HERE = Condition(
    "FD248",
    "the grouped MLP needs NVTE_CUTEDSL_FUSED_GROUPED_MLP=1, a GPU of compute capability 10, a new cuDNN"
    " front end and an MXFP8 or NVFP4 recipe",
    lambda window, _: False,
)

RULES = (
    Rule(
        "UserbuffersForwardLinear",
        "forward",
        _UB,
        (_UB_OPTIONS, _DISTRIBUTED, _NO_OVERRIDE, _UB_FITS),
        (1, 13),
    ),
    Rule(
        "ForwardLinearBiasAdd",
        "forward",
        (Slot((LINEAR,)), Slot((BIAS,), optional=True), Slot((ADD, "AddInPlace"))),
        (_not("row"), _ADD_IN_PLACE),
        (1, 10),
    ),
    Rule(
        "ForwardLinearBiasActivation",
        "forward",
        (Slot((LINEAR,)), Slot((BIAS,))),
        (_not("row"), _HALF),
        (1, 10),
    ),
    Rule(
        "ForwardLinearScaleAdd",
        "forward",
        (Slot((LINEAR,)), Slot((SCALE,)), Slot((ADD,))),
        (_not("row"), _ADD_IN_PLACE),
        (2, 7),
    ),
    Rule("UserbuffersBackwardLinear", "backward", _UB, (_UB_OPTIONS, _DISTRIBUTED, _UB_FITS), (1, 13)),
    Rule(
        "BackwardLinearAdd",
        "backward",
        (Slot((MAKE,)), Slot((LINEAR,))),
        (_MAKE_IN_PLACE, _not("column")),
        (1, 10),
    ),
    Rule("BackwardLinearScale", "backward", (Slot((LINEAR,)), Slot((SCALE,))), (_not("column"),), (2, 7)),
    Rule(
        "BackwardBiasActivation",
        "backward",
        (Slot((), beside=True), Slot((BIAS,)), Slot(("GELU", "ReLU"))),
        (_RECIPE, _RECIPE_26, _QUANTIZED),
        (2, 6),
        (2, 7),
    ),
    Rule(
        "BackwardActivationBias",
        "backward",
        (Slot((), beside=True), Slot((BIAS,)), Slot(("GELU", "ReLU"))),
        (_RECIPE, _NO_OVERRIDE, _QUANTIZED),
        (2, 7),
    ),
    Rule(
        "BackwardAddRMSNorm", "backward", (Slot((MAKE,)), Slot(("RMSNorm",))), (_MAKE_NOT_IN_PLACE,), (2, 8)
    ),
    Rule("GroupedMLP_CuTeGEMM", "forward", _GROUPED, (_NEVER_HERE,), (2, 14)),
    Rule("GroupedMLP_CuTeGEMM", "backward", _GROUPED, (_NEVER_HERE,), (2, 14)),
)
"""In the order in which the fuser asks them."""


def version_of(text: str | None) -> tuple[int, int] | None:
    """(major, minor) of a version, without its build: ``2.20.2+cu13``."""
    return pair_of(re.match(r"(\d+)\.(\d+)", text or ""))


@dataclass(frozen=True)
class _Taken:
    """An operator of the plan while it is made."""

    kind: str
    operands: tuple[Operand, ...]
    fused: bool

    @property
    def indexes(self) -> tuple[int, ...]:
        return tuple(one.index for one in self.operands)


class Planner:
    """The rules of one version applied to one pipeline in one phase."""

    def __init__(
        self, version: tuple[int, int], phase: str, operators: Sequence[BasicOperator], plan: Plan
    ) -> None:
        self._plan = plan
        self.phase = phase
        gone = tuple(name.partition(".")[0] for name in plan.taken_out)
        self.rules = [
            one
            for one in RULES
            if one.phase == phase and one.known_to(version) and one.fused not in gone and plan.asked
        ]
        self._later = [one for one in RULES if one.phase == phase and one.since > version]
        self._version = version
        facts = [*plan.operators, *[OperatorFacts()] * len(operators)]
        self.operands = [
            Operand(i, frozenset(one.bases) | (set() if one.own else {one.kind}), one.kind, facts[i])
            for i, one in enumerate(operators)
        ]
        done = plan.forward if phase == "forward" else plan.backward
        self.first = 0
        if phase == "backward" and (2, 7) <= version < (2, 13):
            self.first = plan.first_backward  # what comes before is no part of the pass
        self._own = {i: one for one in done if one.own for i in one.operators}
        self._items = self._start()
        for rule in self.rules:
            self._items = self._applied(rule)

    def _start(self) -> list[_Taken]:
        """Basic operators; those that the program's own fusions took are left out of all rules."""
        own = self._own
        items: list[_Taken] = []
        for one in self.operands[self.first :]:
            mine = own.get(one.index)
            if mine is not None and items and items[-1].fused and own.get(items[-1].indexes[-1]) is mine:
                items[-1] = _Taken("", (*items[-1].operands, one), True)
            else:
                items.append(_Taken("" if mine is not None else one.kind, (one,), mine is not None))
        return items

    @property
    def planned(self) -> list[tuple[str, tuple[int, ...]]]:
        """(class, numbers of basic operators) of each fused operator."""
        return [(one.kind, one.indexes) for one in self._items if one.fused and one.kind]

    def _applied(self, rule: Rule) -> list[_Taken]:
        made: list[_Taken] = []
        at = 0
        while at < len(self._items):
            window = _match(rule, self._items, at)
            if window is None or self._failing(rule, window):
                made.append(self._items[at])
                at += 1
                continue
            skipped = sum(slot.beside for slot in rule.slots)
            made.extend(window[:skipped])
            operands = tuple(one for item in window[skipped:] for one in item.operands)
            made.append(_Taken(rule.fused, operands, True))
            at += len(window)
        return made

    def _failing(self, rule: Rule, window: Sequence[_Taken]) -> Condition | None:
        operands = [item.operands[-1] for item in window]
        for one in rule.conditions:
            if one.since <= self._version < one.until and not one.holds(operands, self._plan):
                return one
        return None

    # -- why an operator stays basic ------------------------------------------------------------------------

    def why(self, index: int) -> Reason:
        """Why the basic operator is fused in no operator: the condition that fails where all it needs is
        beside it, else what took its neighbours, else what it would need beside it."""
        operand = self.operands[index]
        if not self._plan.asked:
            text = "called by itself: Transformer Engine before 2.7 fuses inside a te.ops.Sequential only"
            return Reason("FD245", text, False)
        mine = [one for one in self.rules if any(s.kinds and operand.is_a(s.kinds) for s in one.slots)]
        near = list(self._near_misses(mine, index))
        if near:
            text = "; ".join(dict.fromkeys(f"{rule.fused}: {condition.why}" for rule, condition in near[:2]))
            return Reason(near[0][1].code, text, False)
        usual = [one for one in mine if not one.fused.startswith("Userbuffers")] or mine
        if usual:
            return Reason("FD245", "; ".join(self._needs(one, operand) for one in usual[:2]), False)
        later = [one for one in self._later if any(s.kinds and operand.is_a(s.kinds) for s in one.slots)]
        if later:
            since = ".".join(map(str, later[0].since))
            return Reason("FD246", f"{later[0].fused} takes it from Transformer Engine {since} on", False)
        return Reason("FD246", "no rule of Transformer Engine fuses it in this pass", False)

    def _near_misses(self, rules: Sequence[Rule], index: int) -> Iterator[tuple[Rule, Condition]]:
        basic = [_Taken(one.kind, (one,), False) for one in self.operands[self.first :]]
        taken = {i: item for item in self._items if item.fused for i in item.indexes}
        for rule in rules:
            for at in range(len(basic)):
                window = _match(rule, basic, at)
                skipped = sum(slot.beside for slot in rule.slots)
                if window is None or all(one.indexes[0] != index for one in window[skipped:]):
                    continue
                failing = self._failing(rule, window)
                if rule.fused.startswith("Userbuffers") and not any(
                    w.operands[0].facts.userbuffers for w in window
                ):
                    continue  # asked for by options alone
                if failing is not None:
                    yield rule, failing
                    continue
                for one in window[skipped:]:
                    other = taken.get(one.indexes[0])
                    if other is not None:
                        own = self._own.get(one.indexes[0])
                        into = f"{own.kind}, a fusion of the program's own" if own is not None else other.kind
                        name = f"{one.kind} next to it went into {into}"
                        yield rule, Condition("FD245", name, lambda window, plan: False)
                        break
                else:
                    why = "all that the rule needs is there, and Transformer Engine left it basic"
                    yield rule, Condition("FD249", why, lambda window, plan: False)

    def _needs(self, rule: Rule, operand: Operand) -> str:
        """``BackwardLinearScale needs ConstantScale after it, where Bias is``."""
        at = next(i for i, slot in enumerate(rule.slots) if slot.kinds and operand.is_a(slot.kinds))
        before, behind = rule.slots[:at][::-1], rule.slots[at + 1 :]
        sides = [
            (before, [self.operands[i] for i in range(operand.index - 1, self.first - 1, -1)], "before"),
            (behind, self.operands[operand.index + 1 :], "after"),
        ]
        parts = [_missing(slots, there, side) for slots, there, side in sides if not _stands(slots, there)]
        parts = parts or [_missing(slots, there, side) for slots, there, side in sides if slots]
        return f"{rule.fused} needs {' and '.join(parts)}"


def _stands(slots: Sequence[Slot], there: Sequence[Operand]) -> bool:
    """Whether the operators on one side of an operator fill the slots there."""
    at = 0
    for slot in slots:
        if at < len(there) and there[at].is_a(slot.kinds):
            at += 1
        elif not slot.optional:
            return False
    return True


def _missing(slots: Sequence[Slot], there: Sequence[Operand], side: str) -> str:
    names = [" or ".join(slot.kinds) if slot.kinds else "an operator" for slot in slots]
    shown = [f"[{name}]" if slot.optional else name for name, slot in zip(names, slots)]
    shown = shown[::-1] if side == "before" else shown
    found = there[0].kind if there else "nothing"
    return f"{', '.join(shown)} {side} it, where {found} is"


def _match(rule: Rule, items: Sequence[_Taken], at: int) -> list[_Taken] | None:
    """The operators from ``at`` on that fill the slots; an optional one is filled where it can be."""
    window: list[_Taken] = []
    for slot in rule.slots:
        item = items[at] if at < len(items) else None
        fits = item is not None and (not item.fused or slot.beside) and item.operands[-1].is_a(slot.kinds)
        if window and slot.modes and window[0].operands[-1].facts.tensor_parallel not in slot.modes:
            fits = False
        if item is not None and fits:
            window.append(item)
            at += 1
        elif not slot.optional:
            return None
    return window
