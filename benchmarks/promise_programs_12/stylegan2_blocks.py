"""StyleGAN2: equalised layers, pixel norm, fused leaky ReLU, blurs, minibatch deviation, both losses."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def fused_leaky_relu(x: Tensor, bias: Tensor, negative_slope: float = 0.2, scale: float = 2**0.5) -> Tensor:
    shape = [1, -1] + [1] * (x.dim() - 2)
    return F.leaky_relu(x + bias.view(shape), negative_slope=negative_slope) * scale


class EqualLinear(nn.Module):
    def __init__(self, in_dim: int, out_dim: int, lr_mul: float = 0.1, activation: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_dim, in_dim).div_(lr_mul))
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.scale, self.lr_mul, self.activation = (1 / math.sqrt(in_dim)) * lr_mul, lr_mul, activation

    def forward(self, x: Tensor) -> Tensor:
        if self.activation:
            out = F.linear(x, self.weight * self.scale)
            return fused_leaky_relu(out, self.bias * self.lr_mul)
        return F.linear(x, self.weight * self.scale, self.bias * self.lr_mul)


class PixelNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-8)


class Blur(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        k = torch.tensor([1.0, 3.0, 3.0, 1.0])
        kernel = k[None, :] * k[:, None]
        kernel /= kernel.sum()
        self.register_buffer("kernel", kernel)

    def forward(self, x: Tensor) -> Tensor:
        c = x.shape[1]
        x = F.pad(x, [2, 1, 2, 1])
        return F.conv2d(x, self.kernel.flip([0, 1])[None, None].repeat(c, 1, 1, 1), groups=c)


class StyledConv(nn.Module):
    def __init__(self, channels: int, style: int, upsample: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.mod = EqualLinear(style, channels, 1.0)
        self.bias = nn.Parameter(torch.zeros(channels))
        self.noise = nn.Parameter(torch.full((1,), 0.1))
        self.blur = Blur()
        self.upsample = upsample

    def forward(self, x: Tensor, style: Tensor, noise: Optional[Tensor]) -> Tensor:
        s = self.mod(style)[:, :, None, None]
        if self.upsample:
            x = self.blur(F.interpolate(x, scale_factor=2.0))
        out = self.conv(x * (s + 1.0))
        demod = torch.rsqrt(out.pow(2).mean([1, 2, 3], keepdim=True) + 1e-8)
        out = out * demod
        if noise is not None:
            out += self.noise * noise
        return fused_leaky_relu(out, self.bias)


class Discriminator(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.rgb = nn.Conv2d(3, channels, 1)
        self.conv = nn.Conv2d(channels + 1, channels, 3, padding=1)
        self.act = nn.LeakyReLU(0.2, inplace=True)
        self.linear = EqualLinear(channels * 16, 1, 1.0)
        self.group = 2

    def forward(self, x: Tensor) -> Tensor:
        out = self.act(self.rgb(x))
        batch, channel, height, width = out.shape
        group = min(batch, self.group)
        stddev = out.view(group, -1, 1, channel, height, width)
        stddev = torch.sqrt(stddev.var(0, unbiased=False) + 1e-8)
        stddev = stddev.mean([2, 3, 4], keepdim=True).squeeze(2)
        stddev = stddev.repeat(group, 1, height, width)
        out = self.act(self.conv(torch.cat([out, stddev], 1)))
        return self.linear(out.view(batch, -1))


class StyleGAN(nn.Module):
    def __init__(self, style: int = 6, channels: int = 4) -> None:
        super().__init__()
        self.style = nn.Sequential(
            PixelNorm(),
            EqualLinear(style, style, activation=True),
            EqualLinear(style, style, activation=True),
        )
        self.const = nn.Parameter(torch.randn(1, channels, 2, 2))
        self.conv1, self.conv2 = StyledConv(channels, style, False), StyledConv(channels, style, True)
        self.to_rgb = nn.Conv2d(channels, 3, 1)
        self.discriminator = Discriminator(channels)
        self.register_buffer("mean_latent", torch.zeros(1, style))

    def forward(
        self, z: Tensor, noise: Tensor, real: Tensor, truncation: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        w = self.style(z)
        if truncation < 1.0:
            w = self.mean_latent + truncation * (w - self.mean_latent)
        h = self.conv1(self.const.repeat(z.shape[0], 1, 1, 1), w, None)
        h = self.conv2(h, w, noise)
        fake = torch.tanh(self.to_rgb(h))
        fake_pred, real_pred = self.discriminator(fake), self.discriminator(real)
        d_loss = F.softplus(fake_pred).mean() + F.softplus(-real_pred).mean()
        g_loss = F.softplus(-fake_pred).mean()
        return fake, d_loss, g_loss


model = StyleGAN()
inputs = (torch.randn(2, 6), torch.randn(2, 1, 4, 4), torch.rand(2, 3, 4, 4) * 2 - 1, 0.7)
