"""Evoformer: triangle multiplication and attention, outer product mean, FAPE, distogram, lDDT."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Triangle(nn.Module):
    def __init__(self, dim: int, outgoing: bool) -> None:
        super().__init__()
        self.norm_in, self.norm_out = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.a, self.b, self.a_gate, self.b_gate = (nn.Linear(dim, dim) for _ in range(4))
        self.gate, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.outgoing = outgoing

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        z = self.norm_in(z)
        mask = mask.unsqueeze(-1)
        a = mask * torch.sigmoid(self.a_gate(z))
        a = a * self.a(z)
        b = self.b(z) * self.b_gate(z).sigmoid_()
        b *= mask
        if self.outgoing:
            x = torch.einsum("ikc,jkc->ijc", a, b)
        else:
            x = torch.einsum("kic,kjc->ijc", a, b)
        x = x / x.detach().std().clamp(min=1.0)
        return self.out(self.norm_out(x)) * torch.sigmoid(self.gate(z))


class TriangleAttention(nn.Module):
    def __init__(self, dim: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.inf = heads, 1e9
        self.norm, self.qkv = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim, bias=False)
        self.bias, self.gate, self.out = (
            nn.Linear(dim, heads, bias=False),
            nn.Linear(dim, dim),
            nn.Linear(dim, dim),
        )

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        n, d = z.size(0), z.size(-1)
        z = self.norm(z)
        q, k, v = [t.view(n, n, self.heads, -1).transpose(1, 2) for t in self.qkv(z).chunk(3, dim=-1)]
        q = q * (d // self.heads) ** -0.5
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores += (self.inf * (mask - 1))[None, None, None, :]
        scores += self.bias(z).permute(2, 0, 1).unsqueeze(0)
        scores = F.softmax(scores, dim=-1)
        o = torch.matmul(scores, v).transpose(1, 2).reshape(n, n, d)
        return self.out(o * self.gate(z).sigmoid())


def lddt(pred: Tensor, true: Tensor, mask: Tensor, cutoff: float = 6.0) -> Tensor:
    d_true = torch.sqrt((true[:, None] - true[None]).pow(2).sum(-1) + 1e-10)
    d_pred = torch.sqrt((pred[:, None] - pred[None]).pow(2).sum(-1) + 1e-10)
    score = (d_true < cutoff) * mask[:, None] * mask[None]
    score = score * (1.0 - torch.eye(true.size(0), device=true.device))
    error = (d_true - d_pred).abs()
    close = (
        (error < 0.5).type(error.dtype) + (error < 1.0).type(error.dtype) + (error < 2.0).type(error.dtype)
    )
    return ((0.25 * close * score).sum(-1) + 1e-10) / (score.sum(-1) + 1e-10)


class Evoformer(nn.Module):
    def __init__(self, msa: int = 6, dim: int = 4) -> None:
        super().__init__()
        self.left, self.right, self.opm = nn.Linear(msa, 3), nn.Linear(msa, 3), nn.Linear(9, dim)
        self.outgoing, self.incoming = Triangle(dim, True), Triangle(dim, False)
        self.attention, self.fc1, self.fc2 = TriangleAttention(dim), nn.Linear(dim, 8), nn.Linear(8, dim)
        self.relu, self.distogram, self.xyz = nn.ReLU(inplace=True), nn.Linear(dim, 5), nn.Linear(msa, 3)
        self.register_buffer("edges", torch.linspace(0.5, 4.0, 4) ** 2)

    def forward(
        self, m: Tensor, z: Tensor, mask: Tensor, true: Optional[Tensor]
    ) -> Tuple[Tensor, Tensor, Tensor]:
        pair = mask[:, None] * mask[None, :]
        left, right = self.left(m) * mask[None, :, None], self.right(m) * mask[None, :, None]
        outer = torch.einsum("sic,sjd->ijcd", left, right).flatten(2)
        outer = self.opm(outer) / (m.size(0) * pair.unsqueeze(-1) + 1e-3)
        z = z + outer
        z = z + self.outgoing(z, pair)
        z = z + self.incoming(z, pair)
        z = z + self.attention(z, mask)
        z = z + self.fc2(self.relu(self.fc1(z))) * pair.unsqueeze(-1)
        xyz = self.xyz(m[0])
        loss = torch.zeros((), device=z.device, dtype=z.dtype)
        quality = torch.zeros_like(mask)
        if true is not None:
            logits = self.distogram(z + z.transpose(0, 1))
            squared = (true[:, None] - true[None]).square().sum(-1, keepdim=True)
            bins = (squared > self.edges).sum(-1)
            errors = -(F.one_hot(bins, 5) * F.log_softmax(logits, dim=-1)).sum(-1)
            loss += (errors * pair).sum() / (1e-6 + pair.sum())
            error = torch.sqrt((xyz - true).pow(2).sum(-1) + 1e-4).clamp(max=10.0) / 10.0
            error *= mask
            loss += error.sum() / mask.sum().clamp_(min=1.0)
            quality = lddt(xyz.detach(), true, mask)
        return z, loss, quality


model = Evoformer()
inputs = (
    torch.randn(3, 5, 6),
    torch.randn(5, 5, 4),
    torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0]),
    torch.randn(5, 3),
)
