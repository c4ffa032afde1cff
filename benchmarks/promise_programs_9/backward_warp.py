"""An image warped by a flow: bilinear sampling by hand, an occlusion mask, census and smoothness losses."""

import torch
import torch.nn.functional as F
from torch import Tensor


def coordinates(n: int, h: int, w: int, device: torch.device) -> Tensor:
    ys, xs = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    return torch.stack([xs, ys], dim=0).float()[None].repeat(n, 1, 1, 1)


def sample(img: Tensor, coords: Tensor) -> Tensor:
    n, c, h, w = img.shape
    x, y = coords[:, 0], coords[:, 1]
    x0, y0 = torch.floor(x), torch.floor(y)
    x1, y1 = x0 + 1, y0 + 1
    wa = ((x1 - x) * (y1 - y)).unsqueeze(1)
    wb = ((x1 - x) * (y - y0)).unsqueeze(1)
    wc = ((x - x0) * (y1 - y)).unsqueeze(1)
    wd = ((x - x0) * (y - y0)).unsqueeze(1)
    x0 = x0.clamp_(0, w - 1)
    x1 = x1.clamp_(0, w - 1)
    y0 = y0.clamp_(0, h - 1)
    y1 = y1.clamp_(0, h - 1)
    flat = img.view(n, c, -1)
    ia = flat.gather(2, (y0 * w + x0).long().view(n, 1, -1).expand(-1, c, -1)).view(n, c, h, w)
    ib = flat.gather(2, (y1 * w + x0).long().view(n, 1, -1).expand(-1, c, -1)).view(n, c, h, w)
    ic = flat.gather(2, (y0 * w + x1).long().view(n, 1, -1).expand(-1, c, -1)).view(n, c, h, w)
    id_ = flat.gather(2, (y1 * w + x1).long().view(n, 1, -1).expand(-1, c, -1)).view(n, c, h, w)
    return wa * ia + wb * ib + wc * ic + wd * id_


def model(first: Tensor, second: Tensor, flow: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    n, _, h, w = first.shape
    grid = coordinates(n, h, w, first.device)
    coords = grid + flow
    warped = sample(second, coords)
    back_warped = sample(back, coords)
    inside = (coords[:, :1] >= 0) & (coords[:, :1] <= w - 1) & (coords[:, 1:] >= 0) & (coords[:, 1:] <= h - 1)
    mismatch = (flow + back_warped).pow(2).sum(1, keepdim=True)
    bound = 0.01 * (flow.pow(2).sum(1, keepdim=True) + back_warped.pow(2).sum(1, keepdim=True)) + 0.5
    visible = (inside & (mismatch < bound)).type_as(first)
    diff = (first - warped).abs() + 0.01
    photometric = diff.pow(0.4).mean(1, keepdim=True)
    photometric *= visible
    gray1 = 0.299 * first[:, 0] + 0.587 * first[:, 1] + 0.114 * first[:, 2]
    gray2 = 0.299 * warped[:, 0] + 0.587 * warped[:, 1] + 0.114 * warped[:, 2]
    p1 = F.pad(gray1, [1, 1, 1, 1])[:, 1:-1, 2:] - gray1
    p2 = F.pad(gray2, [1, 1, 1, 1])[:, 1:-1, 2:] - gray2
    p1 = p1 / torch.sqrt(0.81 + p1**2)
    p2 = p2 / torch.sqrt(0.81 + p2**2)
    distance = (p1 - p2) ** 2
    census = (distance / (0.1 + distance)).unsqueeze(1) * visible
    dx = (flow[:, :, :, 1:] - flow[:, :, :, :-1]).abs()
    edge = torch.exp(-10.0 * (first[:, :, :, 1:] - first[:, :, :, :-1]).abs().mean(1, keepdim=True))
    loss = photometric.sum() / (visible.sum() + 1e-6) + census.mean() + 0.05 * (dx * edge).mean()
    return loss, warped


inputs = (
    torch.rand(2, 3, 6, 7),
    torch.rand(2, 3, 6, 7),
    (torch.randn(2, 2, 6, 7) * 1.5).requires_grad_(),
    torch.randn(2, 2, 6, 7),
)
