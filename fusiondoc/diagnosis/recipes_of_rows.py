"""The recipes for the operators of one run: by its fuser, its torch and how each operator was
refused; and the remedies that several kinds of advice share."""

from __future__ import annotations

from fusiondoc.changes.recipes import Recipe, for_other_types, recipe_answering, recipe_for
from fusiondoc.diagnosis.rules import RunFacts
from fusiondoc.fusers import nnc
from fusiondoc.model.codes import CODES
from fusiondoc.model.remedies import NNC_REDUCTIONS, Remedy
from fusiondoc.model.report import Unfused


def recipe_of(row: Unfused, run: RunFacts) -> Recipe | None:
    """The recipe for an operator, where it stands and as it was refused: no other words make the fuser take a
    type that it refused."""
    if for_other_types(row.reason.detail) is not None or run.of_aot_gradient(row):
        return None
    if row.index in run.mixed_casts:
        return None  # no tensor is known to have the type that type_as() would need
    found = answering_recipe(row, run)
    return None if found is not None and found.follows and run.at_the_end(row) else found


def any_recipe(op: str, run: RunFacts) -> Recipe | None:
    """The first recipe for an operator, whatever the fuser refused of it."""
    return recipe_for(op, run.fuser, run.torch, run.gradients) if run.fuser is not None else None


def answering_recipe(row: Unfused, run: RunFacts) -> Recipe | None:
    """The recipe for an operator as it was refused."""
    if run.fuser is None:
        return None
    return recipe_answering(row.reason.detail, row.op, run.fuser, run.torch, run.gradients)


def needs_reductions_on(row: Unfused, run: RunFacts) -> bool:
    """Whether NNC takes the operator with a knob."""
    return run.fuser == "nnc" and row.op in nnc.REDUCTIONS


def reductions_on(run: RunFacts) -> str:
    """What lets NNC take reductions, as an option or a line of Python."""
    return NNC_REDUCTIONS.text if run.live else "torch._C._jit_set_texpr_reductions_enabled(True)"


def reductions(run: RunFacts) -> Remedy:
    """That NNC takes reductions with a knob."""
    return Remedy(f"Let NNC take reductions: {reductions_on(run)}.", setting=NNC_REDUCTIONS)


def takes_numbers(run: RunFacts) -> bool:
    """Whether a number does in the place of a tensor that a recipe needs (``Recipe.numbers_too``)."""
    return run.fuser == "nnc" and run.gradients is False


def general_remedy(code: str) -> Remedy:
    """The remedy that fits all operators with a reason; every code that is worded here has one."""
    remedy = CODES[code].remedy
    assert remedy is not None
    return remedy
