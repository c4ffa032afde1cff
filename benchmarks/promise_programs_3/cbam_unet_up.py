"""A step upward of a U-Net with channel and spatial attention (CBAM), all activations in place."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CBAM(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(c, 2), nn.ReLU(inplace=True), nn.Linear(2, c))
        self.spatial = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.shape
        avg = self.mlp(F.adaptive_avg_pool2d(x, 1).view(b, c))
        largest = self.mlp(F.adaptive_max_pool2d(x, 1).view(b, c))
        x = x * torch.sigmoid(avg + largest).view(b, c, 1, 1)
        pooled = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], dim=1)
        return x * torch.sigmoid(self.spatial(pooled))


class Up(nn.Module):
    def __init__(self, c: int = 4) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(c, c, 2, stride=2)
        self.block = nn.Sequential(
            nn.Conv2d(2 * c, c, 3, padding=1, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(inplace=True),
            nn.Dropout2d(0.0),
            nn.Conv2d(c, c, 3, padding=1, bias=False),
            nn.GroupNorm(2, c),
            nn.LeakyReLU(0.1, inplace=True),
        )
        self.cbam = CBAM(c)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.up(x)
        y = self.block(torch.cat([skip, x], dim=1))
        y += x
        return self.cbam(y)


model = Up()
inputs = (torch.randn(2, 4, 4, 4), torch.randn(2, 4, 8, 8))
