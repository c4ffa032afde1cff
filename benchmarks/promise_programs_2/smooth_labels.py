"""Cross entropy with smoothed labels and a z loss, by hand."""

import torch
from torch import Tensor, nn


class LabelSmoothing(nn.Module):
    def __init__(self, size: int = 6, padding_idx: int = 0, smoothing: float = 0.1) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        self.confidence = 1.0 - smoothing
        self.smoothing = smoothing
        self.size = size

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        log_z = torch.logsumexp(x, dim=-1, keepdim=True)
        x = x - log_z
        true_dist = torch.zeros_like(x)
        true_dist.fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.unsqueeze(1), self.confidence)
        true_dist[:, self.padding_idx] = 0
        ignore = target == self.padding_idx
        kl = true_dist * (torch.log(true_dist.clamp(min=1e-12)) - x)
        kl = kl.masked_fill(ignore.unsqueeze(1), 0.0)
        return kl.sum() + 1e-4 * (log_z**2).sum()


model = LabelSmoothing()
inputs = (torch.randn(7, 6, requires_grad=True), torch.tensor([1, 2, 0, 5, 3, 4, 1]))
