"""Tacotron 2's decoder steps: prenet, location-sensitive attention with masked energies."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def get_mask_from_lengths(lengths: Tensor, max_len: int) -> Tensor:
    ids = torch.arange(0, max_len, device=lengths.device)
    return ids < lengths.unsqueeze(1)


class LocationLayer(nn.Module):
    def __init__(self, filters: int, kernel: int, dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.dense = nn.Linear(filters, dim, bias=False)

    def forward(self, weights_cat: Tensor) -> Tensor:
        return self.dense(self.conv(weights_cat).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, rnn_dim: int, memory_dim: int, dim: int) -> None:
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)
        self.location_layer = LocationLayer(3, 3, dim)
        self.score_mask_value: float = -float("inf")

    def forward(
        self, hidden: Tensor, memory: Tensor, processed: Tensor, weights_cat: Tensor, mask: Optional[Tensor]
    ) -> tuple[Tensor, Tensor]:
        query = self.query_layer(hidden.unsqueeze(1))
        location = self.location_layer(weights_cat)
        energies = self.v(torch.tanh(query + location + processed)).squeeze(-1)
        if mask is not None:
            energies.masked_fill_(mask, self.score_mask_value)
        weights = F.softmax(energies, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class Decoder(nn.Module):
    def __init__(self, mels: int = 4, dim: int = 6) -> None:
        super().__init__()
        self.prenet = nn.ModuleList([nn.Linear(mels, dim, bias=False), nn.Linear(dim, dim, bias=False)])
        self.attention_rnn = nn.LSTMCell(2 * dim, dim)
        self.attention_layer = Attention(dim, dim, 5)
        self.linear_projection = nn.Linear(2 * dim, mels)
        self.gate_layer = nn.Linear(2 * dim, 1)

    def forward(
        self, memory: Tensor, targets: Tensor, memory_lengths: Tensor, mel_lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, dim = memory.size()
        hidden = torch.zeros(batch, dim, device=memory.device)
        cell = torch.zeros(batch, dim, device=memory.device)
        weights = torch.zeros(batch, length, device=memory.device)
        cumulative = torch.zeros(batch, length, device=memory.device)
        context = torch.zeros(batch, dim, device=memory.device)
        processed = self.attention_layer.memory_layer(memory)
        mask = ~get_mask_from_lengths(memory_lengths, length)
        x = torch.cat((torch.zeros_like(targets[:1]), targets[:-1]), dim=0)
        for linear in self.prenet:
            x = F.dropout(F.relu(linear(x)), p=0.5, training=False)
        mels: list[Tensor] = []
        gates: list[Tensor] = []
        for step in range(x.size(0)):
            hidden, cell = self.attention_rnn(torch.cat((x[step], context), -1), (hidden, cell))
            hidden = F.dropout(hidden, 0.1, False)
            weights_cat = torch.cat((weights.unsqueeze(1), cumulative.unsqueeze(1)), dim=1)
            context, weights = self.attention_layer(hidden, memory, processed, weights_cat, mask)
            cumulative = cumulative + weights
            out = torch.cat((hidden, context), dim=1)
            mels.append(self.linear_projection(out))
            gates.append(self.gate_layer(out).squeeze(1))
        mel = torch.stack(mels).transpose(0, 1)
        gate = torch.stack(gates).transpose(0, 1).contiguous()
        pad = ~get_mask_from_lengths(mel_lengths, mel.size(1))
        mel = mel.masked_fill(pad.unsqueeze(-1), 0.0)
        gate.masked_fill_(pad, 1e3)
        wanted = targets.transpose(0, 1) * (~pad).unsqueeze(-1).float()
        loss = F.mse_loss(mel, wanted) + F.binary_cross_entropy_with_logits(gate, pad.float())
        return mel, gate, loss


model = Decoder()
inputs = (torch.randn(2, 5, 6), torch.randn(3, 2, 4), torch.tensor([5, 3]), torch.tensor([3, 2]))
