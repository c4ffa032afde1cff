"""Versions of a program that draw other random numbers from the same seed, and
still are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Run
from running import write

from fusiondoc.probe import changed_program
from fusiondoc.probe.same_draws import same_draws

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def drawn(model: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The output and the gradient of an input of ones."""
    x = torch.ones(16, 16, requires_grad=True)
    with same_draws(torch):
        y = model(x * 1)
        y.sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            lambda x: torch.dropout_(x * 2.0, 0.3, True),
            lambda x: torch.native_dropout(x * 2.0, 0.3, True)[0],
        ),
        (
            lambda x: torch.dropout_(x, 1.0, True),
            lambda x: torch.native_dropout(x, 1.0, True)[0],
        ),
        (
            lambda x: torch.feature_dropout_(x, 0.5, True),
            lambda x: torch.feature_dropout(x, 0.5, True) + 0 * torch.rand(3).sum(),
        ),
        (
            lambda x: torch.rrelu_(x, training=True),
            lambda x: torch.rrelu(x, training=True),
        ),
        (
            lambda x: x * torch.empty_like(x).uniform_(),
            lambda x: x * torch.rand(16, 16),
        ),
    ],
)
def test_each_draw_of_a_shape_gives_the_same_whatever_draws(
    one: Callable[[Any], Any], other: Callable[[Any], Any]
) -> None:
    first, second = drawn(one), drawn(other)
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def in_place(x: torch.Tensor) -> torch.Tensor:
    return torch.dropout_(x * 2.0, 0.3, True)


def test_the_interpreter_of_torchscript_draws_so_too() -> None:
    with torch.jit.optimized_execution(False):
        scripted = drawn(torch.jit.script(in_place))
    eager = drawn(lambda x: torch.native_dropout(x * 2.0, 0.3, True)[0])
    assert all(torch.equal(a, b) for a, b in zip(scripted, eager))


def test_draws_of_a_shape_are_not_all_the_same() -> None:
    with same_draws(torch):
        assert not torch.equal(torch.rand(4), torch.rand(4))


def told(folder: Path, before: Any, after: Any) -> list[dict[str, Any]]:
    """The rows on a changed program."""
    rows: list[dict[str, Any]] = []
    records: Any = SimpleNamespace(
        write=lambda kind, **of: rows.extend(of["results"])
    )
    shapes = [lambda: (torch.ones(32, 32),)]
    for model, compare in ((before, False), (after, True)):
        wanted = {"file": str(folder / "kept.pt"), "compare": compare}
        rows.clear()
        changed_program.keep_or_compare_results(
            torch, model, shapes, {"results": wanted, "backward": False}, records
        )
    return rows


def dropped(
    probability: float, other_numbers: bool = False
) -> Callable[[Any], Any]:
    def model(x: Any) -> Any:
        if other_numbers:
            torch.rand(3)
        return torch.dropout(x, probability, True)

    return model


@pytest.mark.parametrize("modes", [True, False])
def test_a_changed_program_that_draws_otherwise_is_the_same(
    modes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not modes:  # as a torch that cannot see every operator

        def broken(torch: Any) -> Any:
            raise ImportError

        monkeypatch.setattr(changed_program, "same_draws", broken)
    for after, by, same in (
        (dropped(0.3), "value", True),
        (
            dropped(0.3, other_numbers=True),
            "same draws" if modes else "statistics",
            True,
        ),
        (
            dropped(0.6, other_numbers=True),
            "same draws" if modes else "statistics",
            False,
        ),
        (dropped(0.0), "same draws" if modes else "statistics", False),
    ):
        output = told(tmp_path, dropped(0.3), after)[0]
        assert (output["by"], output["same"]) == (by, same), output


ZOO = """
    import torch
    from torch import nn

    class Drop(nn.Dropout):
        def forward(self, x):
            if self.inplace:
                return nn.functional.dropout(x, self.p, self.training, True)
            return torch.native_dropout(x * torch.rand(3).ge(0).all(), self.p, self.training)[0]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = Drop(0.5, inplace=True)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.relu(x * 2.0 + 1.0) * 0.5, self.drop(torch.tanh(x))
"""
"""As dropout of torch on CUDA: out of place it draws other numbers than in
place."""


def test_a_dropout_in_place_does_not_hide_that_the_rest_is_the_same(
    fusiondoc: Run, tmp_path: Path
) -> None:
    package = write(
        tmp_path / "lib" / "site-packages", "zoo/__init__.py", ZOO
    ).parent.parent
    write(
        tmp_path,
        "m.py",
        "import torch, zoo\nmodel = zoo.Net()\ninputs = (torch.randn(8, 16),)\n",
    )
    done = fusiondoc(
        "fix", "m.py", "--runs", 3, cwd=tmp_path, env={"PYTHONPATH": str(package)}
    )
    assert done.returncode == 0, done.stderr
    assert "\n+ inplace=False on the modules of model: " in done.stderr, done.stderr
    assert "both unfused sides are made to draw the same ones" in done.stderr
