"""A coupling layer of VITS: WaveNet with a fused gate, masks by length, an affine step."""

import torch
from torch import Tensor, nn


@torch.jit.script
def fused_add_tanh_sigmoid_multiply(input_a: Tensor, input_b: Tensor, n_channels: int) -> Tensor:
    in_act = input_a + input_b
    t_act = torch.tanh(in_act[:, :n_channels, :])
    s_act = torch.sigmoid(in_act[:, n_channels:, :])
    return t_act * s_act


def sequence_mask(length: Tensor, max_length: int) -> Tensor:
    x = torch.arange(max_length, dtype=length.dtype, device=length.device)
    return x.unsqueeze(0) < length.unsqueeze(1)


class Coupling(nn.Module):
    def __init__(self, channels: int = 8, hidden: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.half, self.hidden = channels // 2, hidden
        self.pre = nn.Conv1d(self.half, hidden, 1)
        self.in_layers = nn.ModuleList([nn.Conv1d(hidden, 2 * hidden, 3, padding=1) for _ in range(layers)])
        self.skips = nn.ModuleList([nn.Conv1d(hidden, 2 * hidden, 1) for _ in range(layers)])
        self.cond = nn.Conv1d(4, 2 * hidden, 1)
        self.post = nn.Conv1d(hidden, 2 * self.half, 1)

    def forward(self, x: Tensor, lengths: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        x_mask = torch.unsqueeze(sequence_mask(lengths, x.size(2)), 1).to(x.dtype)
        x0, x1 = torch.split(x, [self.half, self.half], 1)
        h = self.pre(x0) * x_mask
        output = torch.zeros_like(h)
        cond = self.cond(g)
        for in_layer, skip in zip(self.in_layers, self.skips):
            acts = fused_add_tanh_sigmoid_multiply(in_layer(h), cond, self.hidden)
            res_skip = skip(acts)
            h = (h + res_skip[:, : self.hidden, :]) * x_mask
            output += res_skip[:, self.hidden :, :]
        stats = self.post(output * x_mask) * x_mask
        m, logs = torch.split(stats, [self.half, self.half], 1)
        x1 = m + x1 * torch.exp(logs) * x_mask
        logdet = torch.sum(logs, [1, 2])
        return torch.cat([x0, x1], 1), logdet


model = Coupling()
inputs = (torch.randn(2, 8, 6), torch.tensor([6, 4]), torch.randn(2, 4, 1))
