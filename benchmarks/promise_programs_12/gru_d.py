"""GRU-D and a time-aware LSTM: missing values decay to the mean, states decay with the time unseen."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FilterLinear(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("filter", torch.eye(size))
        self.weight = nn.Parameter(torch.randn(size, size) * 0.3)
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.filter * self.weight, self.bias)


class GRUD(nn.Module):
    def __init__(self, size: int = 5, hidden: int = 6) -> None:
        super().__init__()
        self.hidden = hidden
        joined = 2 * size + hidden
        self.zl, self.rl, self.hl = (nn.Linear(joined, hidden) for _ in range(3))
        self.gamma_x = FilterLinear(size)
        self.gamma_h = nn.Linear(size, hidden)
        self.register_buffer("x_mean", torch.rand(size))

    def step(self, x: Tensor, x_last: Tensor, h: Tensor, mask: Tensor, delta: Tensor) -> Tensor:
        delta_x = torch.exp(-torch.max(torch.zeros_like(delta), self.gamma_x(delta)))
        delta_h = torch.exp(-F.relu(self.gamma_h(delta), inplace=True))
        x = mask * x + (1 - mask) * (delta_x * x_last + (1 - delta_x) * self.x_mean)
        h = delta_h * h
        combined = torch.cat((x, h, mask), 1)
        z = torch.sigmoid(self.zl(combined))
        r = torch.sigmoid(self.rl(combined))
        combined_r = torch.cat((x, r * h, mask), 1)
        h_tilde = torch.tanh(self.hl(combined_r))
        return (1 - z) * h + z * h_tilde

    def forward(self, x: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        mask = (~torch.isnan(x)).float()
        x = torch.nan_to_num(x)
        h = torch.zeros(x.size(0), self.hidden, device=x.device)
        last = torch.zeros_like(x[:, 0])
        delta = torch.zeros_like(last)
        states: list[Tensor] = []
        for t in range(x.size(1)):
            if t > 0:
                gap = (times[:, t] - times[:, t - 1]).unsqueeze(-1)
                delta = delta * (1.0 - mask[:, t - 1])
                delta += gap
            h = self.step(x[:, t], last, h, mask[:, t], delta)
            last = torch.where(mask[:, t] > 0, x[:, t], last)
            states.append(h)
        return torch.stack(states, dim=1), mask


class Forecast(nn.Module):
    def __init__(self, size: int = 5, hidden: int = 6) -> None:
        super().__init__()
        self.rnn = GRUD(size, hidden)
        self.head = nn.Linear(hidden, size)
        self.score = nn.Linear(hidden, 1)

    def forward(self, x: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        states, mask = self.rnn(x, times)
        guess = self.head(states[:, :-1])
        error = guess - torch.nan_to_num(x[:, 1:])
        error *= mask[:, 1:]
        loss = error.pow(2).sum() / mask[:, 1:].sum().clamp_(min=1.0)
        weights = self.score(states).squeeze(-1)
        weights = weights.masked_fill(mask.sum(-1) == 0, float("-inf"))
        context = (weights.softmax(-1).unsqueeze(-1) * states).sum(1)
        return context, loss


model = Forecast()
x = torch.randn(3, 4, 5)
x[torch.rand(3, 4, 5) < 0.3] = float("nan")
x[:, :, 0] = 1.0
inputs = (x, torch.cumsum(torch.rand(3, 4), 1))
