"""Rotations of a pose regressor: six numbers to a matrix, quaternions, Rodrigues, geodesic loss."""

import torch
import torch.nn.functional as F
from torch import Tensor


def rot6d_to_matrix(d6: Tensor) -> Tensor:
    a1, a2 = d6[..., :3], d6[..., 3:]
    b1 = F.normalize(a1, dim=-1)
    b2 = a2 - (b1 * a2).sum(-1, keepdim=True) * b1
    b2 = F.normalize(b2, dim=-1)
    b3 = torch.cross(b1, b2, dim=-1)
    return torch.stack((b1, b2, b3), dim=-2)


def skew(v: Tensor) -> Tensor:
    k = torch.zeros(v.size(0), 3, 3, dtype=v.dtype, device=v.device)
    k[:, 0, 1] = -v[:, 2]
    k[:, 0, 2] = v[:, 1]
    k[:, 1, 0] = v[:, 2]
    k[:, 1, 2] = -v[:, 0]
    k[:, 2, 0] = -v[:, 1]
    k[:, 2, 1] = v[:, 0]
    return k


def rodrigues(rvec: Tensor) -> Tensor:
    theta = rvec.norm(p=2, dim=1, keepdim=True) + 1e-8
    k = skew(rvec / theta)
    theta = theta.unsqueeze(-1)
    eye = torch.eye(3, device=rvec.device, dtype=rvec.dtype)
    return eye + theta.sin() * k + (1 - theta.cos()) * torch.bmm(k, k)


def quaternion(rvec: Tensor) -> Tensor:
    angle = torch.norm(rvec, p=2, dim=-1, keepdim=True)
    half = 0.5 * angle
    small = angle.abs() < 1e-6
    ratio = torch.where(small, 0.5 - angle * angle / 48, torch.sin(half) / angle.clamp(min=1e-6))
    return torch.cat([torch.cos(half), rvec * ratio], dim=-1)


def model(d6: Tensor, rvec: Tensor, points: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    predicted = rot6d_to_matrix(d6)
    target = rodrigues(rvec)
    relative = torch.bmm(predicted, target.transpose(1, 2))
    trace = relative[:, 0, 0] + relative[:, 1, 1] + relative[:, 2, 2]
    cos = ((trace - 1.0) / 2.0).clamp(-1.0 + 1e-6, 1.0 - 1e-6)
    geodesic = torch.acos(cos)
    q = quaternion(rvec)
    w = q[:, 0].abs()
    moved = torch.bmm(points, predicted.transpose(1, 2)) - torch.bmm(points, target.transpose(1, 2))
    error = moved.abs()
    error = torch.where(error < 0.1, error * error * 5.0, error - 0.05).sum(-1)
    error *= weight
    error = error.sum(1) / weight.sum(1).clamp_(min=1.0)
    return (geodesic + error + 0.01 * (1.0 - w)).mean(), geodesic


inputs = (
    torch.randn(4, 6, requires_grad=True),
    torch.randn(4, 3) * 0.5,
    torch.randn(4, 8, 3),
    (torch.rand(4, 8) > 0.3).float(),
)
