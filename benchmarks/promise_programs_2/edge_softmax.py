"""Graph attention: softmax over the edges of a node by scatter."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GATLayer(nn.Module):
    def __init__(self, dim: int = 6, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(dim, heads * 4, bias=False)
        self.att_src = nn.Parameter(torch.randn(1, heads, 4))
        self.att_dst = nn.Parameter(torch.randn(1, heads, 4))
        self.bias = nn.Parameter(torch.zeros(heads * 4))

    def forward(self, x: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        n = x.size(0)
        h = self.lin(x).view(n, self.heads, 4)
        alpha_src = (h * self.att_src).sum(-1)
        alpha_dst = (h * self.att_dst).sum(-1)
        alpha = F.leaky_relu(alpha_src[src] + alpha_dst[dst], 0.2)
        alpha = (alpha - alpha.max()).exp()
        index = dst.unsqueeze(-1).expand_as(alpha)
        denom = torch.zeros(n, self.heads).scatter_add(0, index, alpha)
        alpha = alpha / (denom[dst] + 1e-16)
        out = torch.zeros_like(h).index_add(0, dst, h[src] * alpha.unsqueeze(-1))
        out = out.reshape(n, -1)
        out += self.bias
        return F.elu(out)


model = GATLayer()
inputs = (torch.randn(7, 6), torch.randint(0, 7, (18,)), torch.randint(0, 7, (18,)))
