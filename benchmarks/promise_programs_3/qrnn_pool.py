"""A quasi-recurrent layer with fo-pooling and zoneout by a convolution."""

import torch
from torch import Tensor, nn


class QRNN(nn.Module):
    def __init__(self, d: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv1d(d, 3 * d, 2)

    def forward(self, x: Tensor) -> Tensor:
        padded = nn.functional.pad(x.transpose(1, 2), [1, 0])
        z, f, o = self.conv(padded).transpose(1, 2).chunk(3, -1)
        z = z.tanh()
        f = f.sigmoid()
        o = o.sigmoid()
        c = torch.zeros_like(z[:, 0])
        hidden: list[Tensor] = []
        for t in range(x.size(1)):
            c = f[:, t].mul(c).add_((1 - f[:, t]) * z[:, t])
            hidden.append(o[:, t] * c)
        return torch.stack(hidden, 1)


model = QRNN()
inputs = (torch.randn(3, 5, 6),)
