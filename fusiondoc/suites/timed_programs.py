"""The programs of the suites: blocks of a tutorial, and patterns that xFormers fused.

The tutorial's blocks are what stands behind a matrix product in a transformer: bias, dropout, residual,
normalisation, with torch's own layer norm, with one written from means and products, and with RMSNorm.
They are called with tensors alone, as ``memory_efficient_fusion`` takes nothing else: numbers are constants
in the functions, or arguments with a default where they must not be constants.

xFormers 0.0.12 to 0.0.21 had bias + activation + dropout, bias + dropout + residual, and the same with a
layer norm before the residual is added ("pre") or after it ("post"). Whole layers and a whole block were what
its authors gave up on for memory and CUDA errors: ``feed_forward_512``, ``attention_512_float16``,
``block_1024`` are modules of that width, made on demand.

    fusiondoc bench --suite tutorial
    fusiondoc bench timed_programs.py:rms_norm --backward --input 'float32[64,128,1024]:grad' ...
    fusiondoc bench --suite xformers
    fusiondoc bench timed_programs.py:bias_gelu_dropout --backward --variant aot --variant aot-each-call \
        --input 'float16[8,512,1024]:grad' --input 'float16[1024]:grad'
"""

import math
from typing import Callable, Dict, Optional

import torch
import torch.nn.functional as F


def composite(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    shift: torch.Tensor,
) -> torch.Tensor:
    summed = F.dropout(x + bias, 0.1, True) + residual
    return F.layer_norm(summed, (x.size(2),), weight, shift)


def primitive(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    shift: torch.Tensor,
    axis: int = 2,
    keepdim: bool = True,
) -> torch.Tensor:
    """The axis is an argument, as in the tutorial: with a constant one the backward pass may fail
    (FD307). TorchScript fills a default in when it is called, so the axis is no constant of the graph."""
    summed = F.dropout(x + bias, 0.1, True) + residual
    centred = summed - summed.mean(axis, keepdim=keepdim)
    variance = (centred * centred).mean(axis, keepdim=keepdim)
    return weight * (centred / torch.sqrt(variance + 1e-12)) + shift


def rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
) -> torch.Tensor:
    summed = F.dropout(x + bias, 0.1, True) + residual
    mean_square = (summed * summed).mean(2, keepdim=True)
    return weight * (summed / torch.sqrt(mean_square + 1e-12))


def bias_relu_dropout(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.dropout(F.relu(x + bias), 0.1, True)


def bias_gelu_dropout(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.dropout(F.gelu(x + bias), 0.1, True)


def bias_squared_relu_dropout(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    positive = F.relu(x + bias)
    return F.dropout(positive * positive, 0.1, True)


def relu_dropout(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(F.relu(x), 0.1, True)


def gelu_dropout(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(F.gelu(x), 0.1, True)


def squared_relu_dropout(x: torch.Tensor) -> torch.Tensor:
    positive = F.relu(x)
    return F.dropout(positive * positive, 0.1, True)


def bias_dropout_residual(
    x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    return F.dropout(x + bias, 0.1, True) + residual


def dropout_residual(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.1, True) + residual


def bias_dropout_residual_norm_pre(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    shift: torch.Tensor,
    bias: torch.Tensor,
) -> torch.Tensor:
    return (
        F.layer_norm(F.dropout(x + bias, 0.1, True), (x.size(2),), weight, shift)
        + residual
    )


def bias_dropout_residual_norm_post(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    shift: torch.Tensor,
    bias: torch.Tensor,
) -> torch.Tensor:
    return F.layer_norm(
        F.dropout(x + bias, 0.1, True) + residual, (x.size(2),), weight, shift
    )


def dropout_residual_norm_pre(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    shift: torch.Tensor,
) -> torch.Tensor:
    return (
        F.layer_norm(F.dropout(x, 0.1, True), (x.size(2),), weight, shift)
        + residual
    )


def dropout_residual_norm_post(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    shift: torch.Tensor,
) -> torch.Tensor:
    return F.layer_norm(
        F.dropout(x, 0.1, True) + residual, (x.size(2),), weight, shift
    )


class FeedForward(torch.nn.Module):
    """Linear, bias + GELU + dropout, linear, bias + dropout; four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(width, 4 * width)
        self.outer = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(
            self.outer(F.dropout(F.gelu(self.inner(x)), 0.1, True)), 0.1, True
        )


class Attention(torch.nn.Module):
    """Self-attention of eight heads, from matrix products and a softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = 8
        self.mixed = torch.nn.Linear(width, 3 * width)
        self.outer = torch.nn.Linear(width, width)
        self.scale = 1 / math.sqrt(width // self.heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.size(0), x.size(1), x.size(2)
        mixed = (
            self.mixed(x)
            .view(batch, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        query, key, value = mixed[0], mixed[1], mixed[2]
        weights = F.dropout(
            F.softmax(torch.matmul(query, key.transpose(-2, -1)) * self.scale, -1),
            0.1,
            True,
        )
        together = (
            torch.matmul(weights, value)
            .transpose(1, 2)
            .reshape(batch, length, width)
        )
        return F.dropout(self.outer(together), 0.1, True)


class TransformerBlock(torch.nn.Module):
    """Attention and feed-forward, each behind a layer norm and beside a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.LayerNorm(width)
        self.attention = Attention(width)
        self.second = torch.nn.LayerNorm(width)
        self.feed_forward = FeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended: torch.Tensor = x + self.attention(self.first(x))
        whole: torch.Tensor = attended + self.feed_forward(self.second(attended))
        return whole


LAYERS: Dict[str, Callable[[int], torch.nn.Module]] = {
    "feed_forward": FeedForward,
    "attention": Attention,
    "block": TransformerBlock,
}


def layer(name: str) -> Optional[torch.nn.Module]:
    """The module that ``block_512`` or ``block_512_float16`` names, on the GPU if there is one."""
    for kind, made in LAYERS.items():
        width, _, dtype = name[len(kind) + 1 :].partition("_")
        if name.startswith(kind + "_") and width.isdigit():
            device = "cuda" if torch.cuda.is_available() else "cpu"
            module: torch.nn.Module = made(int(width)).to(
                device, getattr(torch, dtype or "float32")
            )
            return module
    return None


def __getattr__(name: str) -> torch.nn.Module:
    found = layer(name)
    if found is None:
        raise AttributeError(name)
    return found
