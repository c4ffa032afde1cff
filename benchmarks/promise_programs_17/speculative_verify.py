"""Speculative decoding: a draft in a block, a static cache written in place, acceptance, residual sampling."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def precompute_freqs(dim: int, end: int, theta: float = 10000.0) -> Tuple[Tensor, Tensor]:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    t = torch.outer(torch.arange(end).float(), freqs)
    return t.cos(), t.sin()


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x[..., ::2], x[..., 1::2]
    o1 = x1 * cos - x2 * sin
    o2 = x2 * cos + x1 * sin
    return torch.stack([o1, o2], dim=-1).flatten(-2)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, longest: int, batch: int):
        super().__init__()
        self.n_heads, self.n_kv_heads = heads, kv_heads
        self.n_rep, self.head_dim = heads // kv_heads, dim // heads
        self.wq = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.softcap = 20.0
        self.register_buffer("cache_k", torch.zeros(batch, longest, kv_heads, self.head_dim), persistent=False)
        self.register_buffer("cache_v", torch.zeros(batch, longest, kv_heads, self.head_dim), persistent=False)

    def repeat_kv(self, x: Tensor) -> Tensor:
        bs, slen, n_kv, hd = x.shape
        if self.n_rep == 1:
            return x
        return x[:, :, :, None, :].expand(bs, slen, n_kv, self.n_rep, hd).reshape(bs, slen, n_kv * self.n_rep, hd)

    def forward(self, x: Tensor, start: int, cos: Tensor, sin: Tensor, mask: Optional[Tensor]) -> Tensor:
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq = apply_rotary(xq, cos, sin)
        xk = apply_rotary(xk, cos, sin)
        with torch.no_grad():
            self.cache_k[:bsz, start : start + seqlen] = xk
            self.cache_v[:bsz, start : start + seqlen] = xv
        keys = self.repeat_kv(torch.cat([self.cache_k[:bsz, :start], xk], dim=1)).transpose(1, 2)
        values = self.repeat_kv(torch.cat([self.cache_v[:bsz, :start], xv], dim=1)).transpose(1, 2)
        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / (self.head_dim**0.5)
        scores = self.softcap * torch.tanh(scores / self.softcap)
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, longest: int, batch: int):
        super().__init__()
        self.attention = Attention(dim, heads, kv_heads, longest, batch)
        self.w1, self.w3 = nn.Linear(dim, 16, bias=False), nn.Linear(dim, 16, bias=False)
        self.w2 = nn.Linear(16, dim, bias=False)
        self.attention_norm, self.ffn_norm = RMSNorm(dim), RMSNorm(dim)

    def forward(self, x: Tensor, start: int, cos: Tensor, sin: Tensor, mask: Optional[Tensor]) -> Tensor:
        h = x + self.attention(self.attention_norm(x), start, cos, sin, mask)
        y = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Verifier(nn.Module):
    def __init__(self, vocab: int = 20, dim: int = 8, longest: int = 16, batch: int = 2, temperature: float = 0.7):
        super().__init__()
        self.temperature, self.vocab = temperature, vocab
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Block(dim, 4, 2, longest, batch) for _ in range(2)])
        self.norm, self.output = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        cos, sin = precompute_freqs(dim // 4, longest)
        self.register_buffer("cos", cos[:, None, :])
        self.register_buffer("sin", sin[:, None, :])

    def run(self, tokens: Tensor, start: int) -> Tensor:
        n = tokens.size(1)
        h = self.tok_embeddings(tokens)
        mask: Optional[Tensor] = None
        if n > 1:
            m = torch.full((n, n), float("-inf"), device=tokens.device)
            m = torch.triu(m, diagonal=1)
            mask = torch.hstack([torch.zeros((n, start), device=tokens.device), m]).type_as(h)
        cos, sin = self.cos[start : start + n], self.sin[start : start + n]
        for layer in self.layers:
            h = layer(h, start, cos, sin, mask)
        return self.output(self.norm(h)).float()

    def forward(self, prompt: Tensor, draft: Tensor, draft_probs: Tensor, u: Tensor):
        first = self.run(prompt, 0)[:, -1:]
        logits = torch.cat([first, self.run(draft, prompt.size(1))], dim=1)
        logits /= self.temperature
        probs = torch.softmax(logits, dim=-1)
        p = probs[:, :-1].gather(2, draft.unsqueeze(-1)).squeeze(-1)
        q = draft_probs.gather(2, draft.unsqueeze(-1)).squeeze(-1)
        ratio = torch.minimum(p / (q + 1e-9), torch.ones_like(p))
        accept = u < ratio
        run_length = accept.long().cumprod(dim=1).sum(dim=1)
        residual = (probs[:, :-1] - draft_probs).clamp_(min=0)
        residual = residual / residual.sum(-1, keepdim=True).clamp(min=1e-9)
        table = torch.cat([residual, probs[:, -1:]], dim=1)
        index = run_length.view(-1, 1, 1).expand(-1, 1, self.vocab)
        final = table.gather(1, index).squeeze(1)
        noise = -torch.log(-torch.log(torch.linspace(0.05, 0.95, self.vocab, device=u.device)))
        token = (final.log().clamp(min=-30.0) + noise).argmax(-1)
        positions = torch.arange(draft.size(1), device=draft.device)
        kept = torch.where(positions[None] < run_length[:, None], draft, torch.full_like(draft, -1))
        log_p = torch.log(p.clamp(min=1e-9)) * (positions[None] < run_length[:, None]).to(p.dtype)
        length_penalty = ((5.0 + run_length.to(p.dtype)) / 6.0) ** 0.8
        score = log_p.sum(1) / length_penalty
        return kept, token, score, ratio.mean()


model = Verifier()
inputs = (
    torch.randint(0, 20, (2, 6)),
    torch.randint(0, 20, (2, 4)),
    torch.softmax(torch.randn(2, 4, 20), -1),
    torch.rand(2, 4),
)
