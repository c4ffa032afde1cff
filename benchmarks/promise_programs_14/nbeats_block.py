"""N-BEATS with trend, seasonality and pooled blocks; SMAPE, MASE and a masked quantile loss."""

import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, backcast: int, forecast: int, kind: str, theta: int = 4, hidden: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(backcast, hidden), nn.Linear(hidden, hidden)])
        size = theta if kind != "identity" else backcast + forecast
        self.theta = nn.Linear(hidden, size * (2 if kind != "identity" else 1), bias=False)
        back, fore = torch.arange(backcast) / backcast, torch.arange(forecast) / forecast
        if kind == "trend":
            grids = [torch.stack([t**i for i in range(theta)]) for t in (back, fore)]
        else:
            grids = [
                torch.cat(
                    [
                        torch.stack([f(2 * math.pi * k * t) for k in range(theta // 2)])
                        for f in (torch.cos, torch.sin)
                    ]
                )
                for t in (back, fore)
            ]
        self.register_buffer("back_basis", grids[0])
        self.register_buffer("fore_basis", grids[1])
        self.kind, self.backcast = kind, backcast

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = x
        for layer in self.layers:
            h = layer(h)
            h = F.relu(h, inplace=True)
        theta = self.theta(h)
        if self.kind == "identity":
            return theta[:, : self.backcast], theta[:, self.backcast :]
        half = theta.shape[1] // 2
        return theta[:, :half] @ self.back_basis, theta[:, half:] @ self.fore_basis


class NBeats(nn.Module):
    def __init__(self, backcast: int = 10, forecast: int = 5) -> None:
        super().__init__()
        kinds = ("trend", "seasonal", "identity")
        self.blocks = nn.ModuleList([Block(backcast, forecast, kind) for kind in kinds])
        self.forecast = forecast
        self.spread = nn.Linear(forecast, 3 * forecast)
        self.register_buffer("quantiles", torch.tensor([0.1, 0.5, 0.9]))

    def scale(self, x: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
        count = mask.sum(1, keepdim=True).clamp(min=1.0)
        level = (x.abs() * mask).sum(1, keepdim=True) / count
        level[level < 1e-3] = 1.0
        return x / level, level

    def forward(
        self, x: Tensor, mask: Tensor, y: Optional[Tensor], y_mask: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        mask = mask.to(x.dtype)
        scaled, level = self.scale(x, mask)
        residual = scaled.flip(1)
        padded = mask.flip(1)
        forecast = scaled[:, -1:].repeat(1, self.forecast)
        for block in self.blocks:
            back, fore = block(residual)
            residual = (residual - back) * padded
            forecast += fore
        spread = self.spread(forecast).view(x.size(0), self.forecast, 3)
        levels = forecast.unsqueeze(-1) + torch.cumsum(F.softplus(spread), dim=-1)
        levels *= level.unsqueeze(-1)
        forecast = forecast * level
        loss = torch.zeros((), device=x.device)
        if y is not None:
            error = y.unsqueeze(-1) - levels
            pinball = torch.max(self.quantiles * error, (self.quantiles - 1) * error)
            pinball[~y_mask] = 0.0
            loss = pinball.sum() / y_mask.sum().clamp(min=1)
            smape = 2 * (y - forecast).abs() / (y.abs() + forecast.abs().detach())
            smape = torch.where(torch.isnan(smape), torch.zeros_like(smape), smape)
            smape *= y_mask.float()
            seasonal = (x[:, 2:] - x[:, :-2]).abs().mean(1, keepdim=True)
            mase = ((y - forecast).abs() / seasonal.clamp_(min=1e-3)) * y_mask
            loss += smape.mean() + mase.mean()
        return forecast, levels, loss


model = NBeats()
inputs = (torch.randn(4, 10).cumsum(1), torch.rand(4, 10) > 0.2, torch.randn(4, 5), torch.rand(4, 5) > 0.2)
