"""timm's vision transformer block: drop path, layer scale, query and key norms, registers."""

from typing import Final, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def drop_path(
    x: Tensor, drop_prob: float = 0.0, training: bool = False, scale_by_keep: bool = True
) -> Tensor:
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = [x.shape[0]] + [1] * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob: float = 0.0) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        return drop_path(x, self.drop_prob, self.training)


class LayerScale(nn.Module):
    def __init__(self, dim: int, init_values: float = 1e-5, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(self.gamma) if self.inplace else x * self.gamma


class RmsNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        v = x.pow(2)
        v = torch.mean(v, dim=-1, keepdim=True)
        x = x * torch.rsqrt(v + self.eps)
        return x.to(self.weight.dtype) * self.weight


class Attention(nn.Module):
    fused_attn: Final[bool]

    def __init__(self, dim: int, heads: int = 2) -> None:
        super().__init__()
        self.num_heads, self.head_dim = heads, dim // heads
        self.scale = self.head_dim**-0.5
        self.fused_attn = False
        self.qkv = nn.Linear(dim, dim * 3)
        self.q_norm, self.k_norm = RmsNorm(self.head_dim), RmsNorm(self.head_dim)
        self.attn_drop = nn.Dropout(0.0)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, attn_mask: Optional[Tensor] = None) -> Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            q = q * self.scale
            attn = q @ k.transpose(-2, -1)
            if attn_mask is not None:
                attn = attn + attn_mask
            attn = attn.softmax(dim=-1)
            attn = self.attn_drop(attn)
            x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.Hardswish(inplace=True)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim: int, path: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim)
        self.ls1, self.ls2 = LayerScale(dim, 0.1), LayerScale(dim, 0.1, inplace=True)
        self.drop_path1, self.drop_path2 = DropPath(path), DropPath(path)
        self.mlp = Mlp(dim, 2 * dim)

    def forward(self, x: Tensor, attn_mask: Optional[Tensor] = None) -> Tensor:
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x), attn_mask)))
        return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 4, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, p) for p in (0.0, 0.2)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 5)

    def forward(self, x: Tensor, attn_mask: Optional[Tensor] = None) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.pos_embed
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        for block in self.blocks:
            x = block(x, attn_mask)
        x = self.norm(x)
        pooled = x[:, 1:].mean(dim=1)
        pooled += x[:, 0]
        return self.head(pooled)


model = VisionTransformer()
inputs = (torch.randn(2, 3, 8, 8),)
