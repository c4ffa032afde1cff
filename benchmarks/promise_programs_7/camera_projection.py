"""Geometry of a camera: rotations of six numbers and of quaternions, distortion, a robust loss."""

import torch
import torch.nn.functional as F
from torch import Tensor


def rotation_6d_to_matrix(d6: Tensor) -> Tensor:
    a1, a2 = d6[..., :3], d6[..., 3:]
    b1 = F.normalize(a1, dim=-1)
    b2 = a2 - (b1 * a2).sum(-1, keepdim=True) * b1
    b2 = F.normalize(b2, dim=-1)
    b3 = torch.cross(b1, b2, dim=-1)
    return torch.stack((b1, b2, b3), dim=-2)


def quaternion_to_matrix(quaternions: Tensor) -> Tensor:
    r, i, j, k = torch.unbind(quaternions, -1)
    two_s = 2.0 / (quaternions * quaternions).sum(-1)
    o = torch.stack(
        (
            1 - two_s * (j * j + k * k),
            two_s * (i * j - k * r),
            two_s * (i * k + j * r),
            two_s * (i * j + k * r),
            1 - two_s * (i * i + k * k),
            two_s * (j * k - i * r),
            two_s * (i * k - j * r),
            two_s * (j * k + i * r),
            1 - two_s * (i * i + j * j),
        ),
        -1,
    )
    return o.reshape(quaternions.size(0), 3, 3)


def project(points: Tensor, focal: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    z = points[..., 2]
    valid = z > 0.1
    z[~valid] = 0.1
    xy = points[..., :2] / z.unsqueeze(-1)
    r2 = (xy**2).sum(dim=-1, keepdim=True)
    radial = 1.0 + k[:, None, 0:1] * r2 + k[:, None, 1:2] * r2 * r2
    return xy * radial * focal.view(-1, 1, 1), valid


def model(
    points: Tensor, d6: Tensor, quat: Tensor, trans: Tensor, focal: Tensor, k: Tensor, target: Tensor
) -> Tensor:
    rot = torch.matmul(quaternion_to_matrix(quat), rotation_6d_to_matrix(d6))
    cam = torch.bmm(points, rot.transpose(1, 2))
    cam += trans[:, None, :]
    uv, valid = project(cam, focal, k)
    residual = (uv - target).pow(2).sum(-1)
    scale = 0.5
    robust = residual / (residual + scale**2)
    weights = valid.float() * torch.rsqrt(1.0 + residual.detach())
    loss = (weights * robust).sum(dim=-1) / weights.sum(dim=-1).clamp(min=1.0)
    return loss.mean()


inputs = (
    torch.randn(2, 7, 3) + torch.tensor([0.0, 0.0, 2.0]),
    torch.randn(2, 6, requires_grad=True),
    torch.randn(2, 4, requires_grad=True),
    torch.randn(2, 3, requires_grad=True),
    torch.rand(2) + 1.0,
    torch.rand(2, 2) * 0.1,
    torch.randn(2, 7, 2),
)
