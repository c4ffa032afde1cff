"""A symmetric contrastive loss of two encoders with a learnt temperature."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(image: Tensor, text: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    image = image / image.norm(2, dim=-1, keepdim=True).clamp_min(1e-6)
    text = F.normalize(text, dim=-1)
    logits = image @ text.t()
    logits *= scale.exp().clamp(max=100.0)
    target = torch.arange(logits.shape[0], device=logits.device)
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
    margin = logits - logits.diagonal().unsqueeze(1) + 0.2
    margin.fill_diagonal_(0.0)
    return loss, torch.relu(margin).sum(1)


inputs = (
    torch.randn(6, 8, requires_grad=True),
    torch.randn(6, 8, requires_grad=True),
    torch.tensor(1.0, requires_grad=True),
)
