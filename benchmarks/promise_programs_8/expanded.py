import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        u = y.unsqueeze(0)
        u.add_(1.0)
        s = u.squeeze(0)
        s.mul_(2.0)
        t = x.transpose(0, 1)
        t += 0.25
        return torch.tanh(x) * y


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
