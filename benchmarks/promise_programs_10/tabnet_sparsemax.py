"""TabNet: sparsemax by sorting, attentive steps with a prior, gated blocks scaled by sqrt(0.5)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sparsemax(x: Tensor, dim: int = -1) -> Tensor:
    max_val, _ = torch.max(x, dim=dim, keepdim=True)
    x = x - max_val
    rho = torch.arange(1, x.size(dim) + 1, device=x.device, dtype=x.dtype)
    srt, _ = torch.sort(x, descending=True, dim=dim)
    cumsum = srt.cumsum(dim) - 1
    support = rho * srt > cumsum
    support_size = support.sum(dim=dim).unsqueeze(dim)
    tau = cumsum.gather(dim, support_size - 1)
    tau /= support_size.to(x.dtype)
    return torch.clamp(x - tau, min=0)


class GLULayer(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, 2 * outputs, bias=False)
        self.bn = nn.BatchNorm1d(2 * outputs, momentum=0.02)
        self.out = outputs

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.fc(x))
        return torch.mul(x[:, : self.out], torch.sigmoid(x[:, self.out :]))


class FeatTransformer(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = GLULayer(inputs, outputs)
        self.layers = nn.ModuleList([GLULayer(outputs, outputs) for _ in range(2)])
        self.scale: float = math.sqrt(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = torch.add(x, layer(x))
            x = x * self.scale
        return x


class TabNet(nn.Module):
    def __init__(self, features: int = 6, n_d: int = 4, n_a: int = 4, gamma: float = 1.3) -> None:
        super().__init__()
        self.initial_bn = nn.BatchNorm1d(features, momentum=0.01)
        self.initial_splitter = FeatTransformer(features, n_d + n_a)
        self.feat_transformers = nn.ModuleList([FeatTransformer(features, n_d + n_a) for _ in range(2)])
        self.att_fc = nn.ModuleList([nn.Linear(n_a, features, bias=False) for _ in range(2)])
        self.att_bn = nn.ModuleList([nn.BatchNorm1d(features) for _ in range(2)])
        self.final = nn.Linear(n_d, 3, bias=False)
        self.n_d, self.gamma, self.epsilon = n_d, gamma, 1e-15

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nan = torch.isnan(x)
        x = x.clone()
        x[nan] = 0.0
        x = self.initial_bn(x)
        prior = torch.ones_like(x)
        m_loss = torch.zeros([], device=x.device)
        explain = torch.zeros_like(x)
        att = self.initial_splitter(x)[:, self.n_d :]
        total = torch.zeros(x.size(0), self.n_d, device=x.device)
        for transformer, fc, bn in zip(self.feat_transformers, self.att_fc, self.att_bn):
            M = sparsemax(bn(fc(att)) * prior)
            m_loss += torch.mean(torch.sum(torch.mul(M, torch.log(M + self.epsilon)), dim=1))
            prior = torch.mul(self.gamma - M, prior)
            out = transformer(torch.mul(M, x))
            d = F.relu(out[:, : self.n_d], inplace=True)
            total += d
            step_importance = torch.sum(d, dim=1)
            explain += M * step_importance.unsqueeze(dim=1)
            att = out[:, self.n_d :]
        m_loss /= 2
        logits = self.final(total)
        loss = F.cross_entropy(logits, target, label_smoothing=0.1) - 1e-3 * m_loss
        return logits, loss, explain


model = TabNet()
values = torch.randn(5, 6)
values[0, 1] = float("nan")
inputs = (values, torch.tensor([0, 2, 1, 1, 0]))
