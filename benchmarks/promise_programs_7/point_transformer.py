"""Vector attention of a point transformer: neighbours by distance, a position encoding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def square_distance(src: Tensor, dst: Tensor) -> Tensor:
    dist = -2 * torch.matmul(src, dst.permute(0, 2, 1))
    dist += torch.sum(src**2, -1)[:, :, None]
    dist += torch.sum(dst**2, -1)[:, None, :]
    return dist


def index_points(points: Tensor, idx: Tensor) -> Tensor:
    b, n, k = idx.shape
    flat = idx.reshape(b, n * k, 1).expand(-1, -1, points.size(-1))
    return points.gather(1, flat).view(b, n, k, points.size(-1))


class PointTransformerLayer(nn.Module):
    def __init__(self, dim: int = 6, k: int = 4) -> None:
        super().__init__()
        self.k = k
        self.fc_delta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(inplace=True), nn.Linear(dim, dim))
        self.fc_gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(inplace=True), nn.Linear(dim, dim))
        self.w_qs = nn.Linear(dim, dim, bias=False)
        self.w_ks = nn.Linear(dim, dim, bias=False)
        self.w_vs = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        dists = square_distance(xyz, xyz)
        knn = dists.argsort(dim=-1)[:, :, : self.k]
        rel = xyz[:, :, None] - index_points(xyz, knn)
        x = self.norm(features)
        q, k, v = self.w_qs(x), index_points(self.w_ks(x), knn), index_points(self.w_vs(x), knn)
        pos = self.fc_delta(rel)
        attn = self.fc_gamma(q[:, :, None] - k + pos)
        attn = F.softmax(attn / (k.size(-1) ** 0.5), dim=-2)
        res = torch.sum(attn * (v + pos), dim=2)
        res += features
        return res


model = PointTransformerLayer()
inputs = (torch.rand(2, 8, 3), torch.randn(2, 8, 6))
