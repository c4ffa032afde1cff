import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = x.type_as(y)
        z.sub_(y)
        w = torch.broadcast_tensors(x, y)[0]
        w.mul_(2.0)
        e = y.expand_as(x)
        e += 1.0
        return torch.tanh(z) + x + y


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
