"""Hinge losses of a generator and a discriminator with feature matching and a logit penalty."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class HingeGan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Conv1d(1, 4, 5, stride=2, padding=2), nn.Conv1d(4, 4, 5, stride=2, padding=2)]
        )
        self.head = nn.Conv1d(4, 1, 3, padding=1)

    def features(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        found: list[Tensor] = []
        for block in self.blocks:
            x = F.leaky_relu(block(x), 0.1)
            found.append(x)
        return found, self.head(x).flatten(1)

    def forward(self, real: Tensor, fake: Tensor) -> Tensor:
        real_features, real_logits = self.features(real)
        fake_features, fake_logits = self.features(fake)
        d_loss = F.relu(1.0 - real_logits).mean() + F.relu(1.0 + fake_logits).mean()
        g_loss = -fake_logits.mean()
        matching = torch.zeros(1)
        for a, b in zip(real_features, fake_features):
            matching += (a.detach() - b).abs().mean()
        penalty = 0.01 * (real_logits.square().mean() + fake_logits.square().mean())
        return d_loss + g_loss + 2.0 * matching + penalty


model = HingeGan()
inputs = (torch.randn(2, 1, 32), torch.randn(2, 1, 32))
