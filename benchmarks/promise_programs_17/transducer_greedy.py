"""A streaming transducer: chunks through an encoder with caches, a stateless predictor, a joiner, greedy search."""

from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DoubleSwish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x - 1.0)


class BasicNorm(nn.Module):
    def __init__(self, channel_dim: int = -1, eps: float = 0.25) -> None:
        super().__init__()
        self.channel_dim = channel_dim
        self.eps = nn.Parameter(torch.tensor(eps).log())

    def forward(self, x: Tensor) -> Tensor:
        scales = (torch.mean(x**2, dim=self.channel_dim, keepdim=True) + self.eps.exp()) ** -0.5
        return x * scales


class ConvModule(nn.Module):
    def __init__(self, channels: int, kernel: int = 3) -> None:
        super().__init__()
        self.lorder = kernel - 1
        self.pointwise1 = nn.Linear(channels, 2 * channels)
        self.depthwise = nn.Conv1d(channels, channels, kernel, groups=channels)
        self.pointwise2 = nn.Linear(channels, channels)
        self.activation = DoubleSwish()

    def forward(self, x: Tensor, cache: Tensor) -> Tuple[Tensor, Tensor]:
        x = F.glu(self.pointwise1(x), dim=-1).transpose(1, 2)
        x = torch.cat([cache, x], dim=2)
        new_cache = x[:, :, -self.lorder :]
        x = self.activation(self.depthwise(x)).transpose(1, 2)
        return self.pointwise2(x), new_cache


class Layer(nn.Module):
    def __init__(self, width: int, heads: int = 2, left: int = 4) -> None:
        super().__init__()
        self.heads, self.left = heads, left
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 2 * width), DoubleSwish(), nn.Linear(2 * width, width))
        self.conv = ConvModule(width)
        self.norm = BasicNorm()

    def attend(self, x: Tensor, cache_k: Tensor, cache_v: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        b, t, w = x.size()
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        k = torch.cat([cache_k, k], dim=1)
        v = torch.cat([cache_v, v], dim=1)
        cache_k, cache_v = k[:, -self.left :], v[:, -self.left :]
        d = w // self.heads
        q = q.reshape(b, t, self.heads, d).transpose(1, 2) * (float(d) ** -0.5)
        k = k.reshape(b, -1, self.heads, d).permute(0, 2, 3, 1)
        v = v.reshape(b, -1, self.heads, d).transpose(1, 2)
        scores = torch.matmul(q, k)
        scores = scores.masked_fill(mask, float("-inf"))
        attn = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
        out = torch.matmul(attn, v).transpose(1, 2).reshape(b, t, w)
        return self.out_proj(out), cache_k, cache_v

    def forward(
        self, x: Tensor, cache: Tuple[Tensor, Tensor, Tensor], mask: Tensor
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor, Tensor]]:
        cache_k, cache_v, cache_c = cache
        x = x + 0.5 * self.feed_forward(x)
        attended, cache_k, cache_v = self.attend(x, cache_k, cache_v, mask)
        x = x + attended
        convolved, cache_c = self.conv(x, cache_c)
        x = x + convolved
        return self.norm(x), (cache_k, cache_v, cache_c)


class Transducer(nn.Module):
    def __init__(
        self, mel: int = 6, width: int = 8, vocab: int = 7, layers: int = 2, chunk: int = 3, left: int = 4
    ) -> None:
        super().__init__()
        self.width, self.chunk, self.left, self.blank = width, chunk, left, 0
        self.embed = nn.Linear(mel, width)
        self.layers = nn.ModuleList([Layer(width, left=left) for _ in range(layers)])
        self.decoder_embed = nn.Embedding(vocab, width)
        self.decoder_conv = nn.Conv1d(width, width, 2, groups=width, bias=False)
        self.joiner_enc, self.joiner_dec = nn.Linear(width, width), nn.Linear(width, width)
        self.joiner_out, self.ctc = nn.Linear(width, vocab), nn.Linear(width, vocab)

    def predict(self, hypotheses: Tensor) -> Tensor:
        e = self.decoder_embed(hypotheses.clamp(min=0)) * (hypotheses >= 0).unsqueeze(2)
        return self.joiner_dec(F.relu(self.decoder_conv(e.permute(0, 2, 1)).permute(0, 2, 1)).squeeze(1))

    def encode(self, features: Tensor, lengths: Tensor) -> Tensor:
        b, t, _ = features.size()
        caches: List[Tuple[Tensor, Tensor, Tensor]] = []
        for _ in range(len(self.layers)):
            zeros = features.new_zeros(b, self.left, self.width)
            caches.append((zeros, zeros, features.new_zeros(b, self.width, 2)))
        outs: List[Tensor] = []
        for start in range(0, t, self.chunk):
            x = self.embed(features[:, start : start + self.chunk])
            positions = torch.arange(start - self.left, start + x.size(1), device=x.device)
            mask = (positions[None] < 0) | (positions[None] >= lengths[:, None])
            mask = mask[:, None, None, :]
            for i, layer in enumerate(self.layers):
                x, caches[i] = layer(x, caches[i], mask)
            outs.append(x)
        return torch.cat(outs, dim=1)

    def forward(self, features: Tensor, lengths: Tensor, targets: Tensor, context: Optional[Tensor] = None):
        mean = features.mean(dim=1, keepdim=True)
        features = (features - mean) / (features.std(dim=1, keepdim=True) + 1e-5)
        encoded = self.encode(features, lengths)
        b, t, _ = encoded.size()
        log_probs = F.log_softmax(self.ctc(encoded), dim=-1)
        picked = log_probs.gather(2, targets.unsqueeze(2)).squeeze(2)
        pad = torch.arange(t, device=encoded.device)[None] >= lengths[:, None]
        ctc = -picked.masked_fill(pad, 0.0).sum() / lengths.sum()
        enc = self.joiner_enc(encoded)
        hyps = torch.full([b, 2], -1, dtype=torch.long, device=encoded.device)
        hyps[:, -1] = self.blank
        if context is not None:
            hyps = context
        dec = self.predict(hyps)
        score = torch.zeros(b, device=encoded.device)
        tokens: List[Tensor] = []
        for i in range(t):
            logits = self.joiner_out(torch.tanh(enc[:, i] + dec))
            logits[:, self.blank] -= 0.5
            best, y = logits.log_softmax(-1).max(-1)
            alive = (i < lengths) & (y != self.blank)
            score = score + best * (i < lengths).to(best.dtype)
            hyps = torch.where(alive[:, None], torch.cat([hyps[:, 1:], y[:, None]], dim=1), hyps)
            if bool(alive.any()):
                dec = torch.where(alive[:, None], self.predict(hyps), dec)
            tokens.append(y.masked_fill(~alive, -1))
        return ctc, score, torch.stack(tokens, dim=1)


model = Transducer()
inputs = (torch.randn(3, 9, 6), torch.tensor([9, 7, 4]), torch.randint(1, 7, (3, 9)))
