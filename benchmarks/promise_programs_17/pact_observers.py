"""Quantisation-aware training: PACT activations, DoReFa weights, observers that move their ranges, learnt scales."""

from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class MovingAverageObserver(nn.Module):
    def __init__(self, averaging_constant=0.1, quant_min=-128, quant_max=127, symmetric=False):
        super().__init__()
        self.averaging_constant = averaging_constant
        self.quant_min, self.quant_max, self.symmetric = quant_min, quant_max, symmetric
        self.eps = 1.1920929e-07
        self.register_buffer("min_val", torch.tensor(-1.0))
        self.register_buffer("max_val", torch.tensor(1.0))
        self.observer_enabled = True

    def observe(self, x: torch.Tensor) -> None:
        x = x.detach().to(self.min_val.dtype)
        min_cur, max_cur = torch.aminmax(x)
        min_val = self.min_val + self.averaging_constant * (min_cur - self.min_val)
        max_val = self.max_val + self.averaging_constant * (max_cur - self.max_val)
        self.min_val.copy_(min_val)
        self.max_val.copy_(max_val)

    def qparams(self) -> Tuple[torch.Tensor, torch.Tensor]:
        min_neg = torch.min(self.min_val, torch.zeros_like(self.min_val))
        max_pos = torch.max(self.max_val, torch.zeros_like(self.max_val))
        steps = float(self.quant_max - self.quant_min)
        if self.symmetric:
            max_pos = torch.max(-min_neg, max_pos)
            scale = max_pos / (steps / 2)
            scale = torch.clamp(scale, min=self.eps)
            zero_point = torch.zeros_like(scale)
        else:
            scale = (max_pos - min_neg) / steps
            scale = scale.clamp(min=self.eps)
            zero_point = self.quant_min - torch.round(min_neg / scale)
            zero_point = torch.clamp(zero_point, self.quant_min, self.quant_max)
        return scale, zero_point

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.observer_enabled:
            self.observe(x)
        scale, zero_point = self.qparams()
        q = x / scale + zero_point
        q = torch.clamp(q, self.quant_min, self.quant_max)
        q = (torch.round(q) - q).detach() + q
        return (q - zero_point) * scale


class PACT(nn.Module):
    def __init__(self, bits: int = 4, alpha: float = 3.0):
        super().__init__()
        self.bits = bits
        self.alpha = nn.Parameter(torch.tensor(alpha))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = 0.5 * (torch.abs(x) - torch.abs(x - self.alpha) + self.alpha)
        n = float(2**self.bits - 1)
        scale = n / self.alpha
        y_q = torch.round(y * scale) / scale
        return y + (y_q - y).detach()


def dorefa_weight(w: torch.Tensor, bits: int) -> torch.Tensor:
    if bits == 32:
        return w
    if bits == 1:
        e = torch.mean(torch.abs(w)).detach()
        return w + (torch.sign(w) * e - w).detach()
    t = torch.tanh(w)
    t = t / 2 / torch.max(torch.abs(t)).detach() + 0.5
    n = float(2**bits - 1)
    q = torch.round(t * n) / n
    q = t + (q - t).detach()
    return 2 * q - 1


class QConv2d(nn.Conv2d):
    def __init__(self, cin: int, cout: int, kernel: int, bits: int = 4, padding: int = 0):
        super().__init__(cin, cout, kernel, padding=padding, bias=False)
        self.bits = bits
        self.act_quant = PACT(bits)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act_quant(x)
        w = dorefa_weight(self.weight, self.bits)
        return self.bn(F.conv2d(x, w, None, self.stride, self.padding))


class QLinear(nn.Linear):
    def __init__(self, cin: int, cout: int):
        super().__init__(cin, cout)
        self.log_t = nn.Parameter(torch.zeros(cout, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = torch.exp2(torch.ceil(self.log_t.detach())) / 8.0
        s = s + (torch.exp2(self.log_t) / 8.0 - torch.exp2(self.log_t).detach() / 8.0)
        w = self.weight / s
        w = w + (w.round() - w).detach()
        w = w.clamp(-8, 7) * s
        return F.linear(x, w, self.bias)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.observer = MovingAverageObserver()
        self.conv1, self.conv2 = QConv2d(2, 4, 3, padding=1), QConv2d(4, 4, 3, bits=2, padding=1)
        self.add_observer = MovingAverageObserver(symmetric=True)
        self.fc = QLinear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        x = self.observer(x)
        x = self.conv1(x)
        identity = x
        x = self.conv2(x)
        x += identity
        x = F.relu(self.add_observer(x), inplace=True)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        logits = self.fc(x)
        reg = self.conv1.act_quant.alpha ** 2 + self.conv2.act_quant.alpha ** 2
        kurtosis = ((self.fc.weight - self.fc.weight.mean()) / self.fc.weight.std()).pow(4).mean()
        loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        return loss + 1e-3 * reg + 1e-2 * (kurtosis - 1.8) ** 2, logits


model = QNet()
inputs = (torch.randn(4, 2, 8, 8), torch.tensor([0, 2, 1, 1]))
