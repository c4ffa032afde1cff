"""Bundle adjustment's residuals: rotations of axis and angle, a lens with distortion, robust weights."""

import torch
from torch import Tensor, nn


class Residuals(nn.Module):
    def __init__(self, cameras: int = 3, points: int = 5, kind: str = "huber") -> None:
        super().__init__()
        self.kind = kind
        self.angles = nn.Parameter(0.1 * torch.randn(cameras, 3))
        self.moves = nn.Parameter(torch.tensor([0.0, 0.0, 4.0]) + 0.1 * torch.randn(cameras, 3))
        self.points = nn.Parameter(torch.randn(points, 3))
        self.focal = nn.Parameter(torch.full((cameras,), 1.2))
        self.lens = nn.Parameter(torch.tensor([0.01, -0.02]))

    def rotate(self, angles: Tensor, points: Tensor) -> Tensor:
        theta = angles.norm(2, -1, True)
        small = theta < 1e-6
        safe = torch.where(small, torch.ones_like(theta), theta)
        axis = angles / safe
        cos, sin = torch.cos(theta), torch.sin(theta)
        dot = (axis * points).sum(-1, keepdim=True)
        crossed = torch.cross(axis, points, dim=-1)
        turned = points * cos + crossed * sin + axis * dot * (1 - cos)
        return torch.where(small, points + torch.cross(angles, points, dim=-1), turned)

    def project(self, camera: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        p = self.rotate(self.angles[camera], self.points[index]) + self.moves[camera]
        depth = p[:, 2:]
        behind = depth.squeeze(-1) < 0.1
        xy = p[:, :2] / depth.clamp(min=0.1)
        r2 = xy.pow(2).sum(-1, keepdim=True)
        factor = 1 + r2 * (self.lens[0] + self.lens[1] * r2)
        xy = xy * factor
        xy *= self.focal[camera].unsqueeze(-1)
        return xy, behind

    def weigh(self, r: Tensor) -> Tensor:
        norm = r.norm(2, -1)
        if self.kind == "huber":
            w = torch.where(norm > 0.5, 0.5 / norm.clamp(min=1e-6), torch.ones_like(norm))
        else:
            w = 1 / (1 + norm * norm)
        return w.detach()

    def forward(self, camera: Tensor, index: Tensor, seen: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
        xy, behind = self.project(camera, index)
        r = xy - seen
        r[behind] = 0.0
        w = self.weigh(r)
        w *= trust
        cost = (w.unsqueeze(-1) * r * r).sum()
        gauge = self.points.mean(0).pow(2).sum()
        cost += 0.1 * gauge
        scale = self.moves.norm(2, -1).mean()
        cost = cost + (scale - 4.0).abs()
        per_camera = torch.zeros(3, device=r.device)
        per_camera.index_add_(0, camera, r.norm(2, -1))
        return cost, per_camera


model = Residuals()
inputs = (
    torch.tensor([0, 0, 1, 1, 2, 2, 2]),
    torch.tensor([0, 1, 1, 2, 3, 4, 0]),
    torch.randn(7, 2) * 0.3,
    torch.rand(7),
)
