"""The negative log-likelihood of a mixture of Gaussians, with clamped scales."""

import math

import torch
from torch import Tensor, nn


class Mixture(nn.Module):
    def __init__(self, dim: int = 6, parts: int = 3) -> None:
        super().__init__()
        self.head = nn.Linear(dim, 3 * parts)
        self.parts = parts

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        out = self.head(x).view(-1, 3, self.parts)
        logit, mean, raw = out.unbind(1)
        scale = torch.clamp(raw, -4.0, 4.0).exp_() + 1e-3
        z = (y.unsqueeze(-1) - mean) / scale
        logp = -0.5 * z.square() - scale.log() - 0.5 * math.log(2 * math.pi)
        logw = torch.log_softmax(logit, -1)
        joint = logw + logp
        top = joint.amax(-1, keepdim=True)
        nll = -(top.squeeze(-1) + (joint - top).exp_().sum(-1).log())
        return nll.mean(), (logw.exp() * mean).sum(-1)


model = Mixture()
inputs = (torch.randn(8, 6), torch.randn(8))
