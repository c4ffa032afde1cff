"""A masked autoencoder: patches, random masking by a score, a small decoder, the loss of hidden patches."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MaskedAutoencoder(nn.Module):
    def __init__(self, patch: int = 2, dim: int = 8, norm_pixels: bool = True) -> None:
        super().__init__()
        self.patch, self.norm_pixels = patch, norm_pixels
        self.embed = nn.Linear(patch * patch * 3, dim)
        self.position = nn.Parameter(torch.randn(1, 16, dim) * 0.02)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.encoder = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )
        self.gamma = nn.Parameter(torch.full((dim,), 1e-1))
        self.decode = nn.Linear(dim, patch * patch * 3)

    def patches(self, images: Tensor) -> Tensor:
        n, c, h, w = images.shape
        p = self.patch
        x = images.reshape(n, c, h // p, p, w // p, p)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(n, (h // p) * (w // p), p * p * c)

    def forward(self, images: Tensor, noise: Tensor, keep: int) -> tuple[Tensor, Tensor]:
        mean = torch.tensor([0.48, 0.45, 0.4], device=images.device).view(1, 3, 1, 1)
        std = torch.tensor([0.22, 0.22, 0.23], device=images.device).view(1, 3, 1, 1)
        images = (images - mean).div_(std)
        target = self.patches(images)
        x = self.embed(target)
        x += self.position
        n, length, dim = x.shape
        order = noise.argsort(dim=1)
        restore = order.argsort(dim=1)
        kept = torch.gather(x, 1, order[:, :keep].unsqueeze(-1).expand(-1, -1, dim))
        mask = torch.ones(n, length, device=x.device)
        mask[:, :keep] = 0.0
        mask = torch.gather(mask, 1, restore)
        kept = kept + self.gamma * self.encoder(kept)
        tokens = self.mask_token.expand(n, length - keep, dim)
        full = torch.cat([kept, tokens], 1)
        full = torch.gather(full, 1, restore.unsqueeze(-1).expand(-1, -1, dim))
        full = full + self.position
        prediction = self.decode(F.layer_norm(full, [dim]))
        if self.norm_pixels:
            center = target.mean(dim=-1, keepdim=True)
            var = target.var(dim=-1, keepdim=True)
            var += 1e-6
            target = (target - center) / var.sqrt()
        loss = (prediction - target).pow_(2)
        loss = loss.mean(dim=-1)
        loss *= mask
        return loss.sum() / mask.sum(), prediction


model = MaskedAutoencoder()
inputs = (torch.rand(2, 3, 8, 8), torch.rand(2, 16), 6)
