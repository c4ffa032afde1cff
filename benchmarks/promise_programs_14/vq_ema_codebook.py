"""Vector quantisation with a codebook that moves by averages: dead codes, Laplace smoothing, perplexity."""

from typing import Dict

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Codebook(nn.Module):
    def __init__(self, codes: int = 12, dim: int = 4, decay: float = 0.9) -> None:
        super().__init__()
        self.codes, self.dim, self.decay, self.epsilon = codes, dim, decay, 1e-5
        weight = torch.randn(codes, dim)
        self.register_buffer("weight", weight)
        self.register_buffer("cluster_size", torch.ones(codes))
        self.register_buffer("average", weight.clone())
        self.register_buffer("idle", torch.zeros(codes))

    def distances(self, flat: Tensor) -> Tensor:
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.weight.t()
        d += self.weight.pow(2).sum(1)
        return d

    def move(self, flat: Tensor, onehot: Tensor) -> None:
        counts = onehot.sum(0)
        self.cluster_size.mul_(self.decay).add_(counts, alpha=1 - self.decay)
        self.average.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        n = self.cluster_size.sum()
        size = (self.cluster_size + self.epsilon) / (n + self.codes * self.epsilon) * n
        self.weight.copy_(self.average / size.unsqueeze(1))
        self.idle += 1.0
        self.idle[counts > 0] = 0.0
        dead = self.idle > 3
        replaced = torch.where(dead.unsqueeze(1), flat[: self.codes], self.weight)
        self.weight.copy_(replaced)

    def forward(self, z: Tensor) -> Dict[str, Tensor]:
        flat = z.permute(0, 2, 3, 1).reshape(-1, self.dim)
        ids = self.distances(flat).argmin(1)
        onehot = F.one_hot(ids, self.codes).type(flat.dtype)
        quantised = F.embedding(ids, self.weight).view(z.size(0), z.size(2), z.size(3), self.dim)
        quantised = quantised.permute(0, 3, 1, 2).contiguous()
        commit = F.mse_loss(z, quantised.detach())
        if self.training:
            with torch.no_grad():
                self.move(flat.detach(), onehot)
        quantised = z + (quantised - z).detach()
        probs = onehot.mean(0)
        perplexity = torch.exp(-(probs * torch.log(probs + 1e-10)).sum())
        return {"quantised": quantised, "commit": commit, "perplexity": perplexity}


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 1))
        self.codebook = Codebook()
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
        self.decoder = nn.ConvTranspose2d(4, 3, 4, 2, 1)

    def forward(self, x: Tensor, beta: float) -> Dict[str, Tensor]:
        out = self.codebook(self.encoder(x))
        h = out["quantised"]
        r = F.relu(h)
        r = F.relu(self.first(r), inplace=True)
        h = h + self.second(r)
        image = torch.tanh_(self.decoder(F.relu_(h)))
        error = (image - x).abs()
        weight = torch.ones_like(error)
        weight[error > 1.0] = 0.5
        loss = (error * weight).mean() + beta * out["commit"]
        return {"image": image, "loss": loss, "perplexity": out["perplexity"]}


model = Autoencoder()
inputs = (torch.rand(2, 3, 8, 8) * 2 - 1, 0.25)
