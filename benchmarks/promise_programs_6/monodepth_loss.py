"""Losses of monocular depth: scale-invariant log error, edge-aware smoothness, a photometric minimum."""

import torch
import torch.nn.functional as F
from torch import Tensor


def smoothness(disp: Tensor, img: Tensor) -> Tensor:
    mean_disp = disp.mean(2, True).mean(3, True)
    norm_disp = disp / (mean_disp + 1e-7)
    grad_disp_x = torch.abs(norm_disp[:, :, :, :-1] - norm_disp[:, :, :, 1:])
    grad_disp_y = torch.abs(norm_disp[:, :, :-1, :] - norm_disp[:, :, 1:, :])
    grad_img_x = torch.mean(torch.abs(img[:, :, :, :-1] - img[:, :, :, 1:]), 1, keepdim=True)
    grad_img_y = torch.mean(torch.abs(img[:, :, :-1, :] - img[:, :, 1:, :]), 1, keepdim=True)
    grad_disp_x *= torch.exp(-grad_img_x)
    grad_disp_y *= torch.exp(-grad_img_y)
    return grad_disp_x.mean() + grad_disp_y.mean()


def model(disp: Tensor, depth_gt: Tensor, img: Tensor, warped: Tensor, other: Tensor) -> Tensor:
    min_disp, max_disp = 1.0 / 100.0, 1.0 / 0.1
    scaled = min_disp + (max_disp - min_disp) * disp
    depth = 1 / scaled
    mask = (depth_gt > 1e-3) & (depth_gt < 80.0)
    d = torch.log(depth.clamp(1e-3, 80.0)) - torch.log(depth_gt.clamp(min=1e-3))
    d = d * mask.float()
    n = mask.float().sum().clamp(min=1.0)
    silog = torch.sqrt((d**2).sum() / n - 0.85 * (d.sum() / n) ** 2 + 1e-8) * 10.0
    photo_a = F.l1_loss(warped, img, reduction="none").mean(1, True)
    photo_b = F.smooth_l1_loss(other, img, reduction="none").mean(1, True)
    photo = torch.min(torch.cat([photo_a, photo_b], dim=1), dim=1)[0].mean()
    return silog + photo + 1e-3 * smoothness(disp, img)


inputs = (
    torch.rand(2, 1, 6, 6, requires_grad=True),
    torch.rand(2, 1, 6, 6) * 50,
    torch.rand(2, 3, 6, 6),
    torch.rand(2, 3, 6, 6, requires_grad=True),
    torch.rand(2, 3, 6, 6, requires_grad=True),
)
