"""What a test gives to ``fusion`` as files for a child: everything about it
survives, and compiling it leaves the test process as it was."""

from __future__ import annotations

import functools
import runpy
from pathlib import Path
from typing import Any, List

import pytest

from fusiondoc.errors import ModelFailed, UsageError
from fusiondoc.probe import fusers
from fusiondoc.workflows.run_model import write_target

pytestmark = pytest.mark.torch


def given(folder: Path, fn: Any, *inputs: Any, trace: bool = False) -> Any:
    """(model, inputs) as the child loads them."""
    names = runpy.run_path(
        str(write_target(fn, inputs, folder, "test_a.py::test_it (fn)", trace).file)
    )
    return names["model"], names["inputs"]


def block(torch: Any) -> Any:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((4,), 2.0))
            self.frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x):
            return torch.relu(self.norm(x * self.weight) + self.frozen)

    return Block()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("trace", [True, False])
def test_mode_and_parameters_survive(
    tmp_path: Path, training: bool, trace: bool
) -> None:
    import torch

    model = block(torch).train(training)
    x = torch.randn(3, 4)
    loaded, (again,) = given(tmp_path, model, x, trace=trace)
    assert loaded.training is training
    assert {name: p.requires_grad for name, p in loaded.named_parameters()} == {
        "weight": True, "frozen": False, "norm.weight": True, "norm.bias": True,
    }  # fmt: skip
    assert torch.equal(loaded(again), model(x))


def test_inputs_survive(tmp_path: Path) -> None:
    import torch

    def f(x, y, z, scale: float, more: List[torch.Tensor]):  # noqa: UP006 - old torch reads no list[...]
        return x + y * scale + z.to(x.dtype) + more[0]

    leaf = torch.randn(4, 4, requires_grad=True)
    inputs = (
        leaf.detach(),
        leaf * 2,
        torch.ones(4, 4, dtype=torch.int8).t(),
        0.5,
        [leaf],
    )
    _, again = given(tmp_path, f, *inputs, trace=False)
    assert [one.requires_grad for one in again[:3]] == [False, True, False]
    assert [one.dtype for one in again[:3]] == [
        torch.float32,
        torch.float32,
        torch.int8,
    ]
    assert again[2].stride() == inputs[2].stride() and again[3] == 0.5
    assert again[4][0].requires_grad and torch.equal(again[4][0], leaf)


def test_tracing_leaves_random_state_and_running_means(tmp_path: Path) -> None:
    import torch

    model = block(torch)
    state, before = torch.get_rng_state(), model.norm.running_mean.clone()

    def noisy(x):
        return model.norm(torch.dropout(x, 0.5, True))

    write_target(model, (torch.arange(12.0).view(3, 4),), tmp_path, "it", True)
    assert (
        torch.equal(model.norm.running_mean, before)
        and model.norm.num_batches_tracked == 0
    )
    write_target(
        lambda x: torch.dropout(x, 0.5, True),
        (torch.ones(4),),
        tmp_path,
        "it",
        False,
    )
    assert torch.equal(torch.get_rng_state(), state)


def test_compiling_runs_no_graph_and_touches_no_switch(tmp_path: Path) -> None:
    import torch

    def fails(x):
        raise ValueError("this was run")
        return x

    def all_switches() -> tuple:
        beginnings = (
            "_jit_can_fuse",
            "_jit_get_te_",
            "_jit_get_num_profiled_runs",
            "_jit_get_inline",
        )
        named = {
            n: getattr(torch._C, n)()
            for n in dir(torch._C)
            if n.startswith(beginnings)
        }
        return (
            fusers.read_back(torch),
            torch._C._get_graph_executor_optimize(),
            named,
        )

    before = all_switches()
    assert len(before[2]) >= 6
    model, _ = given(tmp_path, fails, torch.ones(2))
    assert all_switches() == before
    with pytest.raises(torch.jit.Error, match="this was run"):
        model(torch.ones(2))


def test_lambdas_partials_and_callables_are_traced(tmp_path: Path) -> None:
    import torch

    class Times:
        def __call__(self, x):
            return x * 3

    x, scale = torch.ones(4), torch.full((4,), 2.0)
    mul = functools.partial(torch.mul, torch.full((4,), 3.0))
    for fn in (
        lambda x: x * 3,
        mul,
        Times(),
        Times().__call__,
        torch.full((4,), 3.0).mul,
    ):
        model, (again,) = given(tmp_path, fn, x)
        assert torch.equal(model(again), torch.full((4,), 3.0))

    def closes_over(x):
        return x * scale

    with pytest.raises(ModelFailed, match="closed over global variable") as caught:
        given(tmp_path, closes_over, x)
    assert "return x * scale\n" in caught.value.message and "trace=True" in (
        caught.value.hint or ""
    )
    model, (again,) = given(tmp_path, closes_over, x, trace=True)
    assert torch.equal(model(again), scale)


def test_a_failing_trace_shows_the_users_frames_only(tmp_path: Path) -> None:
    import torch

    with pytest.raises(ModelFailed, match="cannot be traced") as caught:
        given(tmp_path, lambda x: x + undefined_name, torch.ones(4))  # noqa: F821
    files = [
        line
        for line in caught.value.message.split("\n")
        if line.startswith("  File ")
    ]
    assert len(files) == 1 and __file__ in files[0]
    assert caught.value.message.endswith(
        "NameError: name 'undefined_name' is not defined"
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda torch: (torch.nn.ReLU, torch.ones(2)), "the class ReLU"),
        (lambda torch: (3, torch.ones(2)), "of type int"),
        (
            lambda torch: (torch.relu, (n for n in "ab")),
            "inputs of .* cannot be handed to a process of its own",
        ),
        (
            lambda torch: (torch.relu, torch.ones(2).numpy()),
            "input 0 is a numpy ndarray",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, make: Any, said: str) -> None:
    import torch

    pytest.importorskip("numpy")
    fn, value = make(torch)

    def identity(x):
        return x

    with pytest.raises(UsageError, match=said):
        given(tmp_path, identity if fn is torch.relu else fn, value)


def test_a_function_around_a_module_is_told_what_to_do(tmp_path: Path) -> None:
    import torch

    linear = torch.nn.Linear(4, 4)

    def around(x):
        return linear(x)

    with pytest.raises(
        ModelFailed, match="cannot be saved as an archive"
    ) as caught:
        given(tmp_path, around, torch.ones(4))
    assert (
        "return linear(x)" in caught.value.message
        and "pass the module itself" in (caught.value.hint or "")
    )
