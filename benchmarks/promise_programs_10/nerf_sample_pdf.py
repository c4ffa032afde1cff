"""NeRF's hierarchical sampling: rays, alpha compositing, the inverse of the distribution."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Sine(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, w0: float = 30.0) -> None:
        super().__init__()
        self.linear = nn.Linear(fan_in, fan_out)
        self.w0 = w0

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.w0 * self.linear(x))


def raw2outputs(
    raw: Tensor, z_vals: Tensor, rays_d: Tensor, noise: Tensor, white_bkgd: bool
) -> tuple[Tensor, Tensor, Tensor]:
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    far = torch.full([1], 1e10, device=raw.device).expand(dists[..., :1].shape)
    dists = torch.cat([dists, far], -1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    rgb = torch.sigmoid(raw[..., :3])
    alpha = 1.0 - torch.exp(-F.relu(raw[..., 3] + noise) * dists)
    ones = torch.ones((alpha.shape[0], 1), device=alpha.device)
    weights = alpha * torch.cumprod(torch.cat([ones, 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
    rgb_map = torch.sum(weights[..., None] * rgb, -2)
    depth_map = torch.sum(weights * z_vals, -1)
    acc_map = torch.sum(weights, -1)
    if white_bkgd:
        rgb_map = rgb_map + (1.0 - acc_map[..., None])
    disp = 1.0 / torch.max(1e-10 * torch.ones_like(depth_map), depth_map / acc_map.clamp(min=1e-6))
    return rgb_map, disp, weights


def sample_pdf(bins: Tensor, weights: Tensor, u: Tensor) -> Tensor:
    weights = weights + 1e-5
    pdf = weights / torch.sum(weights, -1, keepdim=True)
    cdf = torch.cumsum(pdf, -1)
    cdf = torch.cat([torch.zeros_like(cdf[..., :1]), cdf], -1)
    u = u.contiguous()
    inds = torch.searchsorted(cdf, u, right=True)
    below = torch.max(torch.zeros_like(inds), inds - 1)
    above = torch.min((cdf.shape[-1] - 1) * torch.ones_like(inds), inds)
    cdf_below = torch.gather(cdf, 1, below)
    cdf_above = torch.gather(cdf, 1, above)
    bins_below = torch.gather(bins, 1, below)
    bins_above = torch.gather(bins, 1, above)
    denom = cdf_above - cdf_below
    denom[denom < 1e-5] = 1.0
    t = (u - cdf_below) / denom
    return bins_below + t * (bins_above - bins_below)


class Renderer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = Sine(6, width)
        self.second = Sine(width, width, 1.0)
        self.out = nn.Linear(width, 4)

    def field(self, points: Tensor, dirs: Tensor) -> Tensor:
        h = torch.cat([points, dirs[:, None].expand_as(points)], -1)
        return self.out(self.second(self.first(h)))

    def forward(self, rays_o: Tensor, rays_d: Tensor, jitter: Tensor, u: Tensor) -> dict[str, Tensor]:
        viewdirs = rays_d / torch.norm(rays_d, dim=-1, keepdim=True)
        t_vals = torch.linspace(0.0, 1.0, 6, device=rays_o.device)
        near, far = 2.0, 6.0
        z_vals = near * (1.0 - t_vals) + far * t_vals
        z_vals = z_vals.expand(rays_o.shape[0], 6)
        if self.training:
            mids = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
            upper = torch.cat([mids, z_vals[..., -1:]], -1)
            lower = torch.cat([z_vals[..., :1], mids], -1)
            z_vals = lower + (upper - lower) * jitter
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        raw = self.field(pts, viewdirs)
        rgb0, disp0, weights = raw2outputs(raw, z_vals, rays_d, jitter, True)
        z_mid = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
        z_samples = sample_pdf(z_mid, weights[..., 1:-1], u).detach()
        z_vals, _ = torch.sort(torch.cat([z_vals, z_samples], -1), -1)
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        raw = self.field(pts, viewdirs)
        rgb, disp, _ = raw2outputs(raw, z_vals, rays_d, torch.zeros_like(z_vals), True)
        return {"rgb": rgb, "disp": disp, "rgb0": rgb0, "disp0": disp0}


model = Renderer()
inputs = (torch.randn(4, 3), torch.randn(4, 3), torch.rand(4, 6), torch.rand(4, 4))
