"""A Fourier filter of a signal and a soft threshold."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(x: Tensor, weight: Tensor) -> Tensor:
    window = 0.5 - 0.5 * torch.cos(torch.arange(8, device=x.device) * 0.7853982)
    spectrum = torch.fft.rfft(x * window)
    power = spectrum.abs().square() + 1e-6
    gain = torch.log1p(power) * weight
    gain = torch.sign(gain) * F.relu(gain.abs() - 0.1)
    filtered = torch.fft.irfft(spectrum * gain, n=8)
    return filtered * window + x


inputs = (torch.randn(3, 8, requires_grad=True), torch.randn(5, requires_grad=True))
