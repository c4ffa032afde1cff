import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, s: Tensor, m: Tensor) -> Tensor:
        scores = s * 0.5
        raw = scores
        scores = scores.masked_fill_(m > 0, -1e4)
        p = torch.softmax(scores, -1)
        return p * raw.sigmoid()


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(8, 16), torch.randn(8, 16))
