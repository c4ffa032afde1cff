"""A PatchGAN discriminator and its hinge loss."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Discriminator(nn.Module):
    def __init__(self, ndf: int = 4) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, ndf, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf, 4, 2, 1, bias=False),
            nn.InstanceNorm2d(ndf),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, 1, 2),
        )

    def forward(self, real: Tensor, fake: Tensor) -> Tensor:
        real_logits = self.main(real)
        fake_logits = self.main(fake.detach())
        loss_real = F.relu(1.0 - real_logits).mean()
        loss_fake = F.relu(1.0 + fake_logits).mean()
        return (loss_real + loss_fake) * 0.5


model = Discriminator()
inputs = (torch.randn(2, 3, 16, 16), torch.randn(2, 3, 16, 16))
