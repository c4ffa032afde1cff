"""The convolution module of a Conformer with a half-step feed forward before it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvModule(nn.Module):
    def __init__(self, dim: int = 8, kernel: int = 5) -> None:
        super().__init__()
        self.ff_norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Dropout(0.1), nn.Linear(2 * dim, dim))
        self.norm = nn.LayerNorm(dim)
        self.pointwise = nn.Conv1d(dim, 2 * dim, 1)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.batch_norm = nn.BatchNorm1d(dim)
        self.act = nn.SiLU(inplace=True)
        self.out = nn.Conv1d(dim, dim, 1)

    def forward(self, x: Tensor, pad: Tensor) -> Tensor:
        x = x + 0.5 * self.ff(self.ff_norm(x))
        y = self.norm(x).transpose(1, 2)
        y = F.glu(self.pointwise(y), dim=1)
        y = y.masked_fill(pad.unsqueeze(1), 0.0)
        y = self.out(self.act(self.batch_norm(self.depthwise(y))))
        return x + y.transpose(1, 2)


model = ConvModule().eval()
inputs = (torch.randn(2, 6, 8), torch.arange(6).expand(2, 6) >= torch.tensor([[6], [4]]))
