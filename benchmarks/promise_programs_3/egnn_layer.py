"""An equivariant graph layer over all pairs: distances, messages, coordinate updates."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EGNN(nn.Module):
    def __init__(self, d: int = 4, m: int = 6) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * d + 1, m), nn.SiLU(), nn.Linear(m, m), nn.SiLU())
        self.coord = nn.Linear(m, 1, bias=False)
        self.node = nn.Linear(d + m, d)
        self.gate = nn.Linear(m, 1)

    def forward(self, feats: Tensor, coors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        n = feats.size(1)
        rel = coors.unsqueeze(2) - coors.unsqueeze(1)
        dist = rel.pow(2).sum(dim=-1, keepdim=True)
        fi = feats.unsqueeze(2).expand(-1, -1, n, -1)
        fj = feats.unsqueeze(1).expand(-1, n, -1, -1)
        m_ij = self.edge(torch.cat([fi, fj, dist], dim=-1))
        m_ij = m_ij * self.gate(m_ij).sigmoid()
        pair = mask.unsqueeze(2) * mask.unsqueeze(1)
        m_ij.masked_fill_(~pair.unsqueeze(-1), 0.0)
        weights = self.coord(m_ij).tanh()
        normed = rel / (dist.clamp(min=1e-8).sqrt() + 1.0)
        coors = coors + (weights * normed).sum(dim=2) / (n - 1)
        out = self.node(torch.cat([feats, m_ij.sum(dim=2)], dim=-1))
        return feats + F.celu(out), coors


model = EGNN()
inputs = (torch.randn(1, 5, 4), torch.randn(1, 5, 3), torch.ones(1, 5, dtype=torch.bool))
