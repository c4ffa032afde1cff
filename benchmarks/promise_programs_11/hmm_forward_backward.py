"""Hidden Markov models and soft-DTW: recursions in log space over slices, posteriors."""

import torch
from torch import Tensor


def forward_backward(log_init: Tensor, log_trans: Tensor, log_emit: Tensor) -> tuple[Tensor, Tensor]:
    steps = log_emit.size(0)
    alpha = torch.zeros_like(log_emit)
    alpha[0] = log_init + log_emit[0]
    for t in range(1, steps):
        alpha[t] = torch.logsumexp(alpha[t - 1].unsqueeze(1) + log_trans, 0) + log_emit[t]
    beta = torch.zeros_like(log_emit)
    for t in range(steps - 2, -1, -1):
        beta[t] = torch.logsumexp(log_trans + log_emit[t + 1].unsqueeze(0) + beta[t + 1].unsqueeze(0), 1)
    gamma = alpha + beta
    gamma -= torch.logsumexp(gamma, 1, keepdim=True)
    return gamma.exp_(), torch.logsumexp(alpha[-1], 0)


def soft_min(a: Tensor, b: Tensor, c: Tensor, gamma: float) -> Tensor:
    a, b, c = -a / gamma, -b / gamma, -c / gamma
    top = torch.max(torch.max(a, b), c)
    total = torch.exp(a - top)
    total += torch.exp(b - top)
    total += torch.exp(c - top)
    return -gamma * (torch.log(total) + top)


def soft_dtw(x: Tensor, y: Tensor, gamma: float) -> Tensor:
    cost = (x.unsqueeze(1) - y.unsqueeze(0)).pow_(2).sum(-1)
    n, m = cost.shape
    big = torch.full([m + 1], 1e8, device=x.device)
    row = big.clone()
    row[0] = 0.0
    for i in range(n):
        new = big.clone()
        for j in range(m):
            new[j + 1] = cost[i, j] + soft_min(row[j + 1], new[j], row[j], gamma)
        row = new
    return row[-1]


def model(logits: Tensor, trans: Tensor, init: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    log_emit = torch.log_softmax(logits, -1)
    log_trans = torch.log_softmax(trans, -1)
    log_init = torch.log_softmax(init, -1)
    gamma, evidence = forward_backward(log_init, log_trans, log_emit)
    entropy = -(gamma * gamma.clamp(min=1e-8).log_()).sum(1)
    distance = soft_dtw(x, y, 0.5)
    distance /= float(x.size(0))
    return gamma, evidence - 0.1 * entropy.mean(), distance


inputs = (torch.randn(5, 3), torch.randn(3, 3), torch.randn(3), torch.randn(3, 2), torch.randn(4, 2))
