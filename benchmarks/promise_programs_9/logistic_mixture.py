"""The discretised mixture of logistics of PixelCNN++, for one channel, and a sample from it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def log_prob_from_logits(x: Tensor) -> Tensor:
    m = x.max(dim=-1, keepdim=True)[0]
    return x - m - torch.log(torch.sum(torch.exp(x - m), dim=-1, keepdim=True))


class PixelHead(nn.Module):
    def __init__(self, channels: int = 4, mixtures: int = 3) -> None:
        super().__init__()
        self.k = mixtures
        self.conv_a = nn.Conv2d(channels, channels, 1)
        self.conv_b = nn.Conv2d(2 * channels, 2 * channels, 1)
        self.head = nn.Conv2d(channels, 3 * mixtures, 1)

    def concat_elu(self, x: Tensor) -> Tensor:
        return F.elu(torch.cat([x, -x], dim=1))

    def features(self, x: Tensor) -> Tensor:
        h = self.conv_a(x)
        h = self.conv_b(self.concat_elu(h))
        a, b = torch.chunk(h, 2, dim=1)
        return x + a * torch.sigmoid(b)

    def forward(self, x: Tensor, pixel: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        params = self.head(self.features(x)).permute(0, 2, 3, 1)
        logit, mean, log_scale = params.split(self.k, dim=-1)
        log_scale = torch.clamp(log_scale, min=-7.0)
        y = pixel.permute(0, 2, 3, 1).expand_as(mean)
        centred = y - mean
        inv_std = torch.exp(-log_scale)
        plus = inv_std * (centred + 1.0 / 255.0)
        cdf_plus = torch.sigmoid(plus)
        minus = inv_std * (centred - 1.0 / 255.0)
        cdf_minus = torch.sigmoid(minus)
        log_cdf_plus = plus - F.softplus(plus)
        log_one_minus = -F.softplus(minus)
        delta = cdf_plus - cdf_minus
        mid = inv_std * centred
        log_pdf_mid = mid - log_scale - 2.0 * F.softplus(mid)
        inner_cond = (delta > 1e-5).float()
        inner = inner_cond * torch.log(torch.clamp(delta, min=1e-12)) + (1.0 - inner_cond) * (
            log_pdf_mid - 4.848
        )
        cond = (y > 0.999).float()
        inner = cond * log_one_minus + (1.0 - cond) * inner
        cond = (y < -0.999).float()
        log_probs = cond * log_cdf_plus + (1.0 - cond) * inner
        log_probs = log_probs + log_prob_from_logits(logit)
        loss = -torch.logsumexp(log_probs, dim=-1).mean()
        gumbel = logit.detach() - torch.log(-torch.log(u))
        chosen = F.one_hot(gumbel.argmax(dim=-1), self.k).to(mean.dtype)
        sample = (mean * chosen).sum(-1) + torch.exp((log_scale * chosen).sum(-1)) * (
            torch.log(u[..., 0]) - torch.log(1.0 - u[..., 0])
        )
        return loss, sample.clamp_(-1.0, 1.0)


model = PixelHead()
inputs = (
    torch.randn(2, 4, 4, 4),
    torch.rand(2, 1, 4, 4) * 2 - 1,
    torch.rand(2, 4, 4, 3) * 0.9 + 0.05,
)
