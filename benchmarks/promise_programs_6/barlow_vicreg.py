"""The losses of Barlow Twins and VICReg on the embeddings of two views."""

import torch
import torch.nn.functional as F
from torch import Tensor


def off_diagonal(x: Tensor) -> Tensor:
    n = x.size(0)
    return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


def model(za: Tensor, zb: Tensor) -> Tensor:
    n = za.size(0)
    d = za.size(1)
    za_norm = (za - za.mean(0)) / (za.std(0) + 1e-5)
    zb_norm = (zb - zb.mean(0)) / (zb.std(0) + 1e-5)
    c = (za_norm.t() @ zb_norm) / n
    on_diag = torch.diagonal(c).add_(-1).pow_(2).sum()
    off_diag = off_diagonal(c).pow_(2).sum()
    barlow = on_diag + 0.005 * off_diag
    sim = F.mse_loss(za, zb)
    std_a = torch.sqrt(za.var(dim=0) + 1e-4)
    std_b = torch.sqrt(zb.var(dim=0) + 1e-4)
    std = torch.mean(F.relu(1 - std_a)) / 2 + torch.mean(F.relu(1 - std_b)) / 2
    xa = za - za.mean(dim=0)
    cov = (xa.t() @ xa) / (n - 1)
    covariance = off_diagonal(cov).pow(2).sum().div(d)
    return barlow + 25.0 * sim + 25.0 * std + covariance


inputs = (torch.randn(8, 6, requires_grad=True), torch.randn(8, 6, requires_grad=True))
