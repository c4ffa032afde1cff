"""A neural Turing machine's memory: content addressing, interpolation, circular shift, sharpening."""

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Head(nn.Module):
    def __init__(self, controller: int, width: int, write: bool) -> None:
        super().__init__()
        self.k = nn.Linear(controller, width)
        self.beta = nn.Linear(controller, 1)
        self.g = nn.Linear(controller, 1)
        self.s = nn.Linear(controller, 3)
        self.gamma = nn.Linear(controller, 1)
        self.erase = nn.Linear(controller, width) if write else nn.Identity()
        self.add = nn.Linear(controller, width) if write else nn.Identity()

    def address(self, h: Tensor, memory: Tensor, w_prev: Tensor) -> Tensor:
        k = torch.tanh(self.k(h))
        beta = F.softplus(self.beta(h))
        g = torch.sigmoid(self.g(h))
        s = F.softmax(self.s(h), dim=1)
        gamma = 1 + F.softplus(self.gamma(h))
        similarity = F.cosine_similarity(memory + 1e-16, k.unsqueeze(1) + 1e-16, dim=-1)
        wc = F.softmax(beta * similarity, dim=1)
        wg = g * wc + (1 - g) * w_prev
        wide = torch.cat([wg[:, -1:], wg, wg[:, :1]], dim=1)
        shifted = s[:, :1] * wide[:, :-2] + s[:, 1:2] * wide[:, 1:-1] + s[:, 2:] * wide[:, 2:]
        w = shifted.clamp_(min=1e-8) ** gamma
        return w / (w.sum(dim=1, keepdim=True) + 1e-16)


class NTM(nn.Module):
    slots: Final[int]
    width: Final[int]

    def __init__(self, inputs: int = 3, controller: int = 6, slots: int = 5, width: int = 4) -> None:
        super().__init__()
        self.slots, self.width = slots, width
        self.cell = nn.GRUCell(inputs + width, controller)
        self.reader = Head(controller, width, False)
        self.writer = Head(controller, width, True)
        self.out = nn.Linear(controller + width, inputs)
        self.register_buffer("bias", torch.rand(slots, width) * 0.1)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch = x.size(1)
        memory = self.bias.unsqueeze(0).repeat(batch, 1, 1)
        h = x.new_zeros(batch, self.cell.hidden_size)
        read = x.new_zeros(batch, self.width)
        wr = F.one_hot(torch.zeros(batch, dtype=torch.long, device=x.device), self.slots).to(x.dtype)
        ww = wr.clone()
        outputs: list[Tensor] = []
        sparsity = torch.zeros([], device=x.device)
        for t in range(x.size(0)):
            h = self.cell(torch.cat((x[t], read), dim=1), h)
            ww = self.writer.address(h, memory, ww)
            e = torch.sigmoid(self.writer.erase(h))
            a = self.writer.add(h)
            memory = memory * (1 - ww.unsqueeze(-1) * e.unsqueeze(1)) + ww.unsqueeze(-1) * a.unsqueeze(1)
            wr = self.reader.address(h, memory, wr)
            read = torch.matmul(wr.unsqueeze(1), memory).view(batch, -1)
            sparsity += (wr * torch.log(wr + 1e-8)).sum(1).mean()
            outputs.append(torch.sigmoid(self.out(torch.cat((h, read), dim=1))))
        y = torch.stack(outputs)
        loss = F.binary_cross_entropy(y, (x > 0).float(), reduction="none")
        loss *= mask.unsqueeze(-1)
        loss = loss.sum() / mask.sum().clamp_(min=1)
        return y, loss - 0.01 * sparsity, memory


model = NTM()
inputs = (torch.randn(3, 2, 3), torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]))
