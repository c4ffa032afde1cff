"""Quaternions: the Hamilton product as a linear layer, rigid frames of protein backbones, slerp."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def quat_multiply(a: Tensor, b: Tensor) -> Tensor:
    aw, ax, ay, az = torch.unbind(a, -1)
    bw, bx, by, bz = torch.unbind(b, -1)
    ow = aw * bw - ax * bx - ay * by - az * bz
    ox = aw * bx + ax * bw + ay * bz - az * by
    oy = aw * by - ax * bz + ay * bw + az * bx
    oz = aw * bz + ax * by - ay * bx + az * bw
    return torch.stack((ow, ox, oy, oz), -1)


def standardize(q: Tensor) -> Tensor:
    return torch.where(q[..., 0:1] < 0, -q, q)


def quat_to_rot(q: Tensor) -> Tensor:
    r, i, j, k = torch.unbind(q, -1)
    two_s = 2.0 / (q * q).sum(-1)
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
    return o.unflatten(-1, [3, 3])


def slerp(q0: Tensor, q1: Tensor, t: float) -> Tensor:
    dot = (q0 * q1).sum(-1, keepdim=True)
    q1 = torch.where(dot < 0, -q1, q1)
    dot = dot.abs().clamp_(max=0.9995)
    theta = torch.acos(dot)
    out = torch.sin((1.0 - t) * theta) * q0 + torch.sin(t * theta) * q1
    out /= torch.sin(theta)
    return F.normalize(out, dim=-1)


class QuaternionLinear(nn.Module):
    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.r = nn.Parameter(torch.randn(features, out) * 0.3)
        self.i = nn.Parameter(torch.randn(features, out) * 0.3)
        self.j = nn.Parameter(torch.randn(features, out) * 0.3)
        self.k = nn.Parameter(torch.randn(features, out) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        r = torch.cat([self.r, -self.i, -self.j, -self.k], dim=0)
        i = torch.cat([self.i, self.r, -self.k, self.j], dim=0)
        j = torch.cat([self.j, self.k, self.r, -self.i], dim=0)
        k = torch.cat([self.k, -self.j, self.i, self.r], dim=0)
        return torch.matmul(x, torch.cat([r, i, j, k], dim=1))


class BackboneUpdate(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.mix = QuaternionLinear(dim // 4, dim // 4)
        self.norm = nn.LayerNorm(dim)
        self.update = nn.Linear(dim, 6)

    def forward(
        self, s: Tensor, quats: Tensor, trans: Tensor, target: Tensor, mask: Optional[Tensor] = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        s = s + F.relu(self.mix(self.norm(s)))
        v, t = self.update(s).split(3, dim=-1)
        q = F.pad(v, (1, 0), value=1.0)
        q = q / torch.sqrt((q**2).sum(-1, keepdim=True))
        old = quats
        quats = standardize(quat_multiply(quats, q))
        rot = quat_to_rot(quats)
        trans = trans + torch.einsum("bnij,bnj->bni", rot, t)
        local = torch.einsum("bnij,bnmi->bnmj", rot, target[:, None] - trans[:, :, None])
        error = torch.sqrt((local**2).sum(-1) + 1e-4)
        error = torch.clamp(error, min=0.0, max=10.0)
        error /= 10.0
        if mask is not None:
            error *= mask[:, None, :]
            loss = error.sum((-1, -2)) / (1e-4 + mask.sum(-1) * error.size(1))
        else:
            loss = error.mean((-1, -2))
        return slerp(F.normalize(old, dim=-1), F.normalize(quats, dim=-1), 0.3), trans, loss


model = BackboneUpdate()
inputs = (
    torch.randn(2, 5, 8),
    F.normalize(torch.randn(2, 5, 4), dim=-1),
    torch.randn(2, 5, 3),
    torch.randn(2, 5, 3),
    torch.ones(2, 5),
)
