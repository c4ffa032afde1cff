"""A U-Net with a list of skips, leaky ReLUs in place, attention gates and deep supervision."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Gate(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.wx = nn.Conv2d(channels, channels, 1, bias=False)
        self.wg = nn.Conv2d(channels, channels, 1)
        self.psi = nn.Conv2d(channels, 1, 1)

    def forward(self, skip: Tensor, g: Tensor) -> Tensor:
        a = self.wx(skip)
        a += self.wg(g)
        a = F.relu(a, inplace=True)
        alpha = torch.sigmoid(self.psi(a))
        alpha = alpha.sub(alpha.mean()).mul_(2.0).add_(0.5).clamp_(0.0, 1.0)
        return skip * alpha


class UNet(nn.Module):
    def __init__(self, channels: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.down = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.GroupNorm(2, channels) for _ in range(depth)])
        self.up = nn.ModuleList([nn.Conv2d(2 * channels, channels, 3, padding=1) for _ in range(depth)])
        self.gates = nn.ModuleList([Gate(channels) for _ in range(depth)])
        self.act = nn.LeakyReLU(0.2, inplace=True)
        self.heads = nn.ModuleList([nn.Conv2d(channels, 1, 1) for _ in range(depth)])

    def forward(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        skips: list[Tensor] = []
        h = self.stem(x)
        for conv, norm in zip(self.down, self.norm):
            skips.append(h)
            h = self.act(norm(conv(h)))
            h = F.avg_pool2d(h, 2)
        total = torch.zeros([], device=x.device)
        out = torch.zeros_like(x)
        for i, (conv, gate, head) in enumerate(zip(self.up, self.gates, self.heads)):
            skip = skips.pop()
            h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            h = torch.cat([gate(skip, h), h], dim=1)
            h = self.act(conv(h))
            side = F.interpolate(head(h), size=[x.size(2), x.size(3)], mode="bilinear", align_corners=False)
            side *= weights[i]
            out = out + side
            total += side.abs().mean()
        out = torch.tanh_(out)
        return out, total


model = UNet()
inputs = (torch.randn(2, 1, 8, 8), torch.tensor([0.4, 1.0]))
