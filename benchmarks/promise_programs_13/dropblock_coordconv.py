"""DropBlock, CoordConv, stochastic depth, anti-aliased pooling and an SPP neck, as detectors have them."""

from typing import List

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DropBlock(nn.Module):
    def __init__(self, p: float = 0.1, size: int = 3) -> None:
        super().__init__()
        self.p, self.size = p, size
        self.register_buffer("seed", torch.rand(1, 1, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        gamma = self.p * x.size(-1) ** 2 / (self.size**2 * (x.size(-1) - self.size + 1) ** 2)
        mask = (self.seed[..., : x.size(-2), : x.size(-1)] < gamma).to(x.dtype)
        mask = F.max_pool2d(mask, self.size, stride=1, padding=self.size // 2)
        mask = 1 - mask
        x = x * mask
        x *= mask.numel() / mask.sum().clamp(min=1.0)
        return x


class CoordConv(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs + 3, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.act = nn.Hardswish(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        ys = torch.linspace(-1.0, 1.0, h, device=x.device).view(1, 1, h, 1).expand(n, 1, h, w)
        xs = torch.linspace(-1.0, 1.0, w, device=x.device).view(1, 1, 1, w).expand(n, 1, h, w)
        r = torch.sqrt(xs**2 + ys**2)
        return self.act(self.bn(self.conv(torch.cat([x, xs, ys, r], 1))))


class BlurPool(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        k = torch.tensor([1.0, 2.0, 1.0])
        k = k[:, None] * k[None]
        k /= k.sum()
        self.register_buffer("kernel", k[None, None].repeat(channels, 1, 1, 1))
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, [1, 1, 1, 1], mode="reflect")
        return F.conv2d(x, self.kernel, stride=2, groups=self.channels)


class Residual(nn.Module):
    def __init__(self, channels: int, keep: float) -> None:
        super().__init__()
        self.conv1, self.conv2 = CoordConv(channels, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.drop = DropBlock()
        self.keep = keep
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.5))
        self.register_buffer("coin", torch.tensor([[[[1.0]]], [[[0.0]]]]))

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.conv1(x))
        h = self.conv2(h)
        h *= self.scale
        if self.training and self.keep < 1.0:
            h = h / self.keep
            h *= self.coin
        h += x
        return F.relu_(h)


class Net(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.stem = CoordConv(3, channels)
        self.blocks = nn.ModuleList([Residual(channels, 0.8), Residual(channels, 1.0)])
        self.down = BlurPool(channels)
        self.sizes: List[int] = [3, 5]
        self.head = nn.Linear(channels * 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean([2, 3], keepdim=True)
        std = x.var([2, 3], keepdim=True).add_(1e-5).sqrt_()
        x = (x - mean) / std
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.down(x)
        pooled: List[Tensor] = [x]
        for size in self.sizes:
            pooled.append(F.max_pool2d(x, size, stride=1, padding=size // 2))
        x = torch.cat(pooled, 1)
        x = x.flatten(2).mean(-1)
        x = x / x.norm(p=2, dim=1, keepdim=True).clamp(min=1e-6)
        return self.head(x)


model = Net()
inputs = (torch.rand(2, 3, 8, 8),)
