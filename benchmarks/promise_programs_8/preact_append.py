import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8)) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        h = x.cumsum(0)
        outs: list[Tensor] = []
        for layer in self.layers:
            outs.append(h)
            h = layer(h)
        outs.append(h)
        return torch.tanh(outs[0]) * 2.0 + outs[1] + outs[2]


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(4, 8),)
