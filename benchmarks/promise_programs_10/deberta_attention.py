"""DeBERTa v2's disentangled self-attention: log buckets of positions, content to position and back."""

import math
from typing import Optional

import torch
from torch import Tensor, nn


def make_log_bucket_position(relative_pos: Tensor, bucket_size: int, max_position: int) -> Tensor:
    sign = torch.sign(relative_pos)
    mid = bucket_size // 2
    abs_pos = torch.where(
        (relative_pos < mid) & (relative_pos > -mid),
        torch.tensor(mid - 1, device=relative_pos.device).type_as(relative_pos),
        torch.abs(relative_pos),
    )
    log_pos = torch.ceil(torch.log(abs_pos / mid) / math.log((max_position - 1) / mid) * (mid - 1)) + mid
    return torch.where(abs_pos <= mid, relative_pos.type_as(log_pos), log_pos * sign)


def build_relative_position(query: Tensor, key: Tensor, bucket_size: int, max_position: int) -> Tensor:
    q_ids = torch.arange(query.size(-2), dtype=torch.long, device=query.device)
    k_ids = torch.arange(key.size(-2), dtype=torch.long, device=key.device)
    rel = q_ids[:, None] - k_ids[None, :]
    if bucket_size > 0 and max_position > 0:
        rel = make_log_bucket_position(rel, bucket_size, max_position)
    return rel.to(torch.long)[: query.size(-2), :].unsqueeze(0)


def scaled_size_sqrt(query: Tensor, scale_factor: int) -> Tensor:
    return torch.sqrt(torch.tensor(query.size(-1), dtype=torch.float, device=query.device) * scale_factor)


class DisentangledSelfAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, buckets: int = 4, max_position: int = 16) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.buckets, self.max_position = buckets, max_position
        self.rel_embeddings = nn.Embedding(2 * buckets, dim)
        self.pos_dropout = nn.Dropout(0.0)
        self.dropout = nn.Dropout(0.0)
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-7)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), x.size(1), self.heads, -1)
        return x.permute(0, 2, 1, 3).contiguous().view(-1, x.size(1), x.size(-1))

    def disentangled_bias(
        self, query: Tensor, key: Tensor, relative_pos: Tensor, scale_factor: int
    ) -> Tensor:
        span = self.buckets
        rel = self.pos_dropout(self.rel_embeddings.weight).unsqueeze(0)
        batch = query.size(0) // self.heads
        pos_query = self.transpose_for_scores(self.query_proj(rel)).repeat(batch, 1, 1)
        pos_key = self.transpose_for_scores(self.key_proj(rel)).repeat(batch, 1, 1)
        score = torch.zeros(1, device=query.device)
        scale = scaled_size_sqrt(pos_key, scale_factor)
        c2p = torch.bmm(query, pos_key.transpose(-1, -2))
        c2p_pos = torch.clamp(relative_pos + span, 0, span * 2 - 1)
        c2p = torch.gather(
            c2p, dim=-1, index=c2p_pos.expand(query.size(0), query.size(1), relative_pos.size(-1))
        )
        score = score + c2p / scale.to(dtype=c2p.dtype)
        p2c = torch.bmm(key, pos_query.transpose(-1, -2))
        p2c_pos = torch.clamp(-relative_pos + span, 0, span * 2 - 1)
        p2c = torch.gather(p2c, dim=-1, index=p2c_pos.expand(query.size(0), key.size(1), key.size(1)))
        score += p2c.transpose(-1, -2) / scale.to(dtype=p2c.dtype)
        return score

    def forward(
        self,
        hidden: Tensor,
        attention_mask: Tensor,
        relative_pos: Optional[Tensor] = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Optional[Tensor]]:
        extended = attention_mask.unsqueeze(1).unsqueeze(2)
        mask = extended * extended.squeeze(-2).unsqueeze(-1)
        query = self.transpose_for_scores(self.query_proj(hidden))
        key = self.transpose_for_scores(self.key_proj(hidden))
        value = self.transpose_for_scores(self.value_proj(hidden))
        scale_factor = 3
        scale = scaled_size_sqrt(query, scale_factor)
        scores = torch.bmm(query, key.transpose(-1, -2) / scale.to(dtype=query.dtype))
        if relative_pos is None:
            relative_pos = build_relative_position(query, key, self.buckets, self.max_position)
        scores = scores + self.disentangled_bias(query, key, relative_pos, scale_factor)
        scores = scores.view(-1, self.heads, scores.size(-2), scores.size(-1))
        keep = mask.to(torch.bool)
        scores = scores.masked_fill(~keep, -3.4028234663852886e38)
        probs = torch.softmax(scores, -1)
        probs = probs.masked_fill(~keep, 0.0)
        probs = self.dropout(probs)
        context = torch.bmm(probs.view(-1, probs.size(-2), probs.size(-1)), value)
        context = (
            context.view(-1, self.heads, context.size(-2), context.size(-1)).permute(0, 2, 1, 3).contiguous()
        )
        context = context.view(context.size(0), context.size(1), -1)
        out = self.norm(self.dense(context) + hidden)
        out = out * attention_mask.unsqueeze(2).to(out.dtype)
        if output_attentions:
            return out, probs
        return out, None


model = DisentangledSelfAttention()
inputs = (torch.randn(2, 5, 8), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]))
