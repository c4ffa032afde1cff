"""A layer of GraphSAGE: means of neighbours by index_add, then L2 normalisation."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SAGEConv(nn.Module):
    def __init__(self, cin: int = 6, cout: int = 5) -> None:
        super().__init__()
        self.lin_l = nn.Linear(cin, cout)
        self.lin_r = nn.Linear(cin, cout, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index[0], edge_index[1]
        total = torch.zeros_like(x).index_add_(0, dst, x[src])
        degree = torch.zeros(x.size(0), device=x.device).index_add_(
            0, dst, torch.ones(dst.size(0), device=x.device)
        )
        mean = total / degree.clamp(min=1).unsqueeze(-1)
        out = self.lin_l(mean) + self.lin_r(x)
        out = F.normalize(out, p=2.0, dim=-1)
        return F.elu(out)


model = SAGEConv()
inputs = (torch.randn(8, 6), torch.randint(0, 8, (2, 20)))
