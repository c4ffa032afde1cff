"""Speaker verification: time-delay layers, attentive statistics pooling, AM-softmax with a margin."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AttentiveStatisticsPooling(nn.Module):
    def __init__(self, channels: int, attention: int) -> None:
        super().__init__()
        self.eps = 1e-5
        self.tdnn = nn.Conv1d(3 * channels, attention, 1)
        self.conv = nn.Conv1d(attention, channels, 1)

    def statistics(self, x: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        mean = (m * x).sum(2)
        std = torch.sqrt((m * (x - mean.unsqueeze(2)).pow(2)).sum(2).clamp(self.eps))
        return mean, std

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:
        length = x.shape[-1]
        if lengths is None:
            lengths = torch.ones(x.shape[0], device=x.device)
        steps = torch.arange(length, device=x.device, dtype=lengths.dtype)
        mask = (steps[None, :] < (lengths * length)[:, None]).unsqueeze(1)
        total = mask.sum(dim=2, keepdim=True).float()
        mean, std = self.statistics(x, mask / total)
        mean = mean.unsqueeze(2).repeat(1, 1, length)
        std = std.unsqueeze(2).repeat(1, 1, length)
        attn = self.conv(torch.tanh(F.relu(self.tdnn(torch.cat([x, mean, std], dim=1)))))
        attn = attn.masked_fill(mask == 0, float("-inf"))
        attn = F.softmax(attn, dim=2)
        mean, std = self.statistics(x, attn)
        return torch.cat((mean, std), dim=1)


class Speaker(nn.Module):
    def __init__(
        self, mels: int = 5, width: int = 6, speakers: int = 4, m: float = 0.2, s: float = 30.0
    ) -> None:
        super().__init__()
        self.m, self.s = m, s
        self.frame1, self.frame2 = nn.Conv1d(mels, width, 3, padding=1), nn.Conv1d(width, width, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.pool = AttentiveStatisticsPooling(width, 4)
        self.embed = nn.Linear(2 * width, 8)
        self.weight = nn.Parameter(torch.randn(speakers, 8))

    def forward(self, feats: Tensor, lengths: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        feats = feats - feats.mean(dim=2, keepdim=True)
        x = self.relu(self.frame1(feats))
        x = self.relu(self.frame2(x)) + x
        e = self.embed(self.pool(x, lengths))
        e = e / e.norm(p=2, dim=1, keepdim=True).clamp(min=1e-12)
        w = self.weight / self.weight.norm(p=2, dim=1, keepdim=True).clamp(min=1e-12)
        cosine = torch.mm(e, w.t())
        if self.training:
            margin = torch.zeros_like(cosine)
            margin.scatter_(1, label.view(-1, 1), self.m)
            cosine = cosine - margin
        logits = self.s * cosine
        loss = F.cross_entropy(logits, label)
        correct = (logits.argmax(1) == label).float().mean()
        return loss, correct


model = Speaker()
inputs = (torch.randn(3, 5, 9), torch.tensor([1.0, 0.7, 0.9]), torch.tensor([0, 2, 3]))
