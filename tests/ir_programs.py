# ruff: noqa: UP006, UP045 (TorchScript reads these annotations; older releases only know these spellings)
"""Programs whose printed graphs hold, between them, the whole grammar. Scripted by the tests that read the
print."""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    first: Tensor
    second: int


def control_flow(x: Tensor, n: int, flag: bool):
    y = x
    for i in range(n):
        while bool(y.sum() < 3):
            y = y + i
            if flag:
                print("in (the) loop", y)
            elif n > 2:
                assert n < 5, "too # many: 5:6"
    return y


def constants(x: Tensor):
    empty = torch.jit.annotate(List[int], [])
    table = {"a": 1.5, "b)": 2.0}
    return (
        empty,
        table,
        (1, (2.5, "s]")),
        float("inf"),
        3 + 2j,
        torch.device("cpu"),
        'a"b\'\n\t\0 # [(%x) ], x="',
        [[1, 2], [3]],
        -7,
        1e-05,
        None,
        x,
    )


def types(
    x: Optional[Tensor],
    c: Colour,
    p: Pair,
    d: Dict[str, List[Optional[Tensor]]],
    t: Tuple[int, Tensor],
):
    if c == Colour.RED and x is not None:
        return Pair(x, p.second), d["a"], t
    return p, d["b"], t


def twice(y: Tensor):
    future = torch.jit.fork(torch.relu, y)
    other = torch.jit.fork(torch.sigmoid, y)
    return torch.jit.wait(future) + torch.jit.wait(other)


def forked(x: Tensor):
    first = torch.jit.fork(twice, x)
    second = torch.jit.fork(twice, x + 1)
    third = torch.jit.fork(torch.tanh, x)
    return torch.jit.wait(first) + torch.jit.wait(second) + torch.jit.wait(third)


def differentiable(x: Tensor, w: Tensor):
    """Two differentiable graphs, for sorting is not differentiable in TorchScript, each with a fusion
    group."""
    y = torch.tanh(torch.sigmoid(x * w) + 1.0)
    z = torch.sort(y)[0]
    return torch.tanh(z * w) * torch.sigmoid(z)


class Scoped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.eye = torch.eye(2)
        self.one = torch.tensor([1.5])
        self.cube = torch.ones(2, 2, 2)
        self.big = torch.ones(5, 5)
        self.register_buffer("empty", torch.ones(0))

    def forward(self, x: Tensor) -> Tensor:
        return (
            self.linear(x) @ self.eye
            + self.one
            + self.cube[0]
            + self.big[:2, :2]
            + self.empty.sum()
        )


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, name: str, x: Tensor, numbers: Any, flag: bool, nothing: None
    ) -> Any:
        return x * 2, x + 1

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, gradients[0], None, None, None


def python_function(x: Tensor) -> Tensor:
    first, second = Doubled.apply(
        "it's (a\"b]", x, (3, [1.5], (torch.float32,)), True, None
    )
    other, _ = Doubled.apply("two\nlines", first, (), False, None)
    return second + other
