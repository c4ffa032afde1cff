"""A liquid time-constant cell: a fused solver in a loop, sensory and neural synapses."""

import torch
from torch import Tensor, nn


class LTCCell(nn.Module):
    def __init__(self, inputs: int = 4, units: int = 5, unfolds: int = 3) -> None:
        super().__init__()
        self.unfolds = unfolds
        self.mu = nn.Parameter(torch.rand(units, units))
        self.sigma = nn.Parameter(torch.rand(units, units) * 5 + 3)
        self.w = nn.Parameter(torch.rand(units, units))
        self.erev = nn.Parameter(torch.sign(torch.randn(units, units)))
        self.sensory_mu = nn.Parameter(torch.rand(inputs, units))
        self.sensory_sigma = nn.Parameter(torch.rand(inputs, units) * 5 + 3)
        self.sensory_w = nn.Parameter(torch.rand(inputs, units))
        self.sensory_erev = nn.Parameter(torch.sign(torch.randn(inputs, units)))
        self.gleak = nn.Parameter(torch.rand(units))
        self.vleak = nn.Parameter(torch.randn(units))
        self.cm = nn.Parameter(torch.rand(units) + 0.5)

    def gate(self, v: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.sigmoid(sigma * (v.unsqueeze(-1) - mu))

    def forward(self, x: Tensor, v: Tensor, elapsed: float = 1.0) -> Tensor:
        sensory = self.sensory_w.abs() * self.gate(x, self.sensory_mu, self.sensory_sigma)
        sensory_num = torch.sum(sensory * self.sensory_erev, dim=1)
        sensory_den = torch.sum(sensory, dim=1)
        cm_t = nn.functional.softplus(self.cm) / (elapsed / self.unfolds)
        for _ in range(self.unfolds):
            act = self.w.abs() * self.gate(v, self.mu, self.sigma)
            num = torch.sum(act * self.erev, dim=1) + sensory_num
            den = torch.sum(act, dim=1) + sensory_den
            numerator = cm_t * v + self.gleak * self.vleak + num
            denominator = cm_t + self.gleak + den
            v = numerator / (denominator + 1e-8)
        return v.clamp_(-5.0, 5.0)


model = LTCCell()
inputs = (torch.randn(3, 4), torch.zeros(3, 5))
