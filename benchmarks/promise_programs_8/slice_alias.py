import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, d: Tensor) -> Tensor:
        b = x * 2.0
        v = b
        b[..., :4] += d[..., :4]
        b[..., 4:] *= 0.5
        return torch.tanh(b) + v.sigmoid()


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(8, 16), torch.randn(8, 16))
