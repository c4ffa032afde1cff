"""Whisper's encoder: convolutions with GELU, positions, a layer whose output is clamped."""

from typing import Final, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class WhisperAttention(nn.Module):
    is_decoder: Final[bool]

    def __init__(self, dim: int, heads: int, is_decoder: bool = False) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.scaling = self.head_dim**-0.5
        self.is_decoder = is_decoder
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim)
        self.q_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.dropout: float = 0.0

    def _shape(self, x: Tensor, length: int, batch: int) -> Tensor:
        return x.view(batch, length, self.heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(
        self, hidden: Tensor, mask: Optional[Tensor] = None, head_mask: Optional[Tensor] = None
    ) -> tuple[Tensor, Tensor]:
        batch, length, _ = hidden.size()
        query = self._shape(self.q_proj(hidden) * self.scaling, length, batch)
        key = self._shape(self.k_proj(hidden), length, batch)
        value = self._shape(self.v_proj(hidden), length, batch)
        weights = torch.matmul(query, key.transpose(2, 3))
        if mask is not None:
            weights = weights + mask
        weights = F.softmax(weights, dim=-1)
        if head_mask is not None:
            weights = head_mask.view(1, -1, 1, 1) * weights
        probs = F.dropout(weights, p=self.dropout, training=self.training)
        out = torch.matmul(probs, value).transpose(1, 2).reshape(batch, length, -1)
        return self.out_proj(out), weights


class WhisperEncoderLayer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.self_attn = WhisperAttention(dim, heads)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)
        self.clamp_value: float = 60000.0

    def forward(self, hidden: Tensor, mask: Optional[Tensor], head_mask: Optional[Tensor]) -> Tensor:
        residual = hidden
        hidden = self.self_attn_layer_norm(hidden)
        hidden, _ = self.self_attn(hidden, mask, head_mask)
        hidden = F.dropout(hidden, p=0.0, training=self.training)
        hidden = residual + hidden
        residual = hidden
        hidden = self.final_layer_norm(hidden)
        hidden = F.gelu(self.fc1(hidden))
        hidden = self.fc2(hidden)
        hidden = residual + hidden
        if torch.isinf(hidden).any() or torch.isnan(hidden).any():
            hidden = torch.clamp(hidden, min=-self.clamp_value, max=self.clamp_value)
        return hidden


class WhisperEncoder(nn.Module):
    def __init__(self, mels: int = 4, dim: int = 8, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(mels, dim, 3, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(6, dim)
        self.layers = nn.ModuleList([WhisperEncoderLayer(dim, heads) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(dim)

    def forward(
        self, features: Tensor, keep_layer: Tensor, head_mask: Optional[Tensor] = None
    ) -> list[Tensor]:
        embeds = F.gelu(self.conv1(features))
        embeds = F.gelu(self.conv2(embeds))
        embeds = embeds.permute(0, 2, 1)
        hidden = embeds + self.embed_positions.weight
        states: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            states.append(hidden)
            out = layer(hidden, None, head_mask[i] if head_mask is not None else None)
            hidden = torch.where(keep_layer[i], out, hidden)
        states.append(self.layer_norm(hidden))
        return states


model = WhisperEncoder()
inputs = (torch.randn(2, 4, 12), torch.tensor([True, True]), torch.tensor([[1.0, 1.0], [1.0, 0.0]]))
