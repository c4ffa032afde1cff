"""A camera's image pipeline: black level, white balance, demosaicing, denoising, a tone curve, colours."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Pipeline(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.tensor([1.8, 1.0, 1.5]))
        self.matrix = nn.Parameter(torch.eye(3) + 0.05 * torch.randn(3, 3))
        self.gamma = nn.Parameter(torch.tensor(2.2))
        self.strength = nn.Parameter(torch.tensor(0.5))
        kernel = torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16
        self.register_buffer("kernel", kernel.expand(3, 1, 3, 3).contiguous())

    def demosaic(self, raw: Tensor) -> Tensor:
        r = raw[:, :, 0::2, 0::2]
        g = (raw[:, :, 0::2, 1::2] + raw[:, :, 1::2, 0::2]) * 0.5
        b = raw[:, :, 1::2, 1::2]
        return torch.cat([r, g, b], 1)

    def blurred(self, image: Tensor) -> Tensor:
        return F.conv2d(F.pad(image, [1, 1, 1, 1], mode="replicate"), self.kernel, groups=3)

    def forward(self, raw: Tensor, night: bool = False) -> Tensor:
        x = raw - 0.05
        x /= 1.0 - 0.05
        x = x.clamp_(min=0)
        image = self.demosaic(x)
        image = image * self.gains.view(1, 3, 1, 1)
        clipped = image.amax(1, keepdim=True) > 1.2
        mean = image.mean(1, keepdim=True)
        image = torch.where(clipped, mean, image)
        smooth = self.blurred(image)
        edge = (image - smooth).abs()
        alpha = torch.exp(-edge * 8.0)
        image = alpha * smooth + (1 - alpha) * image
        image = torch.einsum("nchw,dc->ndhw", image, self.matrix)
        image.clamp_(1e-4, 1.0)
        if night:
            image = image * (1.5 / (0.5 + image))
        toned = image ** (1 / self.gamma)
        toned = toned * toned * (3 - 2 * toned)
        detail = toned - self.blurred(toned)
        detail *= self.strength
        toned = toned + detail.clamp(-0.1, 0.1)
        y = 0.299 * toned[:, 0] + 0.587 * toned[:, 1] + 0.114 * toned[:, 2]
        cb = (toned[:, 2] - y) * 0.564
        cr = (toned[:, 0] - y) * 0.713
        low = y < 0.1
        cb = cb.masked_fill(low, 0.0)
        cr = cr.masked_fill(low, 0.0)
        out = torch.stack([y, cb, cr], 1)
        out[:, 1:] += 0.5
        return out.clamp(0, 1)


model = Pipeline()
inputs = (torch.rand(1, 1, 12, 12),)
