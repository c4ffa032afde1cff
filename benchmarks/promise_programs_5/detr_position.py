"""The sine position embedding of DETR from a padding mask."""

import math

import torch
from torch import Tensor, nn


class PositionEmbeddingSine(nn.Module):
    def __init__(self, feats: int = 4, temperature: int = 10000) -> None:
        super().__init__()
        self.feats = feats
        self.temperature = temperature
        self.scale = 2 * math.pi

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        not_mask = ~mask
        y_embed = not_mask.cumsum(1, dtype=torch.float32)
        x_embed = not_mask.cumsum(2, dtype=torch.float32)
        eps = 1e-6
        y_embed = y_embed / (y_embed[:, -1:, :] + eps) * self.scale
        x_embed = x_embed / (x_embed[:, :, -1:] + eps) * self.scale
        dim_t = torch.arange(self.feats, dtype=torch.float32, device=x.device)
        dim_t = self.temperature ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / self.feats)
        pos_x = x_embed[:, :, :, None] / dim_t
        pos_y = y_embed[:, :, :, None] / dim_t
        pos_x = torch.stack((pos_x[..., 0::2].sin(), pos_x[..., 1::2].cos()), dim=4).flatten(3)
        pos_y = torch.stack((pos_y[..., 0::2].sin(), pos_y[..., 1::2].cos()), dim=4).flatten(3)
        pos = torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)
        return x + pos


model = PositionEmbeddingSine()
inputs = (torch.randn(2, 8, 6, 6), torch.zeros(2, 6, 6, dtype=torch.bool))
