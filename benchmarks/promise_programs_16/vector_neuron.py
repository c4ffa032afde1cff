"""Vector neurons: layers on lists of 3D vectors that turn with their input, and an invariant head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VNLinearLeakyReLU(nn.Module):
    def __init__(self, inside: int, outside: int, negative_slope: float = 0.2, normed: bool = True) -> None:
        super().__init__()
        self.slope, self.normed, self.eps = negative_slope, normed, 1e-6
        self.map_to_feat = nn.Linear(inside, outside, bias=False)
        self.map_to_dir = nn.Linear(inside, outside, bias=False)
        self.gamma = nn.Parameter(torch.ones(outside))
        self.beta = nn.Parameter(torch.zeros(outside))

    def norm(self, x: Tensor) -> Tensor:
        length = torch.norm(x, dim=2) + self.eps
        mean = length.mean(dim=(0, 2), keepdim=True) if x.dim() == 4 else length.mean(0, keepdim=True)
        var = (length - mean).pow(2).mean(0, keepdim=True)
        scaled = (length - mean) / torch.sqrt(var + 1e-5)
        if scaled.dim() == 3:
            scaled = scaled * self.gamma[None, :, None] + self.beta[None, :, None]
        else:
            scaled = scaled * self.gamma + self.beta
        return x / length.unsqueeze(2) * scaled.unsqueeze(2)

    def forward(self, x: Tensor) -> Tensor:
        p = self.map_to_feat(x.transpose(1, -1)).transpose(1, -1)
        if self.normed:
            p = self.norm(p)
        d = self.map_to_dir(x.transpose(1, -1)).transpose(1, -1)
        dot = (p * d).sum(2, keepdim=True)
        mask = (dot >= 0).float()
        d_norm_sq = (d * d).sum(2, keepdim=True)
        turned = mask * p + (1 - mask) * (p - (dot / (d_norm_sq + self.eps)) * d)
        return self.slope * p + (1 - self.slope) * turned


class Classifier(nn.Module):
    def __init__(self, pooling: str = "mean") -> None:
        super().__init__()
        self.pooling = pooling
        self.first, self.second = VNLinearLeakyReLU(2, 5), VNLinearLeakyReLU(5, 4, normed=False)
        self.frame, self.head = nn.Linear(4, 3, bias=False), nn.Linear(12, 5)

    def forward(self, points: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        centred = points - points.mean(dim=2, keepdim=True)
        x = torch.stack([points, centred], dim=1)
        x = self.second(self.first(x))
        if self.pooling == "mean":
            x = x.mean(dim=-1)
        else:
            x = x.amax(dim=-1)
        z = self.frame(x.transpose(1, 2))
        invariant = torch.einsum("bci,bij->bcj", x, z).flatten(1)
        logits = self.head(F.leaky_relu(invariant, 0.2))
        log_p = F.log_softmax(logits, dim=1)
        smooth = torch.full_like(log_p, 0.2 / 4)
        smooth.scatter_(1, target.unsqueeze(1), 0.8)
        return -(smooth * log_p).sum(1).mean(), logits


model = Classifier()
inputs = (torch.randn(3, 3, 8), torch.tensor([0, 3, 4]))
