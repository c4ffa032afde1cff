"""The table of recipes: each is computed both ways by torch, and put under a real fuser."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from running import python_apart

from fusiondoc.diagnosis.operators import BY_FUSER, WITH_FORMULA, taken_by
from fusiondoc.diagnosis.pages import recipe_page, recipes_page
from fusiondoc.diagnosis.recipes import EXACT, RECIPES, ROUNDING, Recipe, recipe_for

ROOT = Path(__file__).resolve().parents[1]
EVERY = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.before)


@pytest.fixture(scope="module")
def tried() -> dict[str, dict[str, Any]]:
    """What torch says of each recipe; one child for all, with NNC on the CPU."""
    pytest.importorskip("torch")
    done = python_apart(
        ROOT / "benchmarks" / "recipes.py", "nnc", "--json", env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {one["name"]: one for one in json.loads(done.stdout)}


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
@EVERY
def test_both_ways_compute_the_same(recipe: Recipe, tried: dict[str, dict[str, Any]]):
    one = tried[recipe.after]
    assert one["problem"] is None
    differences = one["difference"]
    assert set(differences) == {"float64", "float32", "bfloat16"}
    assert all(apart <= (0 if recipe.difference == EXACT else 4) for apart in differences.values()), (
        differences
    )
    if recipe.difference in (EXACT, ROUNDING):
        assert all(apart <= 4 for apart in one["gradient"].values()), one["gradient"]


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
@EVERY
def test_its_operators_are_those_of_the_scripted_graph(recipe: Recipe, tried: dict[str, dict[str, Any]]):
    left = {name if "::" in name else f"aten::{name}" for name in recipe.left.split()}
    assert set(tried[recipe.after]["operators"]) == recipe.operators | left
    assert not recipe.operators & left


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
@EVERY
def test_nnc_fuses_more_where_the_catalogue_says_so(recipe: Recipe, tried: dict[str, dict[str, Any]]):
    one = tried[recipe.after]
    (before, after), (groups, _) = one["fused"], one["groups"]
    assert one["fused_difference"] < 1e-6
    if recipe.helps("nnc", "2.13.0", gradients=False):
        assert after >= before
        inside = [op for op in recipe.replaces if taken_by(op, "nnc", "2.13.0")]
        # 2.13 writes 1 - x as neg and add itself; float(scale) is a number for the host.
        if not inside and not recipe.replaces & {"aten::rsub", "aten::item", "aten::repeat"}:
            assert after > before and groups > 0


@EVERY
def test_some_fuser_takes_all_of_it(recipe: Recipe):
    helped = {fuser for fuser in BY_FUSER if recipe.helps(fuser, None, gradients=False)}
    assert helped, "a recipe that no fuser takes"
    if "nvfuser" in helped:
        assert all(op in BY_FUSER["nvfuser"] for op in recipe.operators)


def test_a_recipe_is_for_the_fuser_the_version_and_the_gradients_of_the_run():
    def after(*run: Any) -> str | None:
        found = recipe_for(*run)
        return found and found.after

    assert after("aten::hardswish", "nvfuser", "2.1.2", True) == "x * torch.clamp(x + 3, 0, 6) / 6"
    assert after("aten::hardswish_", "nvfuser", "2.1.2", None) == "x * torch.clamp(x + 3, 0, 6) / 6"
    assert after("aten::hardswish", "nnc", "2.1.2", False) is None  # NNC takes it
    assert after("aten::leaky_relu", "nvfuser", "1.12.1", False) == "torch.where(x > 0, x, 0.01 * x)"
    assert after("aten::leaky_relu", "nvfuser", "1.13.0", False) is None  # a rule since 1.13
    assert after("aten::mish", "nvfuser", "2.2.0", False) is None  # nvFuser is not in 2.2
    assert after("aten::relu_", "nvfuser", "2.1.2", False) is None
    assert after("aten::cumsum", "nvfuser", "2.1.2", False) is None  # a scan: there is none
    # sum has no gradient formula, so with gradients it would stay outside every differentiable graph.
    assert "aten::sum" not in WITH_FORMULA
    assert after("aten::sum", "nvfuser", "2.1.2", False) == "x.sum([0, 1])"
    assert after("aten::sum", "nvfuser", "2.1.2", True) is None
    assert after("aten::sum", "nvfuser", "2.1.2", None) is None
    # An operator that is taken was refused for its arguments.
    assert after("aten::mean", "nvfuser", "2.1.2", True) == "x.mean([0, 1])"
    assert after("aten::mean", "nnc", "2.1.2", False) is None


def test_explain_prints_the_recipe_of_an_operator():
    page = recipe_page("aten::Hardswish_")
    assert page is not None and "x * torch.clamp(x + 3, 0, 6) / 6" in page
    assert page.splitlines()[0] == "# aten::hardswish in other words"
    assert "Helps under nvFuser" in page and "NNC" not in page
    assert recipe_page("cumsum") is None
    # Every recipe is on the page of the documentation, in a row of four cells.
    rows = [line for line in recipes_page().split("\n") if line.startswith("| `")]
    assert len(rows) == len(RECIPES)
    assert {len(line.replace("\\|", "").split("|")) for line in rows} == {6}


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
def test_the_snippet_replaces_the_modules_of_a_package_from_outside():
    torch = pytest.importorskip("torch")
    page = recipe_page("hardswish")
    assert page is not None
    snippet = page[page.index("    class Written") :]
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Hardswish()))
    x = torch.randn(3, 4)
    before = model(x)
    exec(textwrap.dedent(snippet), {"torch": torch, "model": model})
    assert "Hardswish" not in str(model)
    assert torch.allclose(model(x), before)
