"""Nine programs of te.ops operators of Transformer Engine; FP8 recipes need a GPU with FP8.

fusiondoc diagnose examples/te_programs.py:mlp --backward --recipe none --recipe delayed
"""

import torch
import transformer_engine.pytorch.ops as te

WIDTH, ROWS = 1024, 4096
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def inputs():
    return (torch.randn(ROWS, WIDTH, device=DEVICE, dtype=torch.bfloat16, requires_grad=True),)


def linear(dtype=torch.bfloat16, **more):
    return te.Linear(WIDTH, WIDTH, device=DEVICE, dtype=dtype, **more)


def norm(kind, dtype=torch.bfloat16):
    return kind(WIDTH, device=DEVICE, dtype=dtype)


class Residual(torch.nn.Module):
    """A sequence that takes a second input, which one of its operators adds."""

    def __init__(self, *operators):
        super().__init__()
        self.block = te.Sequential(*operators)

    def forward(self, x):
        return self.block(x, x * 0.5)


# Linear and bias are one operator in the forward pass; the activation is not: its backward joins the bias's
# under an FP8 recipe.
mlp = te.Sequential(
    norm(te.LayerNorm),
    linear(),
    te.GELU(),
    linear(),
)

# In float32 nothing of it is fused: cuBLAS adds the bias in float16 and bfloat16 only.
float32_mlp = te.Sequential(
    linear(torch.float32),
    te.ReLU(),
    linear(torch.float32),
)

# SiLU's backward joins no bias.
silu_mlp = te.Sequential(
    norm(te.RMSNorm),
    linear(),
    te.SiLU(),
    linear(),
)

# The residual is added inside the matrix product, in place.
residual = Residual(
    linear(),
    te.AddExtraInput(in_place=True),
)

# Not in place, it stays an operator of its own.
residual_apart = Residual(
    linear(),
    te.AddExtraInput(in_place=False),
)

# Product, scale and sum in one operator; in the backward pass product and scale.
scaled_residual = Residual(
    linear(bias=False),
    te.ConstantScale(0.5),
    te.AddExtraInput(in_place=True),
)

# The backward pass adds the other branch's gradient inside the matrix product.
branch = te.Sequential(
    te.MakeExtraOutput(in_place=True),
    linear(bias=False),
)

# The backward pass adds the other branch's gradient inside the norm.
norm_branch = te.Sequential(
    te.MakeExtraOutput(),
    norm(te.RMSNorm),
    linear(),
    te.ReLU(),
    linear(),
)

# A module that is no operator of te.ops: nothing is fused across it.
split = te.Sequential(
    linear(),
    torch.nn.Dropout(0.1),
    te.GELU(),
    linear(),
)
