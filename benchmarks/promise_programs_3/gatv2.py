"""Attention over edges as GATv2 has it, with a softmax by scatter and dropout of none."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GATv2(nn.Module):
    def __init__(self, cin: int = 6, cout: int = 4, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.cout = heads, cout
        self.lin_l = nn.Linear(cin, heads * cout)
        self.lin_r = nn.Linear(cin, heads * cout)
        self.att = nn.Parameter(torch.randn(1, heads, cout) * 0.3)
        self.bias = nn.Parameter(torch.zeros(heads * cout))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        src, dst = edge_index[0], edge_index[1]
        x_l = self.lin_l(x).view(-1, self.heads, self.cout)
        x_r = self.lin_r(x).view(-1, self.heads, self.cout)
        e = F.leaky_relu(x_l[src] + x_r[dst], 0.2)
        alpha = (e * self.att).sum(dim=-1)
        alpha = (alpha - alpha.max()).exp()
        total = torch.zeros(n, self.heads).index_add_(0, dst, alpha)
        alpha = alpha / (total[dst] + 1e-16)
        out = torch.zeros(n, self.heads, self.cout)
        out.index_add_(0, dst, x_l[src] * alpha.unsqueeze(-1))
        out = out.view(n, self.heads * self.cout)
        out += self.bias
        return F.elu(out)


model = GATv2()
inputs = (torch.randn(8, 6), torch.randint(0, 8, (2, 24)))
