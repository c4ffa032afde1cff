"""A constant-velocity tracker: gating by Mahalanobis distance, soft association, update."""

import torch
from torch import Tensor, nn


class Tracker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("motion", torch.eye(4) + torch.diag(torch.ones(2), 2))
        self.register_buffer("observe", torch.eye(4)[:2])
        self.log_q = nn.Parameter(torch.full((4,), -2.0))
        self.log_r = nn.Parameter(torch.full((2,), -1.0))
        self.gate = 9.21

    def predict(self, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.matmul(mean, self.motion.t())
        cov = torch.matmul(torch.matmul(self.motion, cov), self.motion.t())
        cov = cov + torch.diag(self.log_q.exp())
        return mean, cov

    def forward(
        self, mean: Tensor, cov: Tensor, boxes: Tensor, score: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, cov = self.predict(mean, cov)
        pht = torch.matmul(cov, self.observe.t())
        s = torch.matmul(self.observe, pht) + torch.diag(self.log_r.exp())
        det = s[:, 0, 0] * s[:, 1, 1] - s[:, 0, 1] * s[:, 1, 0]
        inv = torch.stack([s[:, 1, 1], -s[:, 0, 1], -s[:, 1, 0], s[:, 0, 0]], dim=-1)
        inv = inv.view(-1, 2, 2) / det.clamp(min=1e-6)[:, None, None]
        centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5
        innovation = centre[None, :, :] - torch.matmul(mean, self.observe.t())[:, None, :]
        d2 = (torch.matmul(innovation, inv) * innovation).sum(-1)
        cost = 0.5 * d2 + 0.5 * det.log()[:, None]
        cost -= score.clamp(1e-4, 1.0).log()[None, :]
        logits = -cost
        logits[d2 > self.gate] = -1e4
        weight = torch.softmax(logits, dim=-1)
        weight = weight * (d2 <= self.gate).float()
        residual = torch.matmul(weight.unsqueeze(1), innovation).squeeze(1)
        gain = torch.matmul(pht, inv)
        mean = mean + torch.matmul(gain, residual.unsqueeze(-1)).squeeze(-1)
        seen = weight.sum(-1)[:, None, None]
        cov = cov - seen * torch.matmul(gain, torch.matmul(s, gain.transpose(1, 2)))
        cov = 0.5 * (cov + cov.transpose(1, 2))
        return mean, cov, weight


model = Tracker()
inputs = (
    torch.randn(5, 4),
    torch.eye(4).repeat(5, 1, 1) * 2.0,
    torch.rand(6, 4) * 3.0,
    torch.rand(6),
)
