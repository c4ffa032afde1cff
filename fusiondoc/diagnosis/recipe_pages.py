"""The table of recipes as a page of the documentation, and the page that
``fusiondoc explain hardswish`` prints."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.changes.recipes import RECIPES, Recipe
from fusiondoc.fusers import (
    EVERYWHERE,
    FUSERS,
    fuser_of_dumps,
    fuser_title,
    taken_by,
)

_REPLACE = """\
class Written(torch.nn.Module):
    def forward(self, x):
        return {after}

def replace(module, kind):
    for name, child in module.named_children():
        if {condition}:
            setattr(module, name, Written())
        else:
            replace(child, kind)

replace(model, {module})
"""


_TRIED, _ON_GPU = fuser_title(EVERYWHERE), fuser_of_dumps().name
_ABOUT = f"""\
Operators that a fuser does not take, written with operators that it takes. Each is tried in a test: outputs
and gradients against eager in float64, float32 and bfloat16, and the fused result under {_TRIED}.
`python benchmarks/recipes.py {_ON_GPU}` tries them on a GPU. A report names the recipe where it helps the run
at hand; `fusiondoc explain hardswish` prints one."""

_WITHOUT = """\
Without a recipe: gathers (`index`, `index_select`) and rolls compute nothing: do them before or after a
block of operators that work on each element by itself, not inside it. Scans (`cumsum`), `sort`, `topk` and
pads compute: what comes behind them is another group."""


def recipe_page(name: str) -> str | None:
    """Return the page on an operator's recipes, by its name with or without
    ``aten::`` or the underscore of the in-place version; None if it has no
    recipes."""
    plain = name.strip().lower()
    plain = plain[len("aten::") :] if plain.startswith("aten::") else plain
    plain = plain[:-1] if plain.endswith("_") else plain
    found = [one for one in RECIPES if f"aten::{plain}" in one.replaces]
    if not found:
        return None
    lines = [
        f"# aten::{plain} in other words",
        *(line for one in found for line in _lines(one)),
    ]
    return "\n".join(lines) + "\n"


def recipes_page() -> str:
    """Return the table of all recipes."""
    rows = []
    for one in RECIPES:
        rows.append(
            f"| `{_cell(one.before)}` | `{_cell(one.after)}` | {', '.join(_helped(one))} | {_remarks(one)} |"
        )
    helpers = []
    for one in RECIPES:
        if one.helper:
            helpers.append(one.helper.rstrip())
    return "\n".join(
        [
            "# Recipes",
            "",
            _ABOUT,
            "",
            "| instead of | write | helps under | remarks |",
            "|---|---|---|---|",
            *rows,
            "",
            _WITHOUT,
            "",
            "## Definitions",
            "",
            "```python",
            "\n\n\n".join(helpers),
            "```",
            "",
        ]
    )


def _helped(recipe: Recipe) -> list[str]:
    """Return the fusers that take the recipe's operators, and not those that it
    replaces, in some version."""
    return [fuser_title(fuser) for fuser in FUSERS if _helps_under(recipe, fuser)]


def _helps_under(recipe: Recipe, fuser: str) -> bool:
    return any(
        recipe.helps(fuser, version, gradients=False)
        and (
            recipe.arguments
            or not all(taken_by(op, fuser, version) for op in recipe.replaces)
        )
        for version in FUSERS[fuser].operators.versions
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _remarks(recipe: Recipe) -> str:
    texts = [
        recipe.needs,
        recipe.caution,
        f"difference: {recipe.difference}",
        recipe.at_kinks,
        recipe.half,
    ]
    return "; ".join(text for text in texts if text)


def _lines(recipe: Recipe) -> Iterable[str]:
    yield from (
        "",
        f"    {recipe.before}",
        "",
        "can be written",
        "",
        f"    {recipe.after}",
        "",
    )
    if recipe.helper:
        yield from (
            "with",
            "",
            *(
                f"    {line}".rstrip()
                for line in recipe.helper.rstrip().split("\n")
            ),
            "",
        )
    yield f"* Helps under {', '.join(_helped(recipe))}."
    yield f"* Numbers: {'; '.join(filter(None, (recipe.difference, recipe.at_kinks, recipe.half)))}."
    if recipe.needs:
        yield f"* Needs: {recipe.needs}."
    if recipe.caution:
        yield f"* {recipe.caution[0].upper()}{recipe.caution[1:]}."
    if recipe.module is None:
        return
    kind = recipe.module.split("(")[0]
    if recipe.inputs.count("=") == 1:
        condition = (
            f"isinstance(child, kind){f' and {recipe.same}' if recipe.same else ''}"
        )
        text = _REPLACE.format(after=recipe.after, module=kind, condition=condition)
        written = text.rstrip().split("\n")
        yield from (
            "",
            f"In a model of a package, replace its {kind} from outside, before scripting:",
            "",
        )
        for line in written:
            yield f"    {line}".rstrip()
    else:
        yield f"* In a model of a package: put a module with this forward in the place of each {kind}."
