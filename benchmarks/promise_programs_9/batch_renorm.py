"""Batch renormalisation by hand, with running statistics, weight standardisation, stochastic depth."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BatchRenorm(nn.Module):
    def __init__(self, channels: int, eps: float = 1e-3, momentum: float = 0.01) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_std", torch.ones(channels))
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps
        self.momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            mean = x.mean([0, 2, 3])
            std = x.var([0, 2, 3], unbiased=False).sqrt() + self.eps
            r = (std.detach() / self.running_std).clamp_(1 / 3.0, 3.0)
            d = ((mean.detach() - self.running_mean) / self.running_std).clamp_(-5.0, 5.0)
            y = (x - mean[None, :, None, None]) / std[None, :, None, None]
            y = y * r[None, :, None, None] + d[None, :, None, None]
            self.running_mean += self.momentum * (mean.detach() - self.running_mean)
            self.running_std += self.momentum * (std.detach() - self.running_std)
        else:
            y = (x - self.running_mean[None, :, None, None]) / self.running_std[None, :, None, None]
        return self.weight[None, :, None, None] * y + self.bias[None, :, None, None]


class Block(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(channels, channels, 3, 3) * 0.2)
        self.norm1 = BatchRenorm(channels)
        self.norm2 = BatchRenorm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 1e-1))

    def standardised(self) -> Tensor:
        w = self.kernel
        mean = w.mean(dim=[1, 2, 3], keepdim=True)
        w = w - mean
        std = w.view(w.size(0), -1).std(dim=1).view(-1, 1, 1, 1) + 1e-5
        return w / std.expand_as(w)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        out = F.conv2d(x, self.standardised(), None, 1, 1)
        out = F.hardswish(self.norm1(out))
        out = self.norm2(self.conv2(out))
        out *= self.scale
        mask = keep.view(-1, 1, 1, 1).to(x.dtype)
        out = out.div_(0.8) * mask
        out += x
        return F.relu6(out)


model = Block()
inputs = (torch.randn(3, 4, 5, 5), torch.tensor([True, False, True]))
