import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = x.to(torch.float32)
        z += y
        w = y.float()
        w.mul_(z)
        return torch.tanh(z) + x * w + y


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
