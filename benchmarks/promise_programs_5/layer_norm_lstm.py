"""An LSTM with layer norms on its gates and its cell, as speech models have it."""

import torch
from torch import Tensor, nn


class LayerNormLSTMCell(nn.Module):
    def __init__(self, dim: int = 6, hidden: int = 6) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden, dim))
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden, hidden))
        self.layernorm_i = nn.LayerNorm(4 * hidden)
        self.layernorm_h = nn.LayerNorm(4 * hidden)
        self.layernorm_c = nn.LayerNorm(hidden)

    def forward(self, xs: Tensor, hx: Tensor, cx: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outs = []
        for x in xs.unbind(0):
            igates = self.layernorm_i(torch.mm(x, self.weight_ih.t()))
            hgates = self.layernorm_h(torch.mm(hx, self.weight_hh.t()))
            gates = igates + hgates
            ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
            ingate = torch.sigmoid(ingate)
            forgetgate = torch.sigmoid(forgetgate + 1.0)
            cellgate = torch.tanh(cellgate)
            outgate = torch.sigmoid(outgate)
            cx = self.layernorm_c((forgetgate * cx) + (ingate * cellgate))
            hx = outgate * torch.tanh(cx)
            outs.append(hx)
        return torch.stack(outs), hx, cx


model = LayerNormLSTMCell()
inputs = (torch.randn(3, 4, 6), torch.zeros(4, 6), torch.zeros(4, 6))
