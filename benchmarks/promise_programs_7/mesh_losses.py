"""Losses of a mesh: normals of vertices, edge lengths, a uniform Laplacian, a soft silhouette."""

import torch
import torch.nn.functional as F
from torch import Tensor


def vertex_normals(verts: Tensor, faces: Tensor) -> Tensor:
    v0, v1, v2 = verts[faces[:, 0]], verts[faces[:, 1]], verts[faces[:, 2]]
    face_normals = torch.cross(v1 - v0, v2 - v0, dim=1)
    normals = torch.zeros_like(verts)
    normals.index_add_(0, faces[:, 0], face_normals)
    normals.index_add_(0, faces[:, 1], face_normals)
    normals.index_add_(0, faces[:, 2], face_normals)
    return F.normalize(normals, eps=1e-6, dim=1)


def edge_loss(verts: Tensor, faces: Tensor, target: float) -> Tensor:
    v0, v1, v2 = verts[faces[:, 0]], verts[faces[:, 1]], verts[faces[:, 2]]
    loss = ((v0 - v1).norm(p=2, dim=1) - target) ** 2.0
    loss += ((v1 - v2).norm(p=2, dim=1) - target) ** 2.0
    loss += ((v2 - v0).norm(p=2, dim=1) - target) ** 2.0
    return loss.mean()


def laplacian_loss(verts: Tensor, adjacency: Tensor) -> Tensor:
    degree = adjacency.sum(dim=1, keepdim=True)
    inv = torch.where(degree > 0, 1.0 / degree, degree)
    lap = torch.mm(adjacency, verts) * inv - verts
    return torch.norm(lap, dim=1).mean()


def silhouette(dists: Tensor, sigma: float, gamma: float) -> Tensor:
    mask = (dists < 0.5).float()
    prob = torch.sigmoid(-dists / sigma) * mask
    alpha = torch.prod(1.0 - prob, dim=-1)
    z = (1.0 - dists).clamp(min=0.0)
    z_max = torch.max(z * mask, dim=-1).values[..., None]
    weights = prob * torch.exp((z - z_max) / gamma)
    denom = weights.sum(dim=-1)[..., None] + 1e-4
    weights /= denom
    return (1.0 - alpha) * weights.sum(dim=-1)


def model(
    verts: Tensor, offset: Tensor, faces: Tensor, adjacency: Tensor, dists: Tensor, light: Tensor
) -> Tensor:
    v = verts + offset.tanh() * 0.1
    n = vertex_normals(v, faces)
    shade = F.relu((n * light).sum(-1))
    shade.mul_(0.7).add_(0.3)
    image = silhouette(dists * shade.mean(), 1e-1, 1e-1)
    loss = edge_loss(v, faces, 0.5) + 0.1 * laplacian_loss(v, adjacency)
    return loss + (1.0 - image).pow(2).mean()


inputs = (
    torch.randn(6, 3),
    torch.randn(6, 3, requires_grad=True),
    torch.tensor([[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]]),
    (torch.rand(6, 6) > 0.5).float(),
    torch.rand(4, 4, 3),
    torch.tensor([0.0, 0.6, 0.8]),
)
