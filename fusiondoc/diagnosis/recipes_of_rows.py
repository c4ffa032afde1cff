"""The recipes for the operators of one run: by its fuser, its torch and the
reason why each operator was refused; and the remedies that several kinds of
advice share."""

from __future__ import annotations

from fusiondoc.changes.recipes import (
    Recipe,
    for_other_types,
    helping,
    recipe_answering,
    recipe_for,
)
from fusiondoc.diagnosis.rules import RunFacts
from fusiondoc.fusers import facts_of, fuser_title
from fusiondoc.fusers.taken_operators import WithKnob
from fusiondoc.model.codes import CODES
from fusiondoc.model.remedies import Remedy, Setting
from fusiondoc.model.report import Unfused


def recipe_of(row: Unfused, run: RunFacts) -> Recipe | None:
    """Return the recipe for an operator, by its position and its reason. No recipe
    helps with a type that the fuser refused."""
    if for_other_types(row.reason.detail) is not None or run.of_aot_gradient(row):
        return None
    if row.index in run.mixed_casts:
        return None  # no tensor is known to have the type that type_as() would need
    found = answering_recipe(row, run)
    if found is not None and found.follows and run.at_the_end(row):
        return None
    return found


def recipes_of(row: Unfused, run: RunFacts) -> tuple[Recipe, ...]:
    """Return that recipe, and further ones for other arguments of the operator with
    the same conditions: the line shows which of them fits."""
    first = recipe_of(row, run)
    if first is None or run.fuser is None:
        return ()
    every = helping(row.op, run.fuser, run.torch, run.gradients)
    same = []
    for one in every:
        if (one.needs, one.answers) == (first.needs, first.answers):
            same.append(one)
    return (first, *(one for one in same if one is not first))


def any_recipe(op: str, run: RunFacts) -> Recipe | None:
    """Return the first recipe for an operator, whatever the reason of its
    refusal."""
    if run.fuser is None:
        return None
    return recipe_for(op, run.fuser, run.torch, run.gradients)


def answering_recipe(row: Unfused, run: RunFacts) -> Recipe | None:
    """Return the recipe for an operator that resolves the reason of its refusal."""
    if run.fuser is None:
        return None
    return recipe_answering(
        row.reason.detail, row.op, run.fuser, run.torch, run.gradients
    )


def needs_knob(row: Unfused, run: RunFacts) -> bool:
    """True if the fuser takes the operator only with a knob."""
    return takes_with_knob(row.op, run)


def takes_with_knob(op: str, run: RunFacts) -> bool:
    knob = facts_of(run.fuser).operators.with_knob
    return knob is not None and op in knob.operators


def _knob(run: RunFacts) -> WithKnob:
    knob = facts_of(run.fuser).operators.with_knob
    assert knob is not None  # called only for operators that need one
    return knob


def setting_of_knob(run: RunFacts) -> Setting:
    """Return the setting of the knob with which the fuser takes more operators."""
    return Setting(knobs={_knob(run).knob: "on"})


def with_knob(run: RunFacts) -> str:
    """Return how to let the fuser take more operators, with an option or a line of
    Python."""
    knob = _knob(run)
    how = setting_of_knob(run).text if run.live else knob.in_python
    return f"Let {fuser_title(run.fuser or '')} take {knob.words}: {how}"


def remedy_with_knob(run: RunFacts) -> Remedy:
    """Return the remedy that turns the knob on."""
    return Remedy(f"{with_knob(run)}.", setting=setting_of_knob(run))


def takes_numbers(run: RunFacts) -> bool:
    """True if a recipe that needs a tensor works with a number as well
    (``Recipe.numbers_too``)."""
    return (
        facts_of(run.fuser).limits.numbers_for_tensors is True
        and run.gradients is False
    )


def general_remedy(code: str) -> Remedy:
    """Return the general remedy of a code; every code used here has one."""
    remedy = CODES[code].remedy
    assert remedy is not None
    return remedy
