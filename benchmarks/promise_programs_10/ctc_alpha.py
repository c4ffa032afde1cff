"""CTC by hand and an RNN-T joint network: the forward variables of a batch in log space, greedy decoding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def shifted(x: Tensor, by: int, fill: float) -> Tensor:
    pad = torch.full((x.size(0), by), fill, dtype=x.dtype, device=x.device)
    return torch.cat((pad, x[:, :-by]), dim=1)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    steps, batch, _ = log_probs.shape
    extended = torch.full((batch, 2 * targets.size(1) + 1), blank, dtype=torch.long, device=targets.device)
    extended[:, 1::2] = targets
    neg = -1e5
    same = torch.zeros_like(extended, dtype=torch.bool)
    same[:, 2:] = extended[:, 2:] == extended[:, :-2]
    can_skip = (extended != blank) & ~same
    emit = log_probs.gather(2, extended.unsqueeze(0).expand(steps, -1, -1))
    alpha = torch.full_like(emit[0], neg)
    alpha[:, 0] = emit[0, :, 0]
    alpha[:, 1] = emit[0, :, 1]
    for t in range(1, steps):
        one = shifted(alpha, 1, neg)
        two = shifted(alpha, 2, neg).masked_fill(~can_skip, neg)
        top = torch.max(torch.max(alpha, one), two)
        total = torch.exp(alpha - top) + torch.exp(one - top) + torch.exp(two - top)
        new = top + torch.log(total) + emit[t]
        alive = (t < input_lengths).unsqueeze(1)
        alpha = torch.where(alive, new, alpha)
    last = (2 * target_lengths).unsqueeze(1)
    a = alpha.gather(1, last).squeeze(1)
    b = alpha.gather(1, last - 1).squeeze(1)
    loss = -torch.logaddexp(a, b)
    loss /= target_lengths.clamp(min=1)
    loss[loss > 1e4] = 0.0
    return loss


class JointNet(nn.Module):
    def __init__(self, encoder: int = 6, predictor: int = 4, dim: int = 8, vocab: int = 5) -> None:
        super().__init__()
        self.lin_enc = nn.Linear(encoder, dim)
        self.lin_dec = nn.Linear(predictor, dim, bias=False)
        self.lin_out = nn.Linear(dim, vocab)
        self.ctc = nn.Linear(encoder, vocab)

    def forward(
        self, enc: Tensor, dec: Tensor, targets: Tensor, enc_lengths: Tensor, target_lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        joint = self.lin_enc(enc).unsqueeze(2) + self.lin_dec(dec).unsqueeze(1)
        joint = torch.tanh_(joint)
        logits = self.lin_out(joint)
        ids = torch.arange(enc.size(1), device=enc.device)
        pad = ids[None, :] >= enc_lengths[:, None]
        logits = logits.masked_fill(pad[:, :, None, None], 0.0)
        log_probs = F.log_softmax(self.ctc(enc), dim=-1).transpose(0, 1)
        loss = ctc_loss(log_probs, targets, enc_lengths, target_lengths, 0).mean()
        smooth = -log_probs.mean(dim=-1).transpose(0, 1)
        smooth = smooth * (~pad).to(smooth.dtype)
        loss = 0.9 * loss + 0.1 * smooth.sum() / (~pad).sum()
        best = log_probs.argmax(dim=-1).transpose(0, 1)
        changed = torch.ones_like(best, dtype=torch.bool)
        changed[:, 1:] = best[:, 1:] != best[:, :-1]
        emitted = changed & (best != 0) & ~pad
        return logits, loss, emitted.sum(dim=1)


model = JointNet()
inputs = (
    torch.randn(2, 6, 6),
    torch.randn(2, 3, 4),
    torch.tensor([[1, 2, 2], [3, 1, 4]]),
    torch.tensor([6, 5]),
    torch.tensor([3, 2]),
)
