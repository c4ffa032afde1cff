"""Image losses: LPIPS-like distances of normalised features, total variation, edges."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def normalize_tensor(x: Tensor, eps: float = 1e-10) -> Tensor:
    norm = torch.sqrt(torch.sum(x**2, dim=1, keepdim=True))
    return x / (norm + eps)


def rgb_to_ycbcr(x: Tensor) -> Tensor:
    r, g, b = x[:, 0:1], x[:, 1:2], x[:, 2:3]
    y = 0.299 * r + 0.587 * g + 0.114 * b
    cb = (b - y) * 0.564 + 0.5
    cr = (r - y) * 0.713 + 0.5
    return torch.cat((y, cb, cr), 1)


class Features(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.register_buffer("shift", torch.tensor([-0.03, -0.088, -0.188])[None, :, None, None])
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.45])[None, :, None, None])

    def forward(self, x: Tensor) -> list[Tensor]:
        x = (x - self.shift) / self.scale
        a = F.relu(self.conv1(x), inplace=True)
        b = F.relu(self.conv2(F.max_pool2d(a, 2)), inplace=True)
        return [a, b]


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = Features()
        self.lins = nn.ParameterList([nn.Parameter(torch.rand(1, 4, 1, 1)) for _ in range(2)])
        self.weight_tv: float = 0.1

    def edges(self, x: Tensor) -> Tensor:
        gx = x[:, :, :, 1:] - x[:, :, :, :-1]
        gy = x[:, :, 1:, :] - x[:, :, :-1, :]
        gx = F.pad(gx, [0, 1, 0, 0])
        gy = F.pad(gy, [0, 0, 0, 1])
        m = gx.abs()
        m += gy.abs()
        m *= 0.5
        return m

    def forward(
        self, fake: Tensor, real: Tensor, mask: Tensor, alpha: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        fake = fake.clamp(-1.0, 1.0)
        one, other = self.features(fake), self.features(real)
        distance = torch.zeros([fake.size(0), 1, 1, 1], device=fake.device)
        for i, lin in enumerate(self.lins):
            d = normalize_tensor(one[i]) - normalize_tensor(other[i])
            d = d.pow(2)
            d *= lin.clamp(min=0)
            distance = distance + d.sum(1, keepdim=True).mean([2, 3], keepdim=True)
        difference = (rgb_to_ycbcr(fake) - rgb_to_ycbcr(real)).abs()
        difference = torch.where(mask.expand_as(difference), difference, difference * 0.1)
        pixel = torch.sqrt(difference.pow_(2) + 1e-6).mean()
        tv = (fake[..., 1:] - fake[..., :-1]).abs().mean() + (
            fake[..., 1:, :] - fake[..., :-1, :]
        ).abs().mean()
        e = self.edges(fake) - self.edges(real)
        edge = F.smooth_l1_loss(e, torch.zeros_like(e), reduction="none")
        edge[~mask.expand_as(edge)] = 0.0
        mixed = alpha * real + (1 - alpha) * fake.detach()
        mixed = mixed.mul_(2.0).sub_(1.0)
        total = distance.mean()
        total += pixel
        total += self.weight_tv * tv
        total = total + edge.sum() / mask.sum().clamp(min=1)
        return total, mixed, {"pixel": pixel.detach(), "tv": tv.detach()}


model = Loss()
inputs = (
    torch.randn(2, 3, 6, 6),
    torch.randn(2, 3, 6, 6),
    torch.rand(2, 1, 6, 6) > 0.3,
    torch.rand(2, 1, 1, 1),
)
