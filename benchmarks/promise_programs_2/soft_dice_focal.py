"""Soft dice of several classes by one hot targets, plus a Tversky term."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DiceLoss(nn.Module):
    def __init__(self, smooth: float = 1.0, alpha: float = 0.7) -> None:
        super().__init__()
        self.smooth = smooth
        self.alpha = alpha

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        probs = F.softmax(logits, dim=1)
        one_hot = F.one_hot(target, 3).permute(0, 3, 1, 2).float()
        dims = (0, 2, 3)
        tp = (probs * one_hot).sum(dims)
        fp = (probs * (1 - one_hot)).sum(dims)
        fn = ((1 - probs) * one_hot).sum(dims)
        dice = (2 * tp + self.smooth) / (2 * tp + fp + fn + self.smooth)
        tversky = (tp + self.smooth) / (tp + self.alpha * fn + (1 - self.alpha) * fp + self.smooth)
        return (1 - dice).mean() + torch.pow(1 - tversky, 0.75).mean()


model = DiceLoss()
inputs = (torch.randn(2, 3, 4, 4, requires_grad=True), torch.randint(0, 3, (2, 4, 4)))
