"""Key points from heat maps: the maximum, a quarter offset by the sign of differences, back to the image."""

import torch
from torch import Tensor


def get_max_preds(heatmaps: Tensor) -> tuple[Tensor, Tensor]:
    n, j, _, w = heatmaps.shape
    flat = heatmaps.reshape(n, j, -1)
    maxvals, idx = flat.max(dim=2, keepdim=True)
    preds = idx.repeat(1, 1, 2).float()
    preds[:, :, 0] = preds[:, :, 0] % w
    preds[:, :, 1] = torch.floor(preds[:, :, 1] / w)
    mask = (maxvals > 0.0).repeat(1, 1, 2).float()
    preds *= mask
    return preds, maxvals


def model(heatmaps: Tensor, center: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    n, j, h, w = heatmaps.shape
    preds, maxvals = get_max_preds(heatmaps)
    px = preds[..., 0].long().clamp(1, w - 2)
    py = preds[..., 1].long().clamp(1, h - 2)
    flat = heatmaps.reshape(n, j, -1)
    dx = flat.gather(2, (py * w + px + 1).unsqueeze(-1)) - flat.gather(2, (py * w + px - 1).unsqueeze(-1))
    dy = flat.gather(2, ((py + 1) * w + px).unsqueeze(-1)) - flat.gather(2, ((py - 1) * w + px).unsqueeze(-1))
    preds = preds + 0.25 * torch.sign(torch.cat([dx, dy], dim=-1))
    size = torch.tensor([float(w), float(h)], device=heatmaps.device)
    coords = preds * (scale[:, None, :] * 200.0) / size + center[:, None, :] - scale[:, None, :] * 100.0
    return coords, maxvals


inputs = (torch.randn(2, 3, 8, 8), torch.rand(2, 2) * 100, torch.rand(2, 2) + 0.5)
