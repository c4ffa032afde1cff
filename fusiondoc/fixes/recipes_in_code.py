"""Operators at the user's own lines, proposed to be written as the table of recipes says; reductions over
everything with their dimensions named; maxima without indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fusiondoc.changes.by_recipe import by_recipe, called_as_module
from fusiondoc.changes.edits import Edit
from fusiondoc.changes.masked_fill import masked_fill
from fusiondoc.changes.recipes import ALL_DIMENSIONS, RECIPES, Recipe
from fusiondoc.changes.reductions import dimensions_named, without_indices
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.fusers import nvfuser, taken_by
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.operators import WITH_FORMULA, plain_name

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


def propose(program: Program) -> Iterator[Proposal]:
    """One for each line with an operator that a recipe helps with."""
    for site in program.sites:
        op = "aten::" + plain_name(site.row.op)
        found = (at_site(program, site, recipe) for recipe in helping(program, op) if may_apply(recipe))
        first = next((proposal for proposal in found if proposal is not None), None)
        if first is not None:
            yield first
        if op in nvfuser.WITH_DIMENSIONS_ONLY:
            yield from dimensions(program, site)
        if op == "aten::masked_fill" and not taken_by(op, program.fuser, program.torch):
            yield from masked(site, program.backward or program.fuser == "nvfuser")
        if op in ("aten::max", "aten::min"):
            yield from extremes(program, site)


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


def at_site(program: Program, site: Site, recipe: Recipe) -> Proposal | None:
    """The first call of the site's line that the recipe replaces."""
    if ALL_DIMENSIONS in recipe.after:
        rank = _rank(program, site)
        if not rank:
            return None
        recipe = replace(recipe, after=recipe.over_all(rank))
    made = by_recipe(site.file, site.line, recipe)
    if made is None and site.row.layers:
        made = called_as_module(site.file, site.line, recipe, site.row.layers[0].rpartition(".")[2])
    if made is None:
        return None
    of = recipe.of.split()[0]
    difference = None if recipe.difference in ("rounding", "exact") else f"{of}: {recipe.difference}"
    note = "; ".join(filter(None, [difference, recipe.at_kinks, recipe.half])) or None
    return _recipe(site, f"{made.before} -> {made.after}", made.edits, note)


def _recipe(site: Site, title: str, edits: tuple[Edit, ...], note: str | None = None) -> Proposal:
    ops, where = frozenset([site.row.op]), (site.where,)
    return Proposal(ChangeKind.RECIPE, " ".join(title.split()), edits, where, note, ops=ops, fewer=True)


def dimensions(program: Program, site: Site) -> Iterator[Proposal]:
    """``x.mean()`` -> ``x.mean([0, 1])``: the overload without dimensions has no rule."""
    rank = _rank(program, site)
    if not rank:
        return
    ops, note = frozenset([site.row.op]), f"true for tensors of {rank} dimensions, as in this run"
    for node, edit in dimensions_named(site.file, site.line, plain_name(site.row.op), rank):
        title = f"{site.file.text(node)} over the dimensions {list(range(rank))}"
        yield Proposal(ChangeKind.DIMENSIONS, title, (edit,), (site.where,), note, ops=ops)


def _rank(program: Program, site: Site) -> int | None:
    """How many dimensions the operator's input has: by the plans, else those of most tensors of the run's
    groups (a wrong guess fails, or computes something else, in the run that tries it)."""
    nodes = [
        node for plan in program.report.programs for node in plan.nodes if node.source == site.row.source
    ]
    own = [node.inputs[0] for node in nodes if node.op == site.row.op and node.inputs]
    groups = [text for group in program.report.groups for text in (*group.inputs, *group.outputs)]
    for texts in (own, groups):
        ranks = [rank for rank in map(_dimensions_of, texts) if rank]
        if ranks:
            return max(sorted(set(ranks)), key=ranks.count)
    return None


def _dimensions_of(text: str) -> int | None:
    """Of a type such as ``Float(4, 8, strides=[8, 1], device=cpu)``."""
    sizes = re.match(r"\w+\(((?:[\d*]+, )*[\d*]+)(?:,|\))", text)
    return len(sizes.group(1).split(", ")) if sizes else None


def extremes(program: Program, site: Site) -> Iterator[Proposal]:
    """``x.max(1)[0]`` and ``torch.max(x, 1).values`` -> ``x.amax(1)``: the values alone."""
    name = plain_name(site.row.op)
    values = f"aten::a{name}"
    no_formula = program.backward and values not in WITH_FORMULA
    if no_formula or not taken_by(values, program.fuser, program.torch):
        return
    note = "where several elements are equal, their gradient is shared among them"
    where, ops = (site.where,), frozenset([site.row.op])
    for node, edits in without_indices(site.file, site.line, name):
        title = " ".join(f"{site.file.text(node)} as a{name}, which finds no indices".split())
        yield Proposal(ChangeKind.DIMENSIONS, title, edits, where, note, ops=ops)


def masked(site: Site, as_tensor: bool) -> Iterator[Proposal]:
    """``x.masked_fill(mask, value)`` -> ``torch.where(mask, value, x)``."""
    for made in masked_fill(site.file, site.line, as_tensor):
        yield _recipe(site, f"{made.before} -> {made.after}", made.edits)
