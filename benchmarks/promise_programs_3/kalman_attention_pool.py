"""Pooling of sequences by attention with lengths, statistics (mean and deviation) as in ECAPA."""

import torch
from torch import Tensor, nn


class AttentiveStats(nn.Module):
    def __init__(self, c: int = 6, a: int = 4) -> None:
        super().__init__()
        self.tdnn = nn.Conv1d(3 * c, a, 1)
        self.bn = nn.BatchNorm1d(a)
        self.conv = nn.Conv1d(a, c, 1)
        self.eps = 1e-12

    def statistics(self, x: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        mean = (m * x).sum(2)
        std = torch.sqrt((m * (x - mean.unsqueeze(2)).pow(2)).sum(2).clamp(self.eps))
        return mean, std

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        length = x.size(-1)
        mask = torch.arange(length, device=x.device)[None, :] < lengths[:, None] * length
        mask = mask.unsqueeze(1)
        total = mask.sum(dim=2, keepdim=True).float()
        mean, std = self.statistics(x, mask / total)
        mean = mean.unsqueeze(2).repeat(1, 1, length)
        std = std.unsqueeze(2).repeat(1, 1, length)
        attn = torch.cat([x, mean, std], dim=1)
        attn = self.conv(torch.tanh(self.bn(torch.relu(self.tdnn(attn)))))
        attn = attn.masked_fill(mask == 0, float("-inf"))
        attn = torch.softmax(attn, dim=2)
        mean, std = self.statistics(x, attn)
        return torch.cat((mean, std), dim=1).unsqueeze(2)


model = AttentiveStats()
inputs = (torch.randn(3, 6, 8), torch.tensor([1.0, 0.75, 0.5]))
