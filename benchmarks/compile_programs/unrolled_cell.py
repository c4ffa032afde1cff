"""A recurrent cell with layer norm, unrolled over six steps of a sequence, with a readout of the last."""

import torch
from torch import Tensor, nn


class Unrolled(nn.Module):
    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(features, 3 * width)
        self.hidden = nn.Linear(width, 3 * width, bias=False)
        self.norm = nn.LayerNorm(3 * width)
        self.readout = nn.Linear(width, 4)

    def forward(self, sequence: Tensor) -> tuple[Tensor, Tensor]:
        state = sequence.new_zeros(sequence.shape[1], self.hidden.in_features)
        kept = []
        for each in sequence.unbind(0):
            left = self.inputs(each).chunk(3, -1)
            right = self.norm(self.hidden(state)).chunk(3, -1)
            reset, update = torch.sigmoid(left[0] + right[0]), torch.sigmoid(left[1] + right[1])
            proposed = torch.tanh(left[2] + reset * right[2])
            state = torch.lerp(proposed, state, update)
            kept.append(state)
        return self.readout(state), torch.stack(kept)


torch.manual_seed(0)
model = Unrolled(10, 16)
inputs = (torch.randn(6, 5, 10),)
