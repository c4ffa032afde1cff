"""Logits of ArcFace: an angular margin on the class of each row."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ArcMargin(nn.Module):
    def __init__(self, dim: int = 8, classes: int = 6, s: float = 30.0, m: float = 0.5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim))
        self.s = s
        self.cos_m = math.cos(m)
        self.sin_m = math.sin(m)
        self.th = math.cos(math.pi - m)
        self.mm = math.sin(math.pi - m) * m

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        cosine = F.linear(F.normalize(x), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(1e-9, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros_like(cosine)
        one_hot.scatter_(1, label.view(-1, 1), 1.0)
        output = (one_hot * phi) + ((1.0 - one_hot) * cosine)
        output *= self.s
        return output


model = ArcMargin()
inputs = (torch.randn(4, 8), torch.tensor([0, 5, 2, 2]))
