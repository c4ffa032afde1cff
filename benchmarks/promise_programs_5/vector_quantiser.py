"""A vector quantiser of VQ-VAE with a straight-through gradient, its losses and the perplexity."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VectorQuantizer(nn.Module):
    def __init__(self, codes: int = 10, dim: int = 4, beta: float = 0.25) -> None:
        super().__init__()
        self.embedding = nn.Embedding(codes, dim)
        self.embedding.weight.data.uniform_(-1.0 / codes, 1.0 / codes)
        self.codes = codes
        self.beta = beta

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = z.permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, z.size(3))
        d = (
            torch.sum(flat**2, dim=1, keepdim=True)
            + torch.sum(self.embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat, self.embedding.weight.t())
        )
        index = torch.argmin(d, dim=1)
        hot = F.one_hot(index, self.codes).type(flat.dtype)
        zq = torch.matmul(hot, self.embedding.weight).view(z.shape)
        loss = torch.mean((zq.detach() - z) ** 2) + self.beta * torch.mean((zq - z.detach()) ** 2)
        zq = z + (zq - z).detach()
        e_mean = torch.mean(hot, dim=0)
        perplexity = torch.exp(-torch.sum(e_mean * torch.log(e_mean + 1e-10)))
        return zq.permute(0, 3, 1, 2).contiguous(), loss, perplexity


model = VectorQuantizer()
inputs = (torch.randn(2, 4, 3, 3),)
