"""Bias and GELU (tanh form): one chain of elementwise operators, so every fuser makes one group of it.

fusiondoc diagnose examples/bias_gelu.py
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
rows, columns = (4096, 4096) if device == "cuda" else (8, 64)


class BiasGelu(torch.nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.bias
        inner = y * 0.7978845608 * (y * y * 0.044715 + 1.0)
        return y * 0.5 * (torch.tanh(inner) + 1.0)


model = BiasGelu(columns).to(device)
inputs = (torch.randn(rows, columns, device=device),)
