"""A neural audio codec: Snake activations, a residual unit, residual vector quantisation."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def snake(x: Tensor, alpha: Tensor) -> Tensor:
    shape = x.shape
    x = x.reshape(shape[0], shape[1], -1)
    x = x + (alpha + 1e-9).reciprocal() * torch.sin(alpha * x).pow(2)
    return x.reshape(shape)


class Snake1d(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return snake(x, self.alpha)


class ResidualUnit(nn.Module):
    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        pad = ((7 - 1) * dilation) // 2
        self.block = nn.Sequential(
            Snake1d(dim),
            nn.Conv1d(dim, dim, kernel_size=7, dilation=dilation, padding=pad),
            Snake1d(dim),
            nn.Conv1d(dim, dim, kernel_size=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.block(x)
        pad = (x.size(-1) - y.size(-1)) // 2
        if pad > 0:
            x = x[..., pad:-pad]
        return x + y


class VectorQuantize(nn.Module):
    def __init__(self, input_dim: int, codes: int, code_dim: int) -> None:
        super().__init__()
        self.in_proj = nn.Conv1d(input_dim, code_dim, kernel_size=1)
        self.out_proj = nn.Conv1d(code_dim, input_dim, kernel_size=1)
        self.codebook = nn.Embedding(codes, code_dim)

    def decode_latents(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        b, d, t = latents.shape
        encodings = latents.transpose(1, 2).reshape(b * t, d)
        codebook = self.codebook.weight
        encodings = F.normalize(encodings)
        codebook = F.normalize(codebook)
        dist = (
            encodings.pow(2).sum(1, keepdim=True)
            - 2 * encodings @ codebook.t()
            + codebook.pow(2).sum(1, keepdim=True).t()
        )
        indices = (-dist).max(1)[1].view(b, t)
        z_q = F.embedding(indices, self.codebook.weight).transpose(1, 2)
        return z_q, indices

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z_e = self.in_proj(z)
        z_q, _ = self.decode_latents(z_e)
        commitment_loss = F.mse_loss(z_e, z_q.detach(), reduction="none").mean([1, 2])
        codebook_loss = F.mse_loss(z_q, z_e.detach(), reduction="none").mean([1, 2])
        z_q = z_e + (z_q - z_e).detach()
        z_q = self.out_proj(z_q)
        return z_q, commitment_loss, codebook_loss


class Codec(nn.Module):
    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.encoder = ResidualUnit(dim, 1)
        self.quantizers = nn.ModuleList([VectorQuantize(dim, 8, 4) for _ in range(2)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(x)
        z_q = torch.zeros_like(z)
        residual = z
        losses: list[Tensor] = []
        for quantizer in self.quantizers:
            z_q_i, commitment, codebook = quantizer(residual)
            z_q = z_q + z_q_i
            residual = residual - z_q_i
            losses.append(0.25 * commitment + codebook)
        loss = torch.stack(losses, dim=0).mean()
        return torch.tanh(z_q), loss


model = Codec()
inputs = (torch.randn(2, 6, 16),)
