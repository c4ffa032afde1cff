"""A soft rasteriser of triangles: signed distances to edges, silhouettes, colours by depth, IoU loss."""

import torch
from torch import Tensor, nn


class SoftRasteriser(nn.Module):
    def __init__(self, size: int = 6, sigma: float = 0.02, gamma: float = 0.1, mode: str = "softmax") -> None:
        super().__init__()
        self.sigma, self.gamma, self.mode = sigma, gamma, mode
        self.near, self.far, self.background = 1.0, 5.0, 0.1
        axis = torch.linspace(-1, 1, size)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        self.register_buffer("pixels", torch.stack([x, y], dim=-1).reshape(-1, 2))
        self.offset = nn.Parameter(0.05 * torch.randn(5, 3))
        self.colours = nn.Parameter(torch.rand(4, 3))

    def edge(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances of pixels to the edge, and the side that they are on."""
        p = self.pixels.unsqueeze(0)
        ab, ap = (b - a).unsqueeze(1), p - a.unsqueeze(1)
        t = (ap * ab).sum(-1, keepdim=True) / (ab * ab).sum(-1, keepdim=True).clamp(min=1e-8)
        t = t.clamp(0.0, 1.0)
        nearest = ap - t * ab
        side = ab[..., 0] * ap[..., 1] - ab[..., 1] * ap[..., 0]
        return nearest.pow(2).sum(-1), side

    def forward(self, vertices: Tensor, faces: Tensor, image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        v = vertices + self.offset
        depth = v[:, 2].clamp(min=0.1)
        screen = v[:, :2] / depth.unsqueeze(-1) * 2.0
        corners = screen[faces]
        a, b, c = corners.unbind(1)
        d0, s0 = self.edge(a, b)
        d1, s1 = self.edge(b, c)
        d2, s2 = self.edge(c, a)
        distance = torch.minimum(torch.minimum(d0, d1), d2)
        inside = ((s0 > 0) & (s1 > 0) & (s2 > 0)) | ((s0 < 0) & (s1 < 0) & (s2 < 0))
        sign = torch.where(inside, 1.0, -1.0).type_as(distance)
        coverage = torch.sigmoid(sign * distance / self.sigma)
        alpha = 1 - torch.prod(1 - coverage, dim=0)
        z = (self.far - depth[faces].mean(1)) / (self.far - self.near)
        if self.mode == "softmax":
            shift = z.detach().max()
            w = coverage * torch.exp((z - shift) / self.gamma).unsqueeze(-1)
            back = torch.exp((1e-3 - shift) / self.gamma)
            total = w.sum(0) + back
        else:
            w, back = coverage, torch.zeros_like(z[0])
            total = w.sum(0).clamp(min=1e-6)
        w = w / total
        rendered = torch.einsum("fp,fc->pc", w, torch.sigmoid(self.colours))
        rendered += self.background * (back / total).unsqueeze(-1)
        error = (rendered - image).abs()
        error[~mask] = 0.0
        m = mask.to(alpha.dtype)
        iou = (alpha * m).sum() / (alpha + m - alpha * m).sum()
        loss = error.mean() + (1 - iou)
        loss += 1e-2 * self.offset.pow(2).mean()
        return loss, torch.cat([rendered, alpha.unsqueeze(-1)], dim=-1)


model = SoftRasteriser()
inputs = (
    torch.tensor([[-1.0, -1, 3], [1, -1, 3], [0, 1, 2.5], [1, 1, 3.5], [-1, 1, 2.8]]),
    torch.tensor([[0, 1, 2], [1, 3, 2], [0, 2, 4], [0, 1, 4]]),
    torch.rand(36, 3),
    torch.rand(36) > 0.4,
)
