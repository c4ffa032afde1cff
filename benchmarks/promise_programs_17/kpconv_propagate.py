"""Point clouds: kernel point convolution with deformed points, interpolation from three neighbours, segmentation."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def square_distance(src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    B, N, _ = src.shape
    _, M, _ = dst.shape
    dist = -2 * torch.matmul(src, dst.permute(0, 2, 1))
    dist += torch.sum(src ** 2, -1).view(B, N, 1)
    dist += torch.sum(dst ** 2, -1).view(B, 1, M)
    return dist


def index_points(points: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
    B = points.shape[0]
    batch = torch.arange(B, dtype=torch.long, device=points.device).view(B, 1, 1)
    return points[batch.expand_as(idx), idx, :]


class KPConv(nn.Module):
    def __init__(
        self, cin: int, cout: int, kernel: int = 5, k: int = 4, extent: float = 0.6, influence: str = "linear"
    ):
        super().__init__()
        self.k = k
        self.KP_extent = extent
        self.KP_influence = influence
        self.kernel_points = nn.Parameter(torch.randn(kernel, 3) * 0.4, requires_grad=False)
        self.offset_conv = nn.Linear(cin, kernel * 3)
        self.weights = nn.Parameter(torch.randn(kernel, cin, cout) * 0.3)
        self.norm = nn.BatchNorm1d(cout, momentum=0.02)
        self.leaky_relu = nn.LeakyReLU(0.1, inplace=True)

    def forward(self, xyz: torch.Tensor, feats: torch.Tensor):
        B, N, _ = feats.shape
        sqr = square_distance(xyz, xyz)
        idx = sqr.topk(self.k, dim=-1, largest=False)[1]
        neighbors = index_points(xyz, idx) - xyz.unsqueeze(2)
        offsets = self.offset_conv(feats).view(B, N, -1, 3) * self.KP_extent
        deformed = offsets + self.kernel_points
        differences = neighbors.unsqueeze(3) - deformed.unsqueeze(2)
        sq_distances = torch.sum(differences ** 2, dim=4)
        if self.KP_influence == "constant":
            all_weights = torch.ones_like(sq_distances)
        elif self.KP_influence == "linear":
            all_weights = torch.clamp(1 - torch.sqrt(sq_distances + 1e-10) / self.KP_extent, min=0.0)
        else:
            sigma = self.KP_extent * 0.3
            all_weights = torch.exp(-sq_distances / (2 * sigma ** 2 + 1e-9))
        neighb_x = index_points(feats, idx)
        weighted = torch.matmul(all_weights.transpose(2, 3), neighb_x)
        out = torch.einsum("bnkc,kcd->bnd", weighted, self.weights)
        neighbor_sum = neighb_x.sum(-1)
        neighbor_num = torch.gt(neighbor_sum, 0.0).sum(-1)
        neighbor_num = torch.max(neighbor_num, torch.ones_like(neighbor_num))
        out = out / neighbor_num.unsqueeze(-1)
        fitting = torch.min(sq_distances, dim=2)[0] / (self.KP_extent ** 2)
        out = self.leaky_relu(self.norm(out.transpose(1, 2)).transpose(1, 2))
        return out, fitting.mean()


class FeaturePropagation(nn.Module):
    def __init__(self, channels: int, out: int):
        super().__init__()
        self.mlp_convs = nn.ModuleList([nn.Conv1d(channels, out, 1), nn.Conv1d(out, out, 1)])
        self.mlp_bns = nn.ModuleList([nn.BatchNorm1d(out), nn.BatchNorm1d(out)])

    def forward(self, xyz1: torch.Tensor, xyz2: torch.Tensor, points1: torch.Tensor, points2: torch.Tensor):
        dists = square_distance(xyz1, xyz2)
        dists, idx = dists.sort(dim=-1)
        dists, idx = dists[:, :, :3], idx[:, :, :3]
        dist_recip = 1.0 / (dists.abs() + 1e-8)
        norm = torch.sum(dist_recip, dim=2, keepdim=True)
        weight = dist_recip / norm
        interpolated = torch.sum(index_points(points2, idx) * weight.unsqueeze(-1), dim=2)
        new_points = torch.cat([points1, interpolated], dim=-1).permute(0, 2, 1)
        for conv, bn in zip(self.mlp_convs, self.mlp_bns):
            new_points = F.relu(bn(conv(new_points)))
        return new_points


class SegNet(nn.Module):
    def __init__(self, classes: int = 3):
        super().__init__()
        self.enc = KPConv(3, 6)
        self.prop = FeaturePropagation(9, 8)
        self.drop = nn.Dropout(0.0)
        self.head = nn.Conv1d(8, classes, 1)

    def forward(self, xyz: torch.Tensor, target: torch.Tensor):
        centroid = torch.mean(xyz, dim=1, keepdim=True)
        xyz = xyz - centroid
        m = torch.max(torch.sqrt(torch.sum(xyz ** 2, dim=-1)), dim=1)[0]
        xyz = xyz / m.view(-1, 1, 1)
        sub = xyz[:, ::2].contiguous()
        feats, fitting = self.enc(sub, sub)
        logits = self.head(self.drop(self.prop(xyz, sub, xyz, feats)))
        loss = F.cross_entropy(logits, target)
        return loss + 0.1 * fitting, logits


model = SegNet()
inputs = (torch.randn(2, 16, 3), torch.randint(0, 3, (2, 16)))
