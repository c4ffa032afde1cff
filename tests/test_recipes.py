"""The table of recipes: each is computed both ways by torch, and put under a real
fuser."""

from __future__ import annotations

import json
import os
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from running import python_apart

from fusiondoc.changes.recipes import EXACT, RECIPES, ROUNDING, Recipe, recipe_for
from fusiondoc.diagnosis.recipe_pages import recipe_page, recipes_page
from fusiondoc.fusers import FUSERS, taken_by
from fusiondoc.operators import WITH_FORMULA

ROOT = Path(__file__).resolve().parents[1]
EVERY = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.before)


@pytest.fixture(scope="module")
def tried() -> dict[str, dict[str, Any]]:
    """What torch says of each recipe; one child for all, with NNC on the CPU."""
    pytest.importorskip("torch")
    done = python_apart(
        ROOT / "benchmarks" / "recipes.py",
        "nnc",
        "--json",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {one["name"]: one for one in json.loads(done.stdout)}


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
@EVERY
def test_both_ways_compute_the_same(
    recipe: Recipe, tried: dict[str, dict[str, Any]]
):
    one = tried[recipe.after]
    assert one["problem"] is None
    differences = one["difference"]
    assert set(differences) == {"float64", "float32", "bfloat16"}
    assert all(
        apart <= (0 if recipe.difference == EXACT else 4)
        for apart in differences.values()
    ), differences
    if recipe.difference in (EXACT, ROUNDING):
        assert all(apart <= 4 for apart in one["gradient"].values()), one[
            "gradient"
        ]


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
@EVERY
def test_its_operators_are_those_of_the_scripted_graph(
    recipe: Recipe, tried: dict[str, dict[str, Any]]
):
    left = {
        name if "::" in name else f"aten::{name}" for name in recipe.left.split()
    }
    assert set(tried[recipe.after]["operators"]) == recipe.operators | left
    assert not recipe.operators & left


@pytest.mark.torch
@pytest.mark.xdist_group("recipes")
@EVERY
def test_nnc_fuses_more_where_the_catalogue_says_so(
    recipe: Recipe, tried: dict[str, dict[str, Any]]
):
    one = tried[recipe.after]
    (before, after), (groups, _) = one["fused"], one["groups"]
    assert one["fused_difference"] < 1e-6
    if recipe.helps("nnc", "2.13.0", gradients=False):
        assert after >= before
        inside = [op for op in recipe.replaces if taken_by(op, "nnc", "2.13.0")]
        # 2.13 writes 1 - x as neg and add itself; float(scale) is a number for the
        # host.
        if not inside and not recipe.replaces & {
            "aten::rsub",
            "aten::item",
            "aten::repeat",
        }:
            assert after > before and groups > 0


@EVERY
def test_some_fuser_takes_all_of_it(recipe: Recipe):
    helped = {
        fuser for fuser in FUSERS if recipe.helps(fuser, None, gradients=False)
    }
    assert helped, "a recipe that no fuser takes"
    if "nvfuser" in helped:
        assert all(
            op in FUSERS["nvfuser"].operators.takes for op in recipe.operators
        )


def test_a_recipe_is_for_the_fuser_the_version_and_the_gradients_of_the_run():
    def after(*run: Any) -> str | None:
        found = recipe_for(*run)
        return found and found.after

    assert (
        after("aten::hardswish", "nvfuser", "2.1.2", True)
        == "x * (torch.clamp(x + 3, 0, 6) / 6)"
    )
    assert (
        after("aten::hardswish_", "nvfuser", "2.1.2", None)
        == "x * (torch.clamp(x + 3, 0, 6) / 6)"
    )
    assert after("aten::hardswish", "nnc", "2.1.2", False) is None  # NNC takes it
    assert (
        after("aten::leaky_relu", "nvfuser", "1.12.1", False)
        == "torch.where(x > 0, x, 0.01 * x)"
    )
    assert (
        after("aten::leaky_relu", "nvfuser", "1.13.0", False) is None
    )  # a rule since 1.13
    assert (
        after("aten::mish", "nvfuser", "2.2.0", False) is None
    )  # nvFuser is not in 2.2
    assert after("aten::relu_", "nvfuser", "2.1.2", False) is None
    assert (
        after("aten::cumsum", "nvfuser", "2.1.2", False) is None
    )  # a scan: there is none
    # sum has no gradient formula, so with gradients it would stay outside every
    # differentiable graph.
    assert "aten::sum" not in WITH_FORMULA
    assert after("aten::sum", "nvfuser", "2.1.2", False) == "x.sum([0, 1])"
    assert after("aten::sum", "nvfuser", "2.1.2", True) is None
    assert after("aten::sum", "nvfuser", "2.1.2", None) is None
    # An operator that is taken was refused for its arguments.
    assert after("aten::mean", "nvfuser", "2.1.2", False) == "x.mean([0, 1])"
    # In training such a mean breaks the program where it is added (FD307), a pooled
    # one goes to a library.
    assert after("aten::mean", "nvfuser", "2.1.2", True) is None
    assert after("aten::group_norm", "nvfuser", "2.1.2", True) is None
    assert (
        after("aten::adaptive_avg_pool2d", "nvfuser", "2.1.2", True)
        == "x.mean([2, 3], True)"
    )
    assert after("aten::mean", "nnc", "2.1.2", False) is None


def test_explain_prints_the_recipe_of_an_operator():
    page = recipe_page("aten::Hardswish_")
    assert page is not None and "x * (torch.clamp(x + 3, 0, 6) / 6)" in page
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
    model = torch.nn.Sequential(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Hardswish())
    )
    x = torch.randn(3, 4)
    before = model(x)
    exec(textwrap.dedent(snippet), {"torch": torch, "model": model})
    assert "Hardswish" not in str(model)
    assert torch.allclose(model(x), before)


def computed(recipe: Recipe, text: str, inputs: dict[str, Any]) -> Any:
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(recipe.helper, names)
    made = eval(text, {**names, **inputs})
    return made[0] if isinstance(made, tuple) else made


def inputs_of(recipe: Recipe, size: float, dtype: Any) -> dict[str, Any]:
    """Values of up to ``size`` for the first input, of up to 1 for others."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    made = {}
    for name, text in (one.split("=") for one in recipe.inputs.split()):
        kind, shape = (
            text.partition("[")[0],
            [int(one) for one in text.partition("[")[2][:-1].split(",") if one],
        )
        values = torch.rand(shape)
        signed = (values * 2 - 1) * (size if name == "x" else 1.0)
        plain = {
            "bool": values > 0.5,
            "probability": (values * 0.8 + 0.1).to(dtype),
        }
        made[name] = plain.get(kind, signed.to(dtype))
    return made


@pytest.mark.torch
@EVERY
def test_in_float16_large_values_stay_finite_or_the_recipe_says_so(recipe: Recipe):
    torch = pytest.importorskip("torch")
    lost = False
    for size in (300.0, 30_000.0):
        inputs = inputs_of(recipe, size, torch.float16)
        before, after = (
            computed(recipe, text, inputs).double()
            for text in (recipe.before, recipe.after)
        )
        known = torch.isfinite(before)
        apart = (before - after)[known].abs() / (before[known].abs() + 0.1)
        lost = lost or not bool((apart < 0.05).all())
    assert lost == bool(recipe.half)


@pytest.mark.torch
@pytest.mark.parametrize("recipe", [one for one in RECIPES if one.inputs == "x=float32[4,8]"],
                         ids=lambda recipe: recipe.before)  # fmt: skip
def test_gradients_at_random_points_and_at_kinks(recipe: Recipe):
    torch = pytest.importorskip("torch")
    kinks = (
        torch.tensor([-6.0, -3, -1, -0.5, 0, 0.5, 1, 3, 6, 20])
        .repeat(4)[:32]
        .reshape(4, 8)
    )
    for values, differs in (
        (inputs_of(recipe, 7.0, torch.float32)["x"], False),
        (kinks, bool(recipe.kinks)),
    ):
        gradients = []
        for text in (recipe.before, recipe.after):
            x = values.clone().requires_grad_()
            made = computed(recipe, text, {"x": x})
            if not made.requires_grad:
                return
            made.sum().backward()
            gradients.append(x.grad)
        same = torch.allclose(*gradients, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert same != differs, (values[gradients[0] != gradients[1]], gradients)


OTHER_ARGUMENTS = {
    "Hardtanh": (-2.0, 3.0), "GELU": ("tanh",), "Softplus": (2.0,), "ELU": (0.7,), "CELU": (0.7,),
    "LeakyReLU": (0.3,), "Hardshrink": (0.1,), "Softshrink": (0.1,), "GLU": (0,), "AdaptiveAvgPool2d": (2,),
}  # fmt: skip


@pytest.mark.torch
def test_modules_with_other_arguments_are_not_replaced():
    """``replace()`` of every page: what the model computes stays, whatever
    arguments its modules have."""
    torch = pytest.importorskip("torch")
    seen = set()
    for recipe in RECIPES:
        page = recipe_page(recipe.of.split()[0]) or ""
        for part in re.findall(
            r"^    class Written.*?^    replace\(model, [\w.]+\)$",
            page,
            re.M | re.S,
        ):
            snippet = textwrap.dedent(part)
            name = snippet.rpartition("torch.nn.")[2].rstrip(")")
            kind, other = getattr(torch.nn, name), OTHER_ARGUMENTS.get(name, ())
            first = kind(*(1,) * (name == "AdaptiveAvgPool2d"))
            for one in (first, kind(*other)):
                model = torch.nn.Sequential(one)
                x = torch.randn(2, 4, 6, 6) * 3
                before = model(x)
                names = {"torch": torch, "F": torch.nn.functional, "model": model}
                exec(recipe.helper, names)
                exec(snippet, names)
                assert torch.allclose(model(x), before, atol=1e-5), (name, snippet)
            seen.add(name)
    assert seen > set(OTHER_ARGUMENTS)
