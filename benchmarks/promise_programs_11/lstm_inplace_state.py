"""A projected LSTM with peepholes by hand, its cell changed in place, gradient checks by clamp."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LSTMPCell(nn.Module):
    def __init__(self, inputs: int, hidden: int, proj: int, clip: float = 3.0) -> None:
        super().__init__()
        self.ih = nn.Linear(inputs, 4 * hidden)
        self.hh = nn.Linear(proj, 4 * hidden, bias=False)
        self.wci = nn.Parameter(torch.randn(hidden) * 0.1)
        self.wcf = nn.Parameter(torch.randn(hidden) * 0.1)
        self.wco = nn.Parameter(torch.randn(hidden) * 0.1)
        self.proj = nn.Linear(hidden, proj, bias=False)
        self.clip = clip

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        gates = self.ih(x)
        gates += self.hh(h)
        i, f, g, o = gates.chunk(4, 1)
        i = torch.sigmoid(i + self.wci * c)
        f = torch.sigmoid(f + self.wcf * c + 1.0)
        new = f * c
        new += i * torch.tanh(g)
        new.clamp_(-self.clip, self.clip)
        o = torch.sigmoid(o + self.wco * new)
        h = self.proj(o * torch.tanh(new))
        return h, new


class Model(nn.Module):
    def __init__(self, inputs: int = 3, hidden: int = 5, proj: int = 4) -> None:
        super().__init__()
        self.cell = LSTMPCell(inputs, hidden, proj)
        self.proj_size, self.hidden = proj, hidden
        self.out = nn.Linear(proj, 2)
        self.scale = nn.Parameter(torch.ones(proj))

    def forward(
        self, x: Tensor, lengths: Tensor, state: Optional[tuple[Tensor, Tensor]] = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch = x.size(1)
        if state is None:
            state = (
                torch.zeros(batch, self.proj_size, device=x.device),
                torch.zeros(batch, self.hidden, device=x.device),
            )
        h, c = state
        outputs: list[Tensor] = []
        for t in range(x.size(0)):
            new_h, new_c = self.cell(x[t], (h, c))
            alive = (lengths > t).unsqueeze(1).float()
            h = alive * new_h + (1 - alive) * h
            c = alive * new_c + (1 - alive) * c
            y = h.mul(self.scale)
            y *= alive
            outputs.append(y)
        stacked = torch.stack(outputs)
        stacked = F.layer_norm(stacked, [self.proj_size])
        logits = self.out(stacked)
        logits.masked_fill_((torch.arange(x.size(0), device=x.device)[:, None] >= lengths)[..., None], 0.0)
        return logits, (h, c)


model = Model()
inputs = (torch.randn(4, 2, 3), torch.tensor([4, 2]))
