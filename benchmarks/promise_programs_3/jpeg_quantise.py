"""Differentiable JPEG: colour conversion, blocks, a soft rounding and clipping back to an image."""

import torch
from torch import Tensor, nn


class SoftJpeg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n = torch.arange(4).float()
        basis = torch.cos((2 * n[None, :] + 1) * n[:, None] * torch.pi / 8) / 2**0.5
        basis[0] /= 2**0.5
        self.register_buffer("basis", basis)
        self.register_buffer("table", (1 + n[None, :] + n[:, None]) / 32)

    def forward(self, image: Tensor) -> Tensor:
        r, g, b = image.unbind(1)
        y = 0.299 * r + 0.587 * g + 0.114 * b
        cb = -0.169 * r - 0.331 * g + 0.5 * b + 0.5
        cr = 0.5 * r - 0.419 * g - 0.081 * b + 0.5
        planes = torch.stack([y, cb, cr], 1) - 0.5
        n, c, h, w = planes.shape
        blocks = planes.view(n, c, h // 4, 4, w // 4, 4).permute(0, 1, 2, 4, 3, 5)
        coded = self.basis @ blocks @ self.basis.t()
        scaled = coded / self.table
        rounded = torch.round(scaled)
        soft = rounded + (scaled - rounded) ** 3
        back = self.basis.t() @ (soft * self.table) @ self.basis
        planes = back.permute(0, 1, 2, 4, 3, 5).reshape(n, c, h, w) + 0.5
        y, cb, cr = planes[:, 0], planes[:, 1] - 0.5, planes[:, 2] - 0.5
        out = torch.stack([y + 1.402 * cr, y - 0.344 * cb - 0.714 * cr, y + 1.772 * cb], 1)
        return out.clamp_(0, 1)


model = SoftJpeg()
inputs = (torch.rand(1, 3, 8, 8, requires_grad=True),)
