"""One step of Adam on given state, in place as optimisers have it."""

import torch
from torch import Tensor


def model(p: Tensor, grad: Tensor, m: Tensor, v: Tensor) -> Tensor:
    grad = grad + 0.01 * p
    m.mul_(0.9).add_(grad, alpha=0.1)
    v.mul_(0.999).addcmul_(grad, grad, value=0.001)
    m_hat = m / 0.1
    denominator = (v / 0.001).sqrt().add_(1e-8)
    step = torch.addcdiv(torch.zeros_like(p), m_hat, denominator, value=-0.01)
    return p + step * 1.0


inputs = (torch.randn(5, 6), torch.randn(5, 6), torch.zeros(5, 6), torch.zeros(5, 6))
