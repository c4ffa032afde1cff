"""Models for the gate, and changes of their text: harmless ones, and those that
lose a fusion group.

Each model repeats a block ``LAYERS`` times in ``self.blocks``, with two helper
functions beside it, so that every change of the table can be made to every model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_FRAME = """\
import torch
from torch import nn
from torch.nn import functional as F

LAYERS = 2


{first}


{second}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
{parts}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
{forward}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return {end}


torch.manual_seed(0)
model = Model()
inputs = ({inputs},)
"""


class GateModel(NamedTuple):
    name: str
    text: str
    loss: tuple[str, str]
    """What is replaced so that every block loses a group."""
    options: tuple[str, ...] = ()


def _indented(*lines: str) -> str:
    return "\n".join(f"        {line}" for line in lines)


def _function(name: str, *lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"def {name}(x: torch.Tensor) -> torch.Tensor:\n{body}"


def _model(
    name: str, first: str, second: str, parts: tuple[str, ...], forward: tuple[str, ...], end: str,
    inputs: str, loss: tuple[str, str], *options: str,
) -> GateModel:  # fmt: skip
    text = _FRAME.format(
        first=first, second=second, parts=_indented(*parts), forward=_indented(*forward), end=end,
        inputs=inputs,
    )  # fmt: skip
    assert loss[0] in text
    return GateModel(name, text, loss, options)


MODELS = (
    _model(
        "residual",
        _function("squash", "hidden = x * 0.5", "return torch.relu(hidden)"),
        _function("stretch", "return torch.tanh(x + 1.0) * x"),
        ("self.linear = nn.Linear(8, 8)",), ("return squash(self.linear(x)) + x",),
        "stretch(x)", "torch.rand(4, 8)",
        ("torch.relu(hidden)", "torch.relu(torch.cumsum(hidden, 0))"),
    ),
    _model(
        "gelu",
        _function("squash", "hidden = 0.5 * x", "return hidden * (1.0 + torch.erf(x * 0.7071))"),
        _function("stretch", "return torch.sigmoid(x) * x"),
        ("self.up = nn.Linear(8, 16)", "self.down = nn.Linear(16, 8)"),
        ("return self.down(squash(self.up(x))) + x * 0.1",), "stretch(x)", "torch.rand(4, 8)",
        ("torch.erf(x * 0.7071)", "torch.erf((x * 0.7071).cumsum(0))"),
    ),
    _model(
        "attention",
        _function("squash", "hidden = x * 0.125", "return torch.softmax(hidden + 1.0, -1)"),
        _function("stretch", "return torch.tanh(x * 0.5) + 1.0"),
        ("self.query = nn.Linear(8, 8)", "self.key = nn.Linear(8, 8)", "self.value = nn.Linear(8, 8)"),
        ("scores = torch.matmul(self.query(x), self.key(x).transpose(-2, -1))",
         "return stretch(torch.matmul(squash(scores), self.value(x))) + x"),
        "torch.relu(x) * 2.0", "torch.rand(2, 4, 8)",
        ("x * 0.125", "x / 8"),
    ),
    _model(
        "gated",
        _function("squash", "hidden = torch.sigmoid(x)", "return hidden * x"),
        _function("stretch", "return x * torch.rsqrt(x * x + 1e-6)"),
        ("self.up = nn.Linear(8, 8)", "self.gate = nn.Linear(8, 8)"),
        ("return squash(self.gate(x)) * self.up(stretch(x)) + x",), "torch.tanh(x) + 1.0",
        "torch.rand(4, 8)",
        ("torch.rsqrt(x * x + 1e-6)", "torch.rsqrt((x * x).cumsum(-1) + 1e-6)"),
    ),
    _model(
        "elementwise",
        _function("squash", "hidden = x * 0.5", "return torch.relu(hidden)"),
        _function("stretch", "return torch.tanh(x + 1.0)"),
        ("self.scale = nn.Parameter(torch.rand(8))",), ("return squash(x * self.scale) + stretch(x)",),
        "x.sigmoid()", "torch.rand(4, 8)",
        ("torch.tanh(x + 1.0)", "torch.tanh(torch.cumsum(x, 0) + 1.0)"),
    ),
    _model(
        "convolution",
        _function("squash", "hidden = x * 0.5", "return torch.relu(hidden) + 0.1"),
        _function("stretch", "return torch.sigmoid(x) * x"),
        ("self.conv = nn.Conv2d(3, 3, 3, padding=1)",), ("return squash(self.conv(x)) + x",),
        "stretch(x)", "torch.rand(1, 3, 6, 6)",
        ("torch.relu(hidden)", "torch.relu_(hidden.clone())"),
    ),
    _model(
        "trained",
        _function("squash", "hidden = x * 0.5", "return torch.sigmoid(hidden) * x"),
        _function("stretch", "return torch.tanh(x + 1.0) * x"),
        ("self.linear = nn.Linear(8, 8)",), ("return squash(self.linear(x)) + x",),
        "stretch(x)", "torch.rand(4, 8)",
        ("torch.sigmoid(hidden)", "torch.sigmoid(torch.cumsum(hidden, 0))"), "--backward",
    ),
    _model(
        "traced",
        _function("squash", "hidden = x + 0.5", "return torch.relu(hidden) * x"),
        _function("stretch", "return torch.tanh(x * 2.0) + x"),
        ("self.linear = nn.Linear(8, 8)",), ("return stretch(squash(self.linear(x))) + x",),
        "x.sigmoid() * x", "torch.rand(4, 8)",
        ("torch.tanh(x * 2.0)", "torch.tanh(torch.cumsum(x * 2.0, 0))"), "--trace",
    ),
    _model(
        "branches",
        _function("squash", "hidden = x.clamp(0.0, 6.0)", "return hidden / 6.0"),
        _function("stretch", "return torch.exp(-x) + 1.0"),
        ("self.left = nn.Linear(8, 8)", "self.right = nn.Linear(8, 8)"),
        ("return squash(self.left(x)) * stretch(self.right(x))",), "torch.relu(x - 0.5)",
        "torch.rand(4, 8)",
        ("torch.exp(-x)", "torch.exp(torch.flip(-x, [0]))"),
    ),
)  # fmt: skip


def _reordered(text: str) -> str:
    """The functions and classes in the other order, the ``model`` still last."""
    parts = re.findall(r"^(?:def|class) .*?(?=\n\n\n)", text, re.M | re.S)
    start, end = text.index(parts[0]), text.index(parts[-1]) + len(parts[-1])
    return text[:start] + "\n\n\n".join(reversed(parts)) + text[end:]


HARMLESS: dict[str, Callable[[str], str]] = {
    "rename a module": lambda text: text.replace("self.blocks", "self.layers"),
    "rename a variable": lambda text: re.sub(r"\bhidden\b", "inner", text),
    "rename a class": lambda text: re.sub(r"\bBlock\b", "Layer", text),
    "rename a function": lambda text: re.sub(r"\bsquash\b", "shrink", text),
    "move lines": lambda text: text.replace(
        "\n\n\n", "\n\n\n# A comment,\n# and a line more.\n\n\n"
    ),
    "reorder functions": _reordered,
    "add an equal layer": lambda text: text.replace("LAYERS = 2", "LAYERS = 3"),
    "add two equal layers": lambda text: text.replace("LAYERS = 2", "LAYERS = 4"),
}
"""Besides these the file is renamed, which changes no text."""
