"""The advice on an operator that is in no group, in words that fit the run.

The general advice of a code is in ``model/codes.py``; here it is made specific: by
the recipe, by the owner of the line, by the run's recorded settings and its device.
Advice that contradicts the run is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fusiondoc import fusers, operators
from fusiondoc.changes.change import Change
from fusiondoc.changes.recipes import (
    Recipe,
    breaks_in_training,
    for_other_types,
    on_extremes,
)
from fusiondoc.diagnosis.advice_on_surroundings import (
    CHANGEABLE,
    barrier_of,
    instead_of_in_place,
    on_alone,
    on_order,
    on_separated,
)
from fusiondoc.diagnosis.changes_of_operators import (
    NO_RULE,
    is_replaceable,
    other_fusers,
)
from fusiondoc.diagnosis.of_fusers import remedy_of_condition, rules_of
from fusiondoc.diagnosis.planned_changes import in_their_names
from fusiondoc.diagnosis.recipes_of_rows import (
    answering_recipe,
    any_recipe,
    general_remedy,
    needs_knob,
    recipe_of,
)
from fusiondoc.diagnosis.rules import Owner, RunFacts, in_torch
from fusiondoc.fusers import facts_of, fuser_title
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons import (
    AloneInRegion,
    Argument,
    DissolvedRegion,
    NothingToGain,
    OutOfRegion,
    Overload,
    Stated,
    WithBlock,
    WritesOut,
)
from fusiondoc.model.reasons.lacking_constants import (
    condition_of,
    constant_attribute,
    reads_training_flag,
)
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.report import Unfused
from fusiondoc.parsers.ir.types import HALVES
from fusiondoc.parsers.jit.flow import PYTHON

NEEDS_SHAPES = Stated("no_shape_function")
"""A reason that does not apply to groups made for fixed shapes."""

_SUPPORTED = {"Float", "Double", "Bool", "Int", "Long"} | HALVES


@dataclass(frozen=True)
class Advice:
    remedy: Remedy | None
    recipe: Recipe | None = None
    """The recipe that the remedy suggests, if it is sure to help."""
    sure: bool = False
    """True if it brings the operator, or those that it keeps out, into a group."""


def advice_on(
    row: Unfused,
    run: RunFacts,
    change: Change | None,
    out_of_place: Change | None = None,
) -> Advice:
    """Return the advice on an operator: its planned change in words, else the
    advice for its reason.

    Args:
        change: the change that the plan has for this operator, if any.
        out_of_place: the change at lines that writes it, or what keeps it out, out
            of place, if that says more.
    """
    code = row.reason.code
    if code in NO_RULE and not needs_knob(row, run) and run.of_aot_gradient(row):
        return Advice(
            nothing(
                "Nothing: it belongs to the gradient of this line, which AOTAutograd writes."
            )
        )
    if out_of_place is not None:
        return Advice(_of_lines(out_of_place, row), sure=True)
    words = _OF_CHANGES.get(change.kind) if change is not None else None
    remedy = None
    if change is not None and words is not None:
        remedy = words(change, row, run)
    if remedy is not None:
        return Advice(
            remedy,
            sure=code not in NO_RULE or (change is not None and change.removes),
        )
    recipe = recipe_of(row, run) if is_replaceable(row, run) else None
    if recipe is not None:
        return _of_recipe(row, run, recipe)
    worded = _WORDED.get(code)
    if worded is not None:
        remedy = Remedy.of(worded(row, run))
    else:
        remedy = CODES[code].remedy
    return Advice(remedy, sure=code not in NO_RULE)


def _of_lines(change: Change, row: Unfused) -> Remedy:
    """Return a change of the operator, or of the one in between, in the words of its
    line, with its condition."""
    title, note = in_their_names(change), change.note or ""
    if row.op not in operators.IN_PLACE_ASSIGNS:
        title = f"Change {barrier_of(row)}: {title[:1].lower()}{title[1:]}"
    return Remedy(f"{title}.", f"{note[:1].upper()}{note[1:]}." if note else "")


def _of_recipe(row: Unfused, run: RunFacts, recipe: Recipe) -> Advice:
    """Return the advice to write the operator by a recipe; "nothing to do" where a
    function of torch calls it and the recipe replaces no module."""
    if recipe.module is None and in_torch(row.source):
        return Advice(
            nothing(
                f"Nothing, unless you write out the function of torch that calls {row.op}."
            )
        )
    sure = recipe.caution is None
    return Advice(
        Remedy.of(_by_recipe(row, run, recipe)), recipe if sure else None, sure
    )


# -- a change of the plan in words ---------------------------------------------------------------------------


def _of_freezing(change: Change, row: Unfused, run: RunFacts) -> Remedy | None:
    if not change.removes:
        return None
    return Remedy(
        f"It does nothing in inference, and freezing removes it: {run.freezing}."
    )


def _of_knob(change: Change, row: Unfused, run: RunFacts) -> Remedy | None:
    if needs_knob(row, run):
        return Remedy(f"{change.title}.", setting=change.setting)
    return None


def _of_out_of_place(change: Change, row: Unfused, run: RunFacts) -> Remedy:
    return Remedy.of(_in_place(row, run))


def _as_titled(change: Change, row: Unfused, run: RunFacts) -> Remedy | None:
    """Return the change's title and condition as a remedy; None for a line in a
    package, which only its author can change."""
    if run.owner(row) is Owner.PACKAGE:
        return None
    note = change.note or ""
    return Remedy(
        f"{change.title}.", f"{note[:1].upper()}{note[1:]}." if note else ""
    )


def _of_view(change: Change, row: Unfused, run: RunFacts) -> Remedy | None:
    """Like ``_as_titled``, for a view that keeps operators out. Whether any other
    view is worth moving, the plan decides."""
    if row.keeps_out and row.reason.code == "FD226":
        return _as_titled(change, row, run)
    return None


_OF_CHANGES: Mapping[
    ChangeKind, Callable[[Change, Unfused, RunFacts], Remedy | None]
] = {
    ChangeKind.FREEZE: _of_freezing,
    ChangeKind.KNOB: _of_knob,
    ChangeKind.OUT_OF_PLACE: _of_out_of_place,
    ChangeKind.NOT_INPLACE: _of_out_of_place,
    ChangeKind.BRANCH: _as_titled,
    ChangeKind.CONSTANT: _as_titled,
    ChangeKind.MOVE_VIEW: _of_view,
    ChangeKind.MOVE: _of_view,
}
"""Kinds of changes that are the whole advice. For other kinds the advice for the
reason adds more, or other ways."""


# -- whose operators no change is known for ------------------------------------------------------------------


def of_a_library(row: Unfused, run: RunFacts) -> bool:
    """True if it runs in a library's kernel that no known recipe replaces."""
    return row.op in operators.LIBRARY and answering_recipe(row, run) is None


def of_torch(row: Unfused, run: RunFacts) -> bool:
    """True if it is a line of torch's own gradient formulas."""
    return run.owner(row) is Owner.FORMULA and row.reason.code not in (
        "FD103",
        "FD226",
        "FD235",
    )


def between_libraries(row: Unfused, run: RunFacts) -> bool:
    """True if only library kernels stand between it and operators it could fuse
    with."""
    if row.reason.code != "FD227":
        return False
    barrier = barrier_of(row)
    return barrier in operators.LIBRARY and any_recipe(barrier, run) is None


def _by_recipe(row: Unfused, run: RunFacts, recipe: Recipe) -> str | Remedy:
    owner = run.owner(row)
    if row.reason.code == "FD231" and row.op == "aten::to":
        return "Write x.type_as(y) instead of x.to(...), where y has that type and device: it has a formula."
    conditions = "; ".join(text for text in (recipe.needs, recipe.caution) if text)
    more = f" ({conditions})" if conditions else ""
    name = row.op.rsplit("::", 1)[1].rstrip("_")
    if recipe.module is not None and owner in (Owner.PACKAGE, Owner.TORCH):
        return Remedy(
            f"Replace {recipe.module} by a module with {recipe.after}{more};",
            f"from outside: fusiondoc explain {name}",
        )
    end = f": fusiondoc explain {name}" if recipe.helper else "."
    step = f"Write {recipe.words}{more}"
    if owner is Owner.PACKAGE:
        return Remedy(
            f"{step};",
            f"the line is in a package: change a copy of its module{end}",
        )
    return step + end


_IN_PYTHON = "Write the function in TorchScript, without @torch.jit.ignore"


def _no_rule(row: Unfused, run: RunFacts) -> str | Remedy:
    if row.op.startswith(PYTHON):
        return Remedy(
            f"{_IN_PYTHON};",
            "or call it before or after the operators that should fuse.",
        )
    extremes = on_extremes(row.op, row.reason.detail, run.fuser, run.gradients)
    if extremes is not None:
        return extremes
    if run.fuser is not None and fusers.taken_by(row.op, run.fuser, run.torch):
        exact = _other_arguments(row, run)
        if exact is not None:
            return exact
        text = "Make its dimensions, sizes and flags constants"
    else:
        text = _moved(row) if row.op in operators.PLACES_ELEMENTS else ""
    others = " or ".join(f"--fuser {name}" for name in other_fusers(row.op, run))
    if not text and not others:
        return nothing(
            f"Nothing: no fuser here takes {row.op}, and no known recipe replaces it."
        )
    if text and others:
        return f"{text}, or try {others}."
    return f"{text or f'Try {others}'}."


def _moved(row: Unfused) -> str:
    """Return where to move an operator that computes nothing."""
    if row.keeps_out:
        behind = "the operators that it separates"
    else:
        behind = "both, if it is between two groups"
    return f"Move it before or after {behind}, if these are element-wise"


def _other_arguments(row: Unfused, run: RunFacts) -> str | Remedy | None:
    """Return the advice on an operator that the fuser takes with other arguments,
    if the reason names them; else None."""
    detail = row.reason.detail
    if reads_training_flag(detail):
        return _argument(row, run)
    if breaks_in_training(row.op, run.fuser, run.gradients):
        return nothing(
            f"Nothing in training: with constant dimensions {fuser_title(run.fuser or '')} takes it, and"
            " the run fails where its result is added or subtracted (FD307).",
            "Under torch.no_grad() name its dimensions.",
        )
    if isinstance(detail, Argument):
        return _OF_ARGUMENTS.get(detail.problem)
    if (
        isinstance(detail, Overload)
        and detail.given == "number_first"
        and row.op != "aten::pow"
    ):
        return "Put the number into a tensor, made once: torch.full_like(x, 2.0)."
    if isinstance(detail, Overload):
        return rules_of(detail.fuser).calls.get(row.op)
    return None


_OF_ARGUMENTS: Mapping[str, str] = {
    "unknown_number": "Convert the number where it is made, float(x.item()), or keep it in a tensor"
    " without dimensions.",
    "not_floating": "Reduce in a floating-point type, and cast the result.",
}
"""``Argument.problem`` -> advice."""


def _in_place(row: Unfused, run: RunFacts) -> str | Remedy:
    if isinstance(row.reason.detail, WritesOut):
        name = row.op.rpartition("::")[2]
        return f"Take the result that torch.{name}(...) returns without out=, instead of that tensor."
    if row.op in operators.FILLS:
        name = row.op.rpartition("::")[2]
        filled = (
            f"Make a filled tensor, x = {operators.FILLS[row.op]} for x.{name}(...)"
        )
        return Remedy(
            f"{filled};", "for a part of a tensor, select with torch.where."
        )
    if _gains_nothing_out_of_place(row, run):
        plain = row.op.rstrip("_")
        return nothing(
            f"Nothing: {fuser_title(run.fuser or '')} does not take {plain} either."
        )
    if row.op in operators.WITH_FLAG and in_torch(row.source):
        return Remedy(
            "Set inplace=False where the module is made, or in the call of the function;",
            "or from outside, before torch.jit.script: for m in [m for m in model.modules() if"
            " hasattr(m, 'inplace')]: m.inplace = False",
        )
    sign = operators.sign_of(row.op)
    if row.op in operators.IN_PLACE_ASSIGNS:
        text = "It is an assignment to a part of a tensor: select with torch.where, or join parts with torch.cat"
    elif sign is not None:
        text = f"Write x = x {sign} y instead of x {sign}= y"
    else:
        text = f"Write the version without the underscore: x = x.{row.op.rsplit('::', 1)[1][:-1]}(...)"
    if run.owner(row) in (Owner.PACKAGE, Owner.TORCH):
        in_a_package = "the line is in a package: change a copy of its module, or override its forward."
        return Remedy(f"{text};", in_a_package)
    return f"{text}."


def _gains_nothing_out_of_place(row: Unfused, run: RunFacts) -> bool:
    """True if the fuser does not take the out-of-place version either, and no other
    operator is kept out by this one."""
    if run.fuser is None or row.keeps_out or row.op in operators.IN_PLACE_ASSIGNS:
        return False
    return not fusers.taken_by(row.op.rstrip("_"), run.fuser, run.torch)


def _gradient(row: Unfused, run: RunFacts) -> str | Remedy:
    if operators.sign_of(row.op) is not None or row.op in operators.WITH_FLAG:
        return _in_place(row, run)
    if row.op.startswith(PYTHON):
        return f"{_IN_PYTHON}, with operators that have a gradient formula."
    detail = row.reason.detail
    if isinstance(detail, DissolvedRegion) and detail.why in (
        "lost_at_border",
        "not_profiled",
    ):
        return nothing(
            "Nothing in training: torch loses that type itself.",
            "Under torch.no_grad() no such graph is made.",
        )
    if isinstance(detail, AloneInRegion):
        return _alone_in_region(detail, run)
    if isinstance(detail, OutOfRegion):
        return _without_formula(run)
    return _in_training(_WITHOUT_FORMULA, run)


def _without_formula(run: RunFacts) -> Remedy:
    """Return the advice on an operator without a gradient formula and without a
    recipe."""
    if run.backward:
        return nothing(
            "Nothing in training: no other way to write it with a gradient formula is known."
        )
    return Remedy(
        "If this is inference, run it under torch.no_grad().",
        "For training no other way to write it with a gradient formula is known.",
    )


def _alone_in_region(detail: AloneInRegion, run: RunFacts) -> str | Remedy:
    """Return the advice on an operator alone in its differentiable graph, by the
    operators that end this graph."""
    if detail.detour is not None and detail.detour.by == "write":
        return "Change the attribute or argument before or after these operators, if that code is yours."
    ends = [end for end in detail.ends if end.gap.why in CHANGEABLE]
    in_place = instead_of_in_place(ends[0], run) if ends else None
    if (
        in_place is None
        and ends
        and all(end.operator.op in operators.LIBRARY for end in ends)
    ):
        return nothing("Nothing: its neighbours are kernels of libraries.")
    return _in_training(in_place or _WITHOUT_FORMULA, run)


_WITHOUT_FORMULA = "move operators without a gradient formula out of the block"


def _in_training(training: str, run: RunFacts) -> str | Remedy:
    """Return the advice where gradients are recorded: first to record none, unless
    a backward pass ran."""
    small = "--knob autodiff_inlining=off keeps small regions."
    if run.backward:
        step = f"{training[0].upper()}{training[1:]}"
        if run.live:
            return Remedy(f"{step};", small)
        return f"{step}."
    training += f"; {small}" if run.live else "."
    return Remedy(
        "If this is inference, run it under torch.no_grad().",
        f"For training {training}",
    )


_OF_LOOPS: Mapping[str, str | Remedy] = {
    "counted_loop": "torch unrolls a body of up to 32 nodes, those of functions and branches in it counted:"
    " shorten it, or write the steps out.",
    "loop": Remedy(
        "Give the loop a number of steps, for i in range(n), which torch unrolls;",
        "one with a condition stays a loop.",
    ),
    **dict.fromkeys(
        ("unrolled_loop", "remainder_of_loop"),
        nothing(
            "Nothing, or give the loop a constant number of steps: for i in range(5) leaves no loop."
        ),
    ),
}
"""``Condition.on`` of a loop -> advice."""


def _control_flow(row: Unfused, run: RunFacts) -> str | Remedy:
    if isinstance(row.reason.detail, WithBlock):
        return "Put operators that belong together all into the with block, or all before or after it."
    condition, owner = condition_of(row.reason.detail), run.owner(row)
    if condition is not None and condition.on in ("training", "attribute"):
        when = "" if run.gradients is False else "for inference, "
        parts = [] if run.frozen else [f"{when}freeze it ({run.freezing})"]
        if (
            owner not in (Owner.PACKAGE, Owner.TORCH)
            and constant_attribute(condition) is not None
        ):
            parts.append("declare it torch.jit.Final")
        if not run.traced:
            parts.append("trace the module instead of scripting it")
        return f"Make it a constant: {', or '.join(parts)}."
    if condition is not None and condition.on in _OF_LOOPS:
        return _OF_LOOPS[condition.on]
    if owner in (Owner.PACKAGE, Owner.TORCH):
        return (
            "The branch is in a package: if its inputs always take one side, trace the module instead of"
            " scripting it."
        )
    return general_remedy("FD229")


def _types(row: Unfused, run: RunFacts) -> str | Remedy:
    if row.op.startswith("aten::_autocast_to_"):
        return nothing(
            "Nothing, if you need autocast: it adds this cast.",
            "Else end its block before these lines.",
        )
    exact = for_other_types(row.reason.detail)
    if exact is not None:
        return exact
    if run.dtypes and run.dtypes <= _SUPPORTED:
        return "Its dtypes are supported: make its other arguments constants."
    return general_remedy("FD215")


def _dtype(row: Unfused, run: RunFacts) -> str:
    only = bool(run.devices) and run.devices.isdisjoint(
        facts_of(run.fuser).limits.halves_on
    )
    kinds = "float32" if only else "float32, float16 or bfloat16"
    kinds = "the dtype of the rest" if run.dtypes & HALVES else kinds
    return (
        f"Compute in {kinds} if the result allows it, and cast outside the block."
    )


def _device(row: Unfused, run: RunFacts) -> str | Remedy:
    if "cpu" not in facts_of(run.fuser).limits.devices:
        others = []
        for other in facts_of(run.fuser).instead:
            if "cpu" in facts_of(other).limits.devices:
                others.append(other)
        also = f"{fuser_title(others[0])} fuses on the CPU too." if others else ""
        return Remedy("Move its tensors to the GPU: .to('cuda').", also)
    return "Move its tensors to the device of the others."


def _not_on_this_device(row: Unfused, run: RunFacts) -> str | Remedy:
    for device, name in (("cuda", "gpu"), ("cpu", "cpu")):
        if run.devices == {device}:
            return f"Turn fusion on for its device: torch._C._jit_override_can_fuse_on_{name}(True)."
    return general_remedy("FD213")


def _nothing_to_gain(row: Unfused, run: RunFacts) -> str | Remedy:
    detail = row.reason.detail
    if isinstance(detail, NothingToGain) and detail.does in ("copies", "may_copy"):
        return nothing(
            "Nothing, if the next operators need that order in memory;",
            "else permute or transpose last, which saves the copy.",
        )
    return general_remedy("FD226")


_HOLD_THE_LIST = (
    "Make its tensors with out-of-place operators that have a gradient formula: then its differentiable"
    " graph holds the list too."
)


def _argument(row: Unfused, run: RunFacts) -> str | Remedy:
    detail = row.reason.detail
    if reads_training_flag(detail) and not run.frozen:
        when = "" if run.gradients is False else "for inference, "
        if run.traced:
            other = ""
        else:
            other = ", or trace the module instead of scripting it"
        return (
            f"Make it a constant: {when}freeze the module ({run.freezing}){other}."
        )
    if not isinstance(detail, Stated):
        return general_remedy("FD219")
    if detail.condition == "view_shared":
        return _view_shared(row, run)
    if detail == NEEDS_SHAPES:
        knob = " (--knob fusion_strategy=STATIC:10)" if run.live else ""
        return f"Let groups be made for fixed shapes: torch.jit.set_fusion_strategy([('STATIC', 10)]){knob}."
    if detail.condition == "list_given" and run.gradients:
        return _HOLD_THE_LIST
    if detail.condition in ("list_elsewhere", "cat_elsewhere") and run.gradients:
        return Remedy(
            str(remedy_of_condition(detail.condition)),
            "If it is written so already, the operators that make the tensors are outside its differentiable"
            " graph: they change a tensor in place, or have no gradient formula.",
        )
    return remedy_of_condition(detail.condition) or general_remedy("FD219")


def _view_shared(row: Unfused, run: RunFacts) -> str | Remedy:
    """Return the advice on a view that is also read outside the group."""
    if row.op == "prim::ConstantChunk":
        return (
            "For uses outside the group take x.narrow(1, 0, n) instead of the chunk: then all uses of the"
            " chunk are in the group."
        )
    if run.gradients and row.phase == "forward":
        return nothing("Nothing in training, if the gradient reads this view, too.")
    return remedy_of_condition("view_shared") or general_remedy("FD219")


def _not_profiled(row: Unfused, run: RunFacts) -> str:
    runs = " (--runs)" if run.live else ""
    return (
        f"Run the code in the first passes too{runs}, with all its branches, so that its tensors are"
        " profiled."
    )


def _unknown(row: Unfused, run: RunFacts) -> str | Remedy:
    known = rules_of(run.fuser).unexplained
    if known is not None:
        return known
    if run.live:
        name = fuser_title(run.fuser) if run.fuser else "torch"
        return nothing(f"{name} states no reason: please report it to fusiondoc.")
    return general_remedy("FD299")


_WORDED: Mapping[str, Callable[[Unfused, RunFacts], str | Remedy]] = {
    **dict.fromkeys(NO_RULE, _no_rule),
    "FD213": _not_on_this_device,
    "FD215": _types,
    "FD216": on_order,
    "FD219": _argument,
    "FD222": _device,
    "FD223": _dtype,
    "FD225": on_alone,
    "FD226": _nothing_to_gain,
    "FD227": on_separated,
    "FD229": _control_flow,
    "FD230": _in_place,
    "FD231": _gradient,
    "FD232": _not_profiled,
    "FD299": _unknown,
}
