"""Inpainting with gated and partial convolutions: a mask that shrinks, ELU gates."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GatedConv(nn.Module):
    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.feature = nn.Conv2d(cin, cout, 3, padding=1)
        self.gate = nn.Conv2d(cin, cout, 3, padding=1)
        self.norm = nn.InstanceNorm2d(cout, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        f = F.elu(self.feature(x), inplace=True)
        g = torch.sigmoid(self.gate(x))
        return self.norm(f * g)


class PartialConv(nn.Module):
    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.register_buffer("ones", torch.ones(1, 1, 3, 3))

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            count = F.conv2d(mask, self.ones, padding=1)
            ratio = 9.0 / (count + 1e-8)
            new_mask = torch.clamp(count, 0, 1)
            ratio = ratio * new_mask
        raw = self.conv(x * mask)
        bias = self.conv.bias
        if bias is not None:
            bias = bias.view(1, -1, 1, 1)
            out = (raw - bias) * ratio + bias
            out *= new_mask
        else:
            out = raw * ratio
        return out, new_mask


class Inpaint(nn.Module):
    def __init__(self, c: int = 4) -> None:
        super().__init__()
        self.partial = PartialConv(3, c)
        self.gated1 = GatedConv(c + 1, c)
        self.gated2 = GatedConv(c, c)
        self.up = nn.Conv2d(c, 3, 3, padding=1)
        self.act = nn.LeakyReLU(0.2, inplace=True)

    def forward(self, image: Tensor, hole: Tensor) -> tuple[Tensor, Tensor]:
        known = 1.0 - hole
        x, mask = self.partial(image * known, known)
        x = self.act(x)
        x = self.gated1(torch.cat([x, mask], dim=1))
        x = self.gated2(x) + x
        out = torch.tanh(self.up(x))
        out = (out + 1.0).mul_(0.5)
        complete = image * known + out * hole
        l1 = (out - image).abs()
        valid = (l1 * known).sum() / (known.sum() * 3 + 1e-6)
        missing = (l1 * hole).sum() / (hole.sum() * 3 + 1e-6)
        tv = (complete[:, :, :, 1:] - complete[:, :, :, :-1]).pow(2).mean()
        tv += (complete[:, :, 1:, :] - complete[:, :, :-1, :]).pow(2).mean()
        return valid + 6.0 * missing + 0.1 * tv, complete


model = Inpaint()
inputs = (torch.rand(2, 3, 6, 6), (torch.rand(2, 1, 6, 6) > 0.6).float())
