"""Graph attention on a dense adjacency with an edge bias and dropout of attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.proj = nn.Linear(dim, dim, bias=False)
        self.left = nn.Parameter(torch.randn(dim) * 0.3)
        self.right = nn.Parameter(torch.randn(dim) * 0.3)
        self.act = nn.LeakyReLU(0.2, inplace=True)
        self.drop = nn.Dropout(0.1, inplace=True)

    def forward(self, x: Tensor, adjacency: Tensor, bias: Tensor) -> Tensor:
        h = self.drop(self.proj(x))
        e = (h * self.left).sum(-1, keepdim=True) + (h * self.right).sum(-1).unsqueeze(0)
        e = self.act(e + bias)
        e = e.masked_fill(adjacency == 0, -1e4)
        a = torch.softmax(e, -1)
        out = a @ h
        return F.elu(out, inplace=True) + x


model = Layer()
inputs = (torch.randn(5, 6), (torch.rand(5, 5) > 0.4).long(), torch.randn(5, 5) * 0.1)
