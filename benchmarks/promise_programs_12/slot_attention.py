"""Slot attention: slots compete for inputs, a GRU and a residual MLP update them, a decoder mixes."""

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SlotAttention(nn.Module):
    iters: Final[int]
    eps: Final[float]

    def __init__(self, num_slots: int = 3, dim: int = 8, iters: int = 2, hidden: int = 16) -> None:
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, 1e-8
        self.scale = dim**-0.5
        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_logsigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))
        self.norm_input, self.norm_slots, self.norm_pre_ff = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, inputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        b, n, d = inputs.shape
        mu = self.slots_mu.expand(b, self.num_slots, -1)
        sigma = self.slots_logsigma.exp().expand(b, self.num_slots, -1)
        slots = mu + sigma * noise
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        attn = torch.zeros(b, self.num_slots, n, device=inputs.device)
        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k)
            dots *= self.scale
            attn = dots.softmax(dim=1) + self.eps
            weights = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, weights)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d))
            slots = slots.reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots, attn


class SlotAutoEncoder(nn.Module):
    def __init__(self, dim: int = 8, side: int = 4) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(3, dim, 3, padding=1)
        self.slots = SlotAttention(dim=dim)
        self.decoder = nn.ConvTranspose2d(dim, 4, 3, padding=1)
        self.position = nn.Linear(4, dim)
        ramp = torch.linspace(0.0, 1.0, side)
        y, x = torch.meshgrid(ramp, ramp, indexing="ij")
        grid = torch.stack((y, x), dim=-1)
        self.register_buffer("grid", torch.cat((grid, 1.0 - grid), dim=-1))
        self.side = side

    def forward(self, image: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        h = F.relu(self.encoder(image), inplace=True).permute(0, 2, 3, 1)
        h = h + self.position(self.grid)
        slots, _ = self.slots(h.flatten(1, 2), noise)
        b, s, d = slots.shape
        grid = slots.reshape(b * s, 1, 1, d).repeat(1, self.side, self.side, 1)
        grid = grid + self.position(self.grid)
        out = self.decoder(grid.permute(0, 3, 1, 2)).view(b, s, 4, self.side, self.side)
        colours, masks = out.split([3, 1], dim=2)
        masks = masks.softmax(dim=1)
        recon = torch.sum(colours * masks, dim=1)
        loss = (recon - image).square().mean()
        return recon, loss


model = SlotAutoEncoder()
inputs = (torch.rand(2, 3, 4, 4), torch.randn(2, 3, 8))
