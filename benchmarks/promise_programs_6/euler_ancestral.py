"""An ancestral Euler step with guidance whose deviation is rescaled, in half steps of float32."""

import torch
from torch import Tensor


def append_dims(x: Tensor, dims: int) -> Tensor:
    for _ in range(dims - x.dim()):
        x = x.unsqueeze(-1)
    return x


def model(
    x: Tensor,
    cond: Tensor,
    uncond: Tensor,
    sigma: Tensor,
    sigma_next: Tensor,
    noise: Tensor,
    scale: float = 7.5,
) -> tuple[Tensor, Tensor]:
    s, s_next = append_dims(sigma, x.dim()), append_dims(sigma_next, x.dim())
    eps = uncond + scale * (cond - uncond)
    std_cond = cond.std(dim=[1, 2, 3], keepdim=True)
    std_cfg = eps.std(dim=[1, 2, 3], keepdim=True)
    eps = 0.7 * (eps * (std_cond / std_cfg)) + 0.3 * eps
    denoised = x - eps * s
    denoised = denoised.clamp(-1.0, 1.0)
    up = (s_next**2 * (s**2 - s_next**2) / s**2).sqrt()
    up = torch.minimum(s_next, up)
    down = (s_next**2 - up**2).sqrt()
    d = (x - denoised) / s
    x = x + d * (down - s)
    x += noise.to(x.dtype) * up
    return x, denoised


inputs = (
    torch.randn(2, 3, 4, 4),
    torch.randn(2, 3, 4, 4),
    torch.randn(2, 3, 4, 4),
    torch.tensor([5.0, 3.0]),
    torch.tensor([4.0, 2.0]),
    torch.randn(2, 3, 4, 4).double(),
)
