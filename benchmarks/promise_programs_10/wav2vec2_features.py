"""Wav2Vec2's feature extractor, feature projection and positional convolution."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GroupNormConvLayer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, dim, 4, stride=2, bias=False)
        self.layer_norm = nn.GroupNorm(dim, dim, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = self.layer_norm(x)
        return F.gelu(x)


class LayerNormConvLayer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, stride=2)
        self.layer_norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = x.transpose(-2, -1)
        x = self.layer_norm(x)
        x = x.transpose(-2, -1)
        return F.gelu(x)


class PositionalConv(nn.Module):
    def __init__(self, dim: int, kernel: int = 4) -> None:
        super().__init__()
        self.weight_v = nn.Parameter(torch.randn(dim, dim // 2, kernel) * 0.2)
        self.weight_g = nn.Parameter(torch.ones(1, 1, kernel))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.remove = 1 if kernel % 2 == 0 else 0
        self.padding = kernel // 2

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        norm = torch.norm(self.weight_v, 2, [0, 1], True)
        weight = self.weight_v * (self.weight_g / norm)
        x = F.conv1d(x, weight, self.bias, 1, self.padding, 1, 2)
        if self.remove > 0:
            x = x[:, :, : -self.remove]
        x = F.gelu(x)
        return x.transpose(1, 2)


class Wav2Vec2(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.conv0 = GroupNormConvLayer(dim)
        self.conv1 = LayerNormConvLayer(dim)
        self.layer_norm = nn.LayerNorm(dim)
        self.projection = nn.Linear(dim, dim)
        self.masked_spec_embed = nn.Parameter(torch.rand(dim))
        self.pos_conv_embed = PositionalConv(dim)
        self.final_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(0.0)

    def output_lengths(self, lengths: Tensor) -> Tensor:
        lengths = torch.div(lengths - 4, 2, rounding_mode="floor") + 1
        return torch.div(lengths - 3, 2, rounding_mode="floor") + 1

    def forward(
        self, values: Tensor, mask_time: Optional[Tensor] = None, lengths: Optional[Tensor] = None
    ) -> tuple[Tensor, Tensor]:
        values = (values - values.mean(dim=-1, keepdim=True)) / torch.sqrt(
            values.var(dim=-1, keepdim=True) + 1e-7
        )
        hidden = self.conv1(self.conv0(values[:, None]))
        features = hidden.transpose(1, 2)
        norm_features = self.layer_norm(features)
        hidden = self.dropout(self.projection(norm_features))
        if mask_time is not None:
            hidden[mask_time] = self.masked_spec_embed.to(hidden.dtype)
        if lengths is not None:
            last = self.output_lengths(lengths)
            attention_mask = torch.arange(hidden.size(1), device=hidden.device)[None, :] < last[:, None]
            expand = attention_mask.unsqueeze(-1).repeat(1, 1, hidden.size(2))
            hidden[~expand] = 0.0
        hidden = hidden + self.pos_conv_embed(hidden)
        hidden = self.dropout(self.final_norm(hidden))
        penalty = features.float().pow(2).mean()
        return hidden, penalty


model = Wav2Vec2()
inputs = (
    torch.randn(2, 30),
    torch.tensor([[False, True, True, False, False, False], [False, False, False, True, False, False]]),
    torch.tensor([30, 22]),
)
