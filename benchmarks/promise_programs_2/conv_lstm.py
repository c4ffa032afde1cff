"""A cell of a convolutional LSTM with peepholes."""

import torch
from torch import Tensor, nn


class ConvLSTMCell(nn.Module):
    def __init__(self, cin: int = 2, hidden: int = 3) -> None:
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(cin + hidden, 4 * hidden, 3, padding=1)
        self.w_ci = nn.Parameter(torch.randn(1, hidden, 4, 4) * 0.1)
        self.w_cf = nn.Parameter(torch.randn(1, hidden, 4, 4) * 0.1)
        self.w_co = nn.Parameter(torch.randn(1, hidden, 4, 4) * 0.1)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        combined = torch.cat([x, h], dim=1)
        gates = self.conv(combined)
        cc_i, cc_f, cc_o, cc_g = torch.split(gates, self.hidden, dim=1)
        i = torch.sigmoid(cc_i + self.w_ci * c)
        f = torch.sigmoid(cc_f + self.w_cf * c)
        g = torch.tanh(cc_g)
        c_next = f * c + i * g
        o = torch.sigmoid(cc_o + self.w_co * c_next)
        h_next = o * torch.tanh(c_next)
        return h_next, c_next


model = ConvLSTMCell()
inputs = (torch.randn(2, 2, 4, 4), torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 4))
