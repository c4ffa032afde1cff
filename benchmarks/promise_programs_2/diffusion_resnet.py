"""Two residual blocks of a latent diffusion U-Net: GroupNorm, SiLU, scale and shift by time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ResnetBlock(nn.Module):
    def __init__(self, cin: int, cout: int, temb: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(2, cin, eps=1e-6)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.time_emb_proj = nn.Linear(temb, 2 * cout)
        self.norm2 = nn.GroupNorm(2, cout, eps=1e-6)
        self.dropout = nn.Dropout(0.0)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.nonlinearity = nn.SiLU()
        self.conv_shortcut = nn.Conv2d(cin, cout, 1)

    def forward(self, input_tensor: Tensor, temb: Tensor) -> Tensor:
        hidden = self.nonlinearity(self.norm1(input_tensor))
        hidden = self.conv1(hidden)
        temb = self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None]
        scale, shift = torch.chunk(temb, 2, dim=1)
        hidden = self.norm2(hidden)
        hidden = hidden * (1 + scale) + shift
        hidden = self.nonlinearity(hidden)
        hidden = self.conv2(self.dropout(hidden))
        return (self.conv_shortcut(input_tensor) + hidden) / 1.0


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = ResnetBlock(4, 4, 6)
        self.b = ResnetBlock(4, 2, 6)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        x = self.a(x, t)
        return self.b(F.silu(x, inplace=True), t)


model = Net()
inputs = (torch.randn(1, 4, 5, 5), torch.randn(1, 6))
