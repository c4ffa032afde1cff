"""Which change could bring an operator into a group: a table by the reason why it
is in none and by the operator's name.

The first row of the table that fits and makes a change decides.
``suggested_changes.py`` finds the lines of the program for it, and ``gains.py`` its
gain; the advice on the operator is in ``advice.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from fusiondoc.changes.change import Change
from fusiondoc.changes.recipes import Recipe, breaks_in_training, on_extremes
from fusiondoc.diagnosis.operator_in_plan import NOTHING_TO_GAIN
from fusiondoc.diagnosis.recipes_of_rows import (
    needs_knob,
    recipe_of,
    setting_of_knob,
    with_knob,
)
from fusiondoc.diagnosis.rules import Owner, RunFacts, in_torch
from fusiondoc.fusers import (
    by_constant_dimension,
    choices,
    facts_of,
    fuser_title,
    fusible_by,
    is_fusible,
    operators_of_knobs,
    taken_by,
    taken_by_default,
    with_dimensions_only,
)
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import Argument, ControlFlow, Detail, NotConstant
from fusiondoc.model.reasons.lacking_constants import (
    condition_of,
    constant_attribute,
    reads_training_flag,
)
from fusiondoc.model.remedies import FROZEN, TRACED, Setting
from fusiondoc.model.report import Unfused
from fusiondoc.operators import (
    CALLED_BY,
    FILLS,
    IN_PLACE_ASSIGNS,
    LIBRARY,
    PERMUTATIONS,
    PLACES_ELEMENTS,
    SAME_ELEMENTS,
    WITH_FLAG,
    WITH_FORMULA,
    is_in_place,
    sign_of,
)

NO_RULE = ("FD201", "FD211", "FD233")
"""Reasons that can be resolved only by writing the operator in another way or by
moving it."""

_REPLACEABLE = frozenset([*NO_RULE, "FD215", "FD219", "FD230", "FD231"])
"""Reasons that can be resolved by writing the operator in another way."""

Maker = Callable[[Unfused, RunFacts], "Change | None"]
"""Makes the change for an operator of a run; returns None if there is none, and
then a later row decides."""


@dataclass(frozen=True)
class Treatment:
    """A row of the table: a condition on operators, and the change for those that
    meet it.

    It fits an operator whose reason is one of ``codes``, whose name is one of
    ``ops``, whose detail has the type ``detail``, and for which ``when`` holds;
    None matches any.
    """

    change: Maker
    when: Callable[[Unfused, RunFacts], bool] | None = None
    codes: Collection[str] | None = None
    ops: Collection[str] | None = None
    detail: type[Detail] | None = None
    decides: bool = False
    """True if no later row is tried for an operator that this row fits."""

    def fits(self, row: Unfused, run: RunFacts) -> bool:
        if self.codes is not None and row.reason.code not in self.codes:
            return False
        if self.ops is not None and row.op not in self.ops:
            return False
        if self.detail is not None and not isinstance(
            row.reason.detail, self.detail
        ):
            return False
        return self.when is None or self.when(row, run)


def change_of(row: Unfused, run: RunFacts) -> Change | None:
    """Return the change that an operator outside groups suggests, without its row
    and its lines."""
    for treatment in TREATMENTS:
        if not treatment.fits(row, run):
            continue
        made = treatment.change(row, run)
        if made is not None or treatment.decides:
            return made
    return None


# -- conditions of several changes ---------------------------------------------------------------------------


def does_nothing_in_inference(row: Unfused, run: RunFacts) -> bool:
    """True if it is a dropout in an inference run, which freezing removes."""
    inference = run.gradients is False and not run.backward and not run.frozen
    return inference and row.op in ("aten::dropout", "aten::dropout_")


def other_fusers(op: str, run: RunFacts) -> list[str]:
    """Return the other fusers that take the operator and can run on this run's
    device and torch, as far as known."""
    takers = fusible_by(op, run.torch) - {run.fuser}
    fusers = []
    for name in choices():
        if name in takers and _can_take(facts_of(name), op, run):
            fusers.append(name)
    return fusers


def _can_take(other: Fuser, op: str, run: RunFacts) -> bool:
    """True if a fuser can run on this run's device and torch, and takes the
    operator by default."""
    device = next((name for name in ("cuda", "cpu") if name in run.devices), None)
    if len(other.limits.devices) == 1 and device not in other.limits.devices:
        return False
    if other.limits.until is not None and run.torch is None:
        return False
    if not other.limits.in_training and run.gradients is not False:
        return False
    if other.switches.device_knobs and not run.live:
        return False  # a log does not show whether it was switched on
    return op not in other.operators.seldom


def _takes(op: str, run: RunFacts) -> bool:
    if run.fuser is None:
        return is_fusible(op)
    return taken_by(op, run.fuser, run.torch)


def _is_inference(run: RunFacts) -> bool:
    """True if freezing can help: no backward pass ran, and the module is not
    frozen."""
    return not run.backward and not run.frozen


def _is_changeable(row: Unfused, run: RunFacts) -> bool:
    """True if its line may be the user's, or belongs to a package that can be
    copied."""
    return run.owner(row) not in (Owner.TORCH, Owner.FORMULA)


def _is_movable(row: Unfused, run: RunFacts) -> bool:
    return _is_changeable(row, run) and row.phase != "backward"


def _name(row: Unfused) -> str:
    """Return ``add_`` for ``aten::add_``."""
    return row.op.rpartition("::")[2]


# -- changes of the run --------------------------------------------------------------------------------------

NO_GRAD = "Run it under torch.no_grad()"


def _take_dropout_out(row: Unfused, run: RunFacts) -> Change:
    return _freeze(run, "dropout does nothing in inference", removes=True)


def _freeze(run: RunFacts, why: str, removes: bool = False) -> Change:
    before = after = None
    if run.traced is not None:
        if run.traced:
            before = "torch.jit.trace(model, inputs)"
        else:
            before = "torch.jit.script(model)"
        after = run.freezing
    return Change(
        ChangeKind.FREEZE,
        f"Freeze it: {run.freezing}",
        before=before,
        after=after,
        note=why,
        setting=FROZEN,
        removes=removes,
    )


def _turn_knob_on(row: Unfused, run: RunFacts) -> Change:
    return Change(
        ChangeKind.KNOB,
        with_knob(run),
        setting=setting_of_knob(run),
        python=None if run.live else "",
    )


def _may_be_turned_on(row: Unfused, run: RunFacts) -> bool:
    one_device = (
        bool(facts_of(run.fuser).switches.device_knobs) and len(run.devices) == 1
    )
    return one_device and row.op not in LIBRARY and _takes(row.op, run)


def _turn_device_on(row: Unfused, run: RunFacts) -> Change:
    device = "cuda" if "cuda" in run.devices else "cpu"
    knobs = facts_of(run.fuser).switches.device_knobs[device]
    note = None
    if device == "cpu":
        note = (
            "a torch without LLVM (the wheels of 2.1 and newer) then interprets groups, slowly: it shows what"
            " fuses"
        )
    change = f"Let {fuser_title(run.fuser or '')} fuse on the {'GPU' if device == 'cuda' else 'CPU'}"
    return Change(ChangeKind.KNOB, change, note=note, setting=Setting(knobs=knobs))


def _depends_on_training(row: Unfused, run: RunFacts) -> bool:
    return reads_training_flag(row.reason.detail)


def _make_training_constant(row: Unfused, run: RunFacts) -> Change | None:
    if _is_inference(run):
        return _freeze(
            run, "its flag `training` becomes a constant; for inference only"
        )
    if run.traced or not run.live:
        return None
    return Change(
        ChangeKind.TRACE,
        "Trace the model instead of scripting it, so that flags become constants",
        before="torch.jit.script(model)",
        after="torch.jit.trace(model, inputs)",
        setting=TRACED,
    )


def _gains_without_gradients(row: Unfused, run: RunFacts) -> bool:
    if not run.gradients or run.backward:
        return False
    if run.fuser is not None:
        taken = _takes(row.op, run)
    else:
        taken = taken_by_default(row.op)
    return taken and row.op not in LIBRARY and row.op not in NOTHING_TO_GAIN


def _run_without_gradients(row: Unfused, run: RunFacts) -> Change:
    return Change(
        ChangeKind.NO_GRAD,
        NO_GRAD,
        before="y = model(x)",
        after="with torch.no_grad(): y = model(x)",
        note="for inference: gradients are recorded, and no backward pass ran",
    )


# -- changes of the program ----------------------------------------------------------------------------------


def _waits_for_number(row: Unfused, run: RunFacts) -> bool:
    unknown = row.reason.detail == Argument("unknown_number")
    return unknown and run.owner(row) is Owner.USER and _takes(row.op, run)


def _keep_tensor(row: Unfused, run: RunFacts) -> Change:
    note = "this also avoids waiting for its value"
    return Change(
        ChangeKind.NUMBER, "Keep the tensor instead of its .item()", note=note
    )


def _has_other_version(row: Unfused, run: RunFacts) -> bool:
    """True if it works in place and the fuser takes its out-of-place version."""
    if not is_in_place(row.op) or row.op in IN_PLACE_ASSIGNS or row.op in FILLS:
        return False
    plain = row.op[:-1]
    without_formula = (
        run.gradients and row.phase != "backward" and plain not in WITH_FORMULA
    )
    return _takes(plain, run) and not without_formula


def _write_out_of_place(row: Unfused, run: RunFacts) -> Change:
    name = _name(row)[:-1]
    if row.op in WITH_FLAG and (
        in_torch(row.source) or run.owner(row) is Owner.TORCH
    ):
        module = CALLED_BY.get(name, (name,))[0]
        return Change(
            ChangeKind.NOT_INPLACE,
            f"Set inplace=False on {module}",
        )
    sign = sign_of(row.op)
    before, after = f"{name}_()", f"{name}()"
    if sign is not None:
        before, after = f"x {sign}= y", f"x = x {sign} y"
    return Change(ChangeKind.OUT_OF_PLACE, f"Write {after} instead of {before}")


def _assigns_what_can_be_joined(row: Unfused, run: RunFacts) -> bool:
    """True for an assignment by a mask or to a slice; not by indexes (``scatter_``,
    ``masked_scatter_``)."""
    return "scatter" not in row.op and _is_changeable(row, run)


def _assign_no_part(row: Unfused, run: RunFacts) -> Change:
    title = "Join the parts with torch.cat instead of assigning a slice"
    if row.op == "aten::index_put_":
        title = "Select with torch.where instead of assigning elements by a mask"
    return Change(ChangeKind.OUT_OF_PLACE, title)


def _depends_on_attribute(row: Unfused, run: RunFacts) -> bool:
    condition = condition_of(row.reason.detail)
    return condition is not None and condition.on == "attribute"


def _make_attribute_constant(row: Unfused, run: RunFacts) -> Change | None:
    attribute = constant_attribute(condition_of(row.reason.detail))
    if attribute is not None and run.owner(row) is Owner.USER:
        flag, kind = attribute
        return Change(
            ChangeKind.ANNOTATION,
            f"Declare the attribute {flag} torch.jit.Final[{kind}], so that the branch goes",
        )
    if not _is_inference(run):
        return None
    return _freeze(run, "attributes become constants; for inference only")


def _take_branch_out(row: Unfused, run: RunFacts) -> Change | None:
    """Return the change that removes a branch, by the value that its condition
    reads."""
    condition = condition_of(row.reason.detail)
    on = condition.on if condition is not None else None
    if on == "tensor_value":
        return Change(
            ChangeKind.BRANCH,
            "Select with torch.where instead of branching on a tensor's value",
            note="both sides are then computed; the condition stays a tensor, without bool() and .item()",
            conditional=True,
        )
    if on == "argument":
        return Change(
            ChangeKind.CONSTANT,
            "Make the flag a constant: a function for each value, chosen before the scripted code",
            note="a module has it as an attribute that is declared torch.jit.Final",
            conditional=True,
        )
    return None


def _move(row: Unfused, run: RunFacts) -> Change:
    """Suggest to move a view or a permutation.

    A permutation moves after operators of a single tensor only: any other tensor
    that meets its result would have to be permuted back.
    """
    name = _name(row)
    title = f"Move the {name} after the operators that follow it"
    kind, note = ChangeKind.MOVE, "if these are element-wise"
    if row.op not in PERMUTATIONS:
        kind, title = (
            ChangeKind.MOVE_VIEW,
            f"{title}, or before those that precede it",
        )
        note = f"if one side of it is element-wise; other tensors there need the {name} too"
    return Change(
        kind,
        title,
        note=note,
        conditional=True,
    )


def _to_be_constant(detail: Detail | None) -> str | None:
    """Return the arguments that could be written as constants, as part of a
    sentence; None if the reason is another, or if their values vary between
    runs."""
    if (
        not isinstance(detail, NotConstant)
        or detail.runs is not None
        or not detail.arguments
    ):
        return None
    return " and ".join(f"`{name}`" for name in detail.arguments)


def _may_name_dimensions(row: Unfused, run: RunFacts) -> bool:
    return _is_changeable(row, run) and not breaks_in_training(
        row.op, run.fuser, run.gradients
    )


def _make_dimensions_constant(row: Unfused, run: RunFacts) -> Change | None:
    constants = _to_be_constant(row.reason.detail)
    if constants is None:
        return None
    name = _name(row)
    return Change(
        ChangeKind.CONSTANT,
        f"Give {name}() constants for {constants}",
        note="numbers in the code, or attributes that are declared torch.jit.Final, not arguments",
    )


def is_replaceable(row: Unfused, run: RunFacts) -> bool:
    """True if writing the operator in another way can resolve the reason."""
    return row.reason.code in _REPLACEABLE or (
        row.reason.code == "FD226" and bool(row.keeps_out)
    )


def _write_by_recipe(row: Unfused, run: RunFacts) -> Change | None:
    recipe = recipe_of(row, run)
    if recipe is None or recipe.caution is not None:
        return None
    name = _name(row).rstrip("_")
    before, after = recipe.before, recipe.after
    if recipe.shown:
        after, _, before = recipe.shown.partition(" instead of ")
    dimensions = recipe.arguments and row.op in with_dimensions_only()
    if dimensions:
        words = "with its dimensions named"
    else:
        words = "with operators that fuse"
    return Change(
        ChangeKind.DIMENSIONS if dimensions else ChangeKind.RECIPE,
        f"Write {name}() {words}",
        before=before,
        after=after,
        note="; ".join(_conditions(row, run, recipe)) or None,
        sure=not recipe.shown,
        conditional=recipe.needs is not None and not dimensions,
        parts=len(recipe.operators),
    )


def _conditions(row: Unfused, run: RunFacts, recipe: Recipe) -> Sequence[str]:
    """Return the conditions of a recipe, and further notes on it."""
    needs = recipe.needs or ""
    if row.op == "aten::to" and row.reason.code == "FD231":
        needs = needs.partition("; ")[
            0
        ]  # with a dtype alone it has no gradient formula either
    found = [needs] if needs else []
    if recipe.at_kinks is not None and run.gradients:
        found.append(recipe.at_kinks)
    if recipe.helper:
        found.append(f"fusiondoc explain {_name(row).rstrip('_')} has the function")
    return found


def _runs_on_gpu_alone(row: Unfused, run: RunFacts) -> bool:
    return "cpu" not in facts_of(run.fuser).limits.devices


def _move_to_gpu(row: Unfused, run: RunFacts) -> Change:
    return Change(
        ChangeKind.DEVICE,
        "Move its tensors to the GPU",
        before="x",
        after="x.to('cuda')",
    )


def _put_on_one_device(row: Unfused, run: RunFacts) -> Change:
    return Change(
        ChangeKind.DEVICE,
        "Put all its tensors on one device",
        before="x",
        after="x.to(y.device)",
    )


def _keeps_others_out(row: Unfused, run: RunFacts) -> bool:
    return bool(row.keeps_out) and row.op not in LIBRARY and not is_in_place(row.op)


def _do_without_rule(row: Unfused, run: RunFacts) -> Change | None:
    """Suggest a change if no sure recipe is known: another fuser, a recipe that is
    not always exact, or moving an operator that computes nothing.

    Moving an operator that computes would change results: ``sigmoid(cumsum(x))`` is
    not ``cumsum(sigmoid(x))``.
    """
    name = _name(row)
    extremes = on_extremes(row.op, row.reason.detail, run.fuser, run.gradients)
    others = other_fusers(row.op, run) if extremes is None else []
    if others:
        change = f"Try {' or '.join(f'--fuser {other}' for other in others)}, which takes {name}"
        return Change(
            ChangeKind.FUSER, change, setting=Setting(fuser=others[0]), sure=False
        )
    recipe = recipe_of(row, run)
    if recipe is not None and recipe.caution is not None:
        return Change(
            ChangeKind.RECIPE,
            f"Write {recipe.words}",
            note=recipe.caution,
            sure=False,
        )
    if row.op not in PLACES_ELEMENTS:
        return None
    return Change(
        ChangeKind.MOVE,
        f"Move {name} before or after the operators that it separates",
        note="if these are element-wise",
        sure=False,
        conditional=True,
    )


# -- the table -----------------------------------------------------------------------------------------------

_WITH_KNOBS: frozenset[str] = frozenset().union(*operators_of_knobs().values())
_OF_VIEWS = ("FD226", "FD231", "FD201", "FD211", "FD233")
_OF_TRAINING = ("FD219", "FD229", "FD201", "FD211", "FD215")

TREATMENTS: Sequence[Treatment] = (
    Treatment(_take_dropout_out, does_nothing_in_inference),
    Treatment(_keep_tensor, _waits_for_number, detail=Argument),
    Treatment(
        _write_out_of_place, _has_other_version, codes=("FD216", "FD230", "FD231")
    ),
    Treatment(_assign_no_part, _assigns_what_can_be_joined, ops=IN_PLACE_ASSIGNS),
    Treatment(
        _turn_knob_on, needs_knob, codes=(*NO_RULE, "FD219"), ops=_WITH_KNOBS
    ),
    Treatment(_turn_device_on, _may_be_turned_on, codes=("FD213",)),
    Treatment(
        _make_training_constant,
        _depends_on_training,
        codes=_OF_TRAINING,
        decides=True,
    ),
    Treatment(
        _make_attribute_constant,
        _depends_on_attribute,
        detail=ControlFlow,
        decides=True,
    ),
    Treatment(
        _take_branch_out,
        _is_changeable,
        codes=("FD229",),
        ops=("prim::If",),
        decides=True,
    ),
    Treatment(_move, _is_movable, ops=PERMUTATIONS),
    Treatment(_move, _is_movable, codes=_OF_VIEWS, ops=SAME_ELEMENTS),
    Treatment(
        _make_dimensions_constant, _may_name_dimensions, ops=by_constant_dimension()
    ),
    Treatment(_write_by_recipe, is_replaceable),
    Treatment(
        _run_without_gradients, _gains_without_gradients, codes=("FD231", "FD103")
    ),
    Treatment(_move_to_gpu, _runs_on_gpu_alone, codes=("FD204", "FD222")),
    Treatment(_do_without_rule, _keeps_others_out, codes=NO_RULE),
    Treatment(_put_on_one_device, codes=("FD221",)),
)
"""The order counts: a change of the run that leaves the operator as it is comes
before a change that rewrites it."""
