"""The time mixing of RWKV: token shift, receptance, and the stable weighted sum by a loop."""

import torch
from torch import Tensor, nn


class TimeMix(nn.Module):
    def __init__(self, d: int = 8) -> None:
        super().__init__()
        self.time_decay = nn.Parameter(torch.linspace(-5.0, -1.0, d))
        self.time_first = nn.Parameter(torch.full((d,), 0.3))
        self.time_mix_k = nn.Parameter(torch.full((1, 1, d), 0.4))
        self.time_mix_v = nn.Parameter(torch.full((1, 1, d), 0.6))
        self.time_mix_r = nn.Parameter(torch.full((1, 1, d), 0.2))
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.key = nn.Linear(d, d, bias=False)
        self.value = nn.Linear(d, d, bias=False)
        self.receptance = nn.Linear(d, d, bias=False)
        self.output = nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        xx = self.time_shift(x)
        xk = x * self.time_mix_k + xx * (1 - self.time_mix_k)
        xv = x * self.time_mix_v + xx * (1 - self.time_mix_v)
        xr = x * self.time_mix_r + xx * (1 - self.time_mix_r)
        k = self.key(xk)
        v = self.value(xv)
        r = torch.sigmoid(self.receptance(xr))
        w = -torch.exp(self.time_decay)
        num = torch.zeros_like(x[:, 0])
        den = torch.zeros_like(x[:, 0])
        largest = torch.full_like(x[:, 0], -1e38)
        out = torch.zeros_like(v)
        for t in range(x.size(1)):
            kt, vt = k[:, t], v[:, t]
            best = torch.maximum(largest, kt + self.time_first)
            e1 = torch.exp(largest - best)
            e2 = torch.exp(kt + self.time_first - best)
            out[:, t] = (e1 * num + e2 * vt) / (e1 * den + e2)
            best = torch.maximum(largest + w, kt)
            e1 = torch.exp(largest + w - best)
            e2 = torch.exp(kt - best)
            num = e1 * num + e2 * vt
            den = e1 * den + e2
            largest = best
        return self.output(r * out)


model = TimeMix()
inputs = (torch.randn(2, 3, 8),)
