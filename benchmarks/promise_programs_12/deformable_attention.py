"""Deformable DETR: sampling offsets around reference points, bilinear samples of several levels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def inverse_sigmoid(x: Tensor, eps: float = 1e-5) -> Tensor:
    x = x.clamp(min=0, max=1)
    x1 = x.clamp(min=eps)
    x2 = (1 - x).clamp(min=eps)
    return torch.log(x1 / x2)


def deform_attn_core(
    value: Tensor, shapes: list[tuple[int, int]], locations: Tensor, weights: Tensor
) -> Tensor:
    n, _, m, d = value.shape
    _, lq, _, levels, p, _ = locations.shape
    sizes: list[int] = []
    for h, w in shapes:
        sizes.append(h * w)
    value_list = value.split(sizes, dim=1)
    grids = 2 * locations - 1
    sampled: list[Tensor] = []
    for level in range(levels):
        h, w = shapes[level]
        value_l = value_list[level].flatten(2).transpose(1, 2).reshape(n * m, d, h, w)
        grid_l = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        sampled.append(
            F.grid_sample(value_l, grid_l, mode="bilinear", padding_mode="zeros", align_corners=False)
        )
    weights = weights.transpose(1, 2).reshape(n * m, 1, lq, levels * p)
    out = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1).view(n, m * d, lq)
    return out.transpose(1, 2).contiguous()


class MSDeformAttn(nn.Module):
    def __init__(self, dim: int = 8, levels: int = 2, heads: int = 2, points: int = 2) -> None:
        super().__init__()
        self.levels, self.heads, self.points = levels, heads, points
        self.offsets = nn.Linear(dim, heads * levels * points * 2)
        self.weights = nn.Linear(dim, heads * levels * points)
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(
        self, query: Tensor, reference: Tensor, memory: Tensor, shapes: list[tuple[int, int]], padding: Tensor
    ) -> Tensor:
        n, lq, _ = query.shape
        value = self.value(memory)
        value = value.masked_fill(padding[..., None], 0.0)
        value = value.view(n, memory.shape[1], self.heads, -1)
        offsets = self.offsets(query).view(n, lq, self.heads, self.levels, self.points, 2)
        weights = self.weights(query).view(n, lq, self.heads, self.levels * self.points)
        weights = F.softmax(weights, -1).view(n, lq, self.heads, self.levels, self.points)
        if reference.shape[-1] == 2:
            scale = torch.tensor([[float(w), float(h)] for h, w in shapes], device=query.device)
            locations = reference[:, :, None, :, None, :] + offsets / scale[None, None, None, :, None, :]
        else:
            locations = reference[:, :, None, :, None, :2]
            locations = locations + offsets / self.points * reference[:, :, None, :, None, 2:] * 0.5
        return self.out(deform_attn_core(value, shapes, locations, weights))


class DecoderLayer(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.cross = MSDeformAttn(dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.linear1, self.linear2 = nn.Linear(dim, 16), nn.Linear(16, dim)
        self.dropout = nn.Dropout(0.1)
        self.bbox = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(
        self,
        tgt: Tensor,
        pos: Tensor,
        reference: Tensor,
        memory: Tensor,
        shapes: list[tuple[int, int]],
        padding: Tensor,
        ratios: Tensor,
    ) -> tuple[Tensor, Tensor]:
        points = reference[:, :, None] * torch.cat([ratios, ratios], -1)[:, None]
        tgt2 = self.cross(tgt + pos, points, memory, shapes, padding)
        tgt = self.norm1(tgt + self.dropout(tgt2))
        tgt2 = self.linear2(self.dropout(F.relu(self.linear1(tgt))))
        tgt = self.norm2(tgt + self.dropout(tgt2))
        delta = self.bbox(tgt)
        delta += inverse_sigmoid(reference)
        return tgt, delta.sigmoid()


class Decoder(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(dim), DecoderLayer(dim)])

    def forward(
        self, query: Tensor, reference: Tensor, memory: Tensor, shapes: list[tuple[int, int]], padding: Tensor
    ) -> tuple[Tensor, Tensor]:
        pos, tgt = query.chunk(2, dim=-1)
        ratios = torch.ones(query.shape[0], len(shapes), 2, device=query.device)
        ratios[:, 1] *= 0.5
        boxes: list[Tensor] = []
        for layer in self.layers:
            tgt, reference = layer(tgt, pos, reference, memory, shapes, padding, ratios)
            boxes.append(reference)
            reference = reference.detach()
        return tgt, torch.stack(boxes)


model = Decoder().eval()
inputs = (
    torch.randn(2, 3, 16),
    torch.rand(2, 3, 4),
    torch.randn(2, 20, 8),
    [(4, 4), (2, 2)],
    torch.zeros(2, 20, dtype=torch.bool),
)
