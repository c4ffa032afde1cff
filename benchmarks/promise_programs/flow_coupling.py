"""An affine coupling layer of a normalising flow, written on a copy."""

import torch
from torch import Tensor, nn


class Coupling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(inplace=True), nn.Linear(8, 6))

    def forward(self, x: Tensor) -> Tensor:
        fixed, moved = x[:, :3], x[:, 3:]
        scale, shift = self.net(fixed).chunk(2, 1)
        scale = torch.tanh(scale) * 1.5
        y = x.clone()
        y[:, 3:] = moved * torch.exp(scale) + shift
        log_p = -0.5 * (y.square() + 1.8378771)
        return log_p.sum(1) + scale.sum(1)


model = Coupling()
inputs = (torch.randn(4, 6),)
