"""The variance adaptor of FastSpeech 2: predictors, buckets of pitch, durations rounded, padding masked."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Predictor(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(dim, dim, 3, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(dim, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.drop(self.norm1(F.relu(self.conv1(x.transpose(1, 2))).transpose(1, 2)))
        x = self.drop(self.norm2(F.relu(self.conv2(x.transpose(1, 2))).transpose(1, 2)))
        out = self.linear(x).squeeze(-1)
        return out.masked_fill(mask, 0.0)


class VarianceAdaptor(nn.Module):
    def __init__(self, dim: int = 8, bins: int = 16) -> None:
        super().__init__()
        self.duration = Predictor(dim)
        self.pitch = Predictor(dim)
        self.register_buffer("bins", torch.linspace(-2.0, 2.0, bins - 1))
        self.pitch_embedding = nn.Embedding(bins, dim)
        self.mean, self.std = 0.1, 1.3

    def forward(
        self, x: Tensor, lengths: Tensor, p_control: float = 1.1, d_control: float = 0.9
    ) -> tuple[Tensor, Tensor, Tensor]:
        ids = torch.arange(0, x.size(1), device=x.device).unsqueeze(0).expand(x.size(0), -1)
        mask = ids >= lengths.unsqueeze(1).expand(-1, x.size(1))
        log_duration = self.duration(x, mask)
        pitch = self.pitch(x, mask) * p_control
        pitch = (pitch - self.mean) / self.std
        x = x + self.pitch_embedding(torch.bucketize(pitch, self.bins))
        rounded = torch.clamp(torch.round(torch.exp(log_duration) - 1) * d_control, min=0)
        x = x.masked_fill(mask.unsqueeze(-1), 0)
        return x, rounded, pitch


model = VarianceAdaptor().eval()
inputs = (torch.randn(2, 6, 8), torch.tensor([6, 4]))
