"""Attention U-Net: gates on the skips, deep supervision at every scale, Dice with cross entropy."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        self.norm1 = nn.InstanceNorm2d(outside, affine=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.act = nn.LeakyReLU(0.01, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm1(self.conv1(x)))
        return self.act(self.conv2(x))


class AttentionGate(nn.Module):
    def __init__(self, gate: int, skip: int, inter: int) -> None:
        super().__init__()
        self.wg, self.wx = nn.Conv2d(gate, inter, 1), nn.Conv2d(skip, inter, 1, bias=False)
        self.psi = nn.Conv2d(inter, 1, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, g: Tensor, x: Tensor) -> Tensor:
        g1 = F.interpolate(self.wg(g), size=x.shape[-2:], mode="bilinear", align_corners=False)
        psi = self.relu(g1 + self.wx(x))
        return x * torch.sigmoid(self.psi(psi))


class AttentionUNet(nn.Module):
    def __init__(self, supervise: bool = True) -> None:
        super().__init__()
        self.supervise = supervise
        self.e1, self.e2, self.e3 = Block(1, 4), Block(4, 6), Block(6, 8)
        self.a2, self.a1 = AttentionGate(8, 6, 3), AttentionGate(6, 4, 2)
        self.d2, self.d1 = Block(14, 6), Block(10, 4)
        self.out1, self.out2 = nn.Conv2d(4, 1, 1), nn.Conv2d(6, 1, 1)

    def loss(self, logit: Tensor, target: Tensor) -> Tensor:
        p = torch.sigmoid(logit)
        inter = (p * target).sum(dim=(1, 2, 3))
        total = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
        dice = 1 - (2 * inter + 1.0) / (total + 1.0)
        bce = torch.clamp(logit, min=0) - logit * target + torch.log1p(torch.exp(-logit.abs()))
        return 0.5 * bce.mean() + 0.5 * dice.mean()

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        s1 = self.e1(x)
        s2 = self.e2(F.max_pool2d(s1, 2))
        z = self.e3(F.max_pool2d(s2, 2))
        u2 = F.interpolate(z, scale_factor=2.0, mode="nearest")
        u2 = self.d2(torch.cat([u2, self.a2(z, s2)], dim=1))
        u1 = F.interpolate(u2, scale_factor=2.0, mode="nearest")
        u1 = self.d1(torch.cat([u1, self.a1(u2, s1)], dim=1))
        outs = [self.out1(u1), self.out2(u2)]
        loss = torch.zeros((), device=x.device)
        weight = 1.0
        for out in outs:
            t = target
            if out.shape[-1] != target.shape[-1]:
                t = F.adaptive_max_pool2d(target, [out.shape[-2], out.shape[-1]])
            loss += weight * self.loss(out, t)
            weight *= 0.5
            if not self.supervise:
                break
        return loss, (torch.sigmoid(outs[0]) > 0.5).to(x.dtype)


model = AttentionUNet()
inputs = (torch.randn(2, 1, 8, 8), (torch.rand(2, 1, 8, 8) > 0.6).float())
