"""Operators at the user's own lines, proposed to be written as the table of recipes says; reductions over
everything with their dimensions named; maxima without indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusiondoc.changes import masked_fill, reductions
from fusiondoc.changes.by_recipe import by_recipe, called_as_module
from fusiondoc.changes.change import Change
from fusiondoc.changes.recipes import ALL_DIMENSIONS, RECIPES, Recipe
from fusiondoc.changes.rewrite import Line, Rewrite, Rewritten
from fusiondoc.fixes import Program, Site
from fusiondoc.fixes.at_lines import change_at
from fusiondoc.fusers import nvfuser, taken_by
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import WITH_FORMULA, plain_name

_CHECKED_BY_SHAPE = frozenset(
    [
        "softplus",
        "glu",
        "logical_and",
        "logical_or",
        "to",
        "prelu _prelu_kernel",
        "adaptive_avg_pool2d",
        "baddbmm",
        "mse_loss",
    ]
)
"""Recipes whose condition holds where the pattern matches, or is seen to fail in the first pass."""


def propose(program: Program) -> Iterator[Change]:
    """One for each line with an operator that a recipe helps with; reductions and masks in other forms."""
    for site in program.sites:
        line, ops = program.line_of(site), frozenset([site.row.op])
        found = _by_recipe(program, site, line)
        if found is not None:
            yield change_at(ChangeKind.RECIPE, site, found, ops)
        for rewrite in _rewrites_of(program, f"aten::{plain_name(site.row.op)}"):
            for made in rewrite.write(line):
                yield change_at(rewrite.kind, site, made, ops)


def _by_recipe(program: Program, site: Site, line: Line) -> Rewritten | None:
    """What the first recipe that fits makes of a line."""
    module = site.row.layers[0].rpartition(".")[2] if site.row.layers else None
    for recipe in helping(program, f"aten::{plain_name(site.row.op)}"):
        found = at_site(line, recipe, module) if may_apply(recipe) else None
        if found is not None:
            return found
    return None


def _rewrites_of(program: Program, op: str) -> Iterator[Rewrite]:
    if op in nvfuser.WITH_DIMENSIONS_ONLY:
        yield reductions.NAME_DIMENSIONS
    if op == "aten::masked_fill" and not taken_by(op, program.fuser, program.torch):
        yield masked_fill.REWRITE
    if op in ("aten::max", "aten::min") and takes_values_alone(program, op):
        yield reductions.LEAVE_INDICES_OUT


def helping(program: Program, op: str) -> Iterator[Recipe]:
    """Recipes that help with an operator under the fuser of the run. One that the fuser has a rule for was
    refused for its arguments or its place."""
    taken = taken_by(op, program.fuser, program.torch)
    for recipe in RECIPES:
        fits = op in recipe.replaces and recipe.arguments == taken
        if fits and recipe.helps(program.fuser, program.torch, program.backward):
            yield recipe


def may_apply(recipe: Recipe) -> bool:
    return (recipe.needs is None and recipe.caution is None) or recipe.of in _CHECKED_BY_SHAPE


def at_site(line: Line, recipe: Recipe, module: str | None) -> Rewritten | None:
    """The first call of a line that the recipe replaces.

    Args:
        module: the attribute of the module that calls the operator, which may be replaced too.
    """
    if ALL_DIMENSIONS in recipe.after:
        if not line.rank:
            return None
        recipe = replace(recipe, after=recipe.over_all(line.rank))
    made = by_recipe(line.file, line.number, recipe)
    if made is None and module is not None:
        made = called_as_module(line.file, line.number, recipe, module)
    if made is None:
        return None
    of = recipe.of.split()[0]
    difference = None if recipe.difference in ("rounding", "exact") else f"{of}: {recipe.difference}"
    return replace(made, note="; ".join(filter(None, [difference, recipe.at_kinks, recipe.half])) or None)


def takes_values_alone(program: Program, op: str) -> bool:
    """Whether the fuser takes ``amax`` for a maximum, and torch differentiates it where it has to."""
    values = f"aten::a{plain_name(op)}"
    no_formula = program.backward and values not in WITH_FORMULA
    return not no_formula and taken_by(values, program.fuser, program.torch)
