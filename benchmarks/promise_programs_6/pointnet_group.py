"""Set abstraction of PointNet++: farthest points in a loop, squared distances, a ball query and features."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SetAbstraction(nn.Module):
    def __init__(self, npoint: int = 3, radius: float = 0.8, nsample: int = 4) -> None:
        super().__init__()
        self.npoint, self.radius, self.nsample = npoint, radius, nsample
        self.conv = nn.Conv2d(3, 8, 1)
        self.bn = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 1)
        self.bn2 = nn.BatchNorm2d(8)

    def farthest(self, xyz: Tensor) -> Tensor:
        b, n, _ = xyz.shape
        centroids = torch.zeros(b, self.npoint, dtype=torch.long, device=xyz.device)
        distance = torch.ones(b, n, device=xyz.device) * 1e10
        far = torch.zeros(b, dtype=torch.long, device=xyz.device)
        batch = torch.arange(b, dtype=torch.long, device=xyz.device)
        for i in range(self.npoint):
            centroids[:, i] = far
            centroid = xyz[batch, far, :].view(b, 1, 3)
            dist = torch.sum((xyz - centroid) ** 2, -1)
            mask = dist < distance
            distance[mask] = dist[mask]
            far = torch.max(distance, -1)[1]
        return centroids

    def forward(self, xyz: Tensor) -> Tensor:
        b, n, _ = xyz.shape
        idx = self.farthest(xyz.detach())
        new_xyz = xyz.gather(1, idx.unsqueeze(-1).expand(-1, -1, 3))
        sqrdists = -2 * torch.matmul(new_xyz, xyz.permute(0, 2, 1))
        sqrdists += torch.sum(new_xyz**2, -1).view(b, self.npoint, 1)
        sqrdists += torch.sum(xyz**2, -1).view(b, 1, n)
        group = torch.arange(n, dtype=torch.long, device=xyz.device).view(1, 1, n).repeat([b, self.npoint, 1])
        group[sqrdists > self.radius**2] = n - 1
        group = group.sort(dim=-1)[0][:, :, : self.nsample]
        flat = group.reshape(b, -1, 1).expand(-1, -1, 3)
        points = xyz.gather(1, flat).view(b, self.npoint, self.nsample, 3)
        points -= new_xyz.view(b, self.npoint, 1, 3)
        x = points.permute(0, 3, 2, 1)
        x = F.relu(self.bn2(self.conv2(F.relu(self.bn(self.conv(x))))))
        return torch.max(x, 2)[0]


model = SetAbstraction()
inputs = (torch.rand(2, 10, 3),)
