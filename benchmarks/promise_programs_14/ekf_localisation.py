"""An extended Kalman filter for a robot with range and bearing to landmarks, some of which are not seen."""

import math
from typing import List, Tuple

import torch
from torch import Tensor


def wrap(angle: Tensor) -> Tensor:
    angle = torch.remainder(angle + math.pi, 2 * math.pi)
    return angle - math.pi


def predict(mean: Tensor, cov: Tensor, control: Tensor, q: Tensor, dt: float) -> Tuple[Tensor, Tensor]:
    theta = mean[:, 2]
    v, w = control[:, 0], control[:, 1]
    new = mean.clone()
    new[:, 0] += v * torch.cos(theta) * dt
    new[:, 1] += v * torch.sin(theta) * dt
    new[:, 2] = wrap(theta + w * dt)
    jacobian = torch.eye(3, dtype=mean.dtype, device=mean.device).repeat(mean.size(0), 1, 1)
    jacobian[:, 0, 2] = -v * torch.sin(theta) * dt
    jacobian[:, 1, 2] = v * torch.cos(theta) * dt
    new_cov = jacobian @ cov @ jacobian.transpose(1, 2)
    new_cov += q
    return new, new_cov


def update(
    mean: Tensor, cov: Tensor, landmark: Tensor, measured: Tensor, seen: Tensor, noise: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    dx = landmark[0] - mean[:, 0]
    dy = landmark[1] - mean[:, 1]
    squared = (dx.square() + dy.square()).clamp_(min=1e-4)
    distance = squared.sqrt()
    expected = torch.stack([distance, wrap(torch.atan2(dy, dx) - mean[:, 2])], dim=1)
    zeros = torch.zeros_like(dx)
    h = torch.stack(
        [
            torch.stack([-dx / distance, -dy / distance, zeros], dim=1),
            torch.stack([dy / squared, -dx / squared, zeros - 1.0], dim=1),
        ],
        dim=1,
    )
    innovation = measured - expected
    innovation[:, 1] = wrap(innovation[:, 1])
    s = h @ cov @ h.transpose(1, 2) + noise
    det = s[:, 0, 0] * s[:, 1, 1] - s[:, 0, 1] * s[:, 1, 0]
    inverse = torch.stack([s[:, 1, 1], -s[:, 0, 1], -s[:, 1, 0], s[:, 0, 0]], dim=1) / det.unsqueeze(1)
    inverse = inverse.view(-1, 2, 2)
    maha = (innovation.unsqueeze(1) @ inverse @ innovation.unsqueeze(2)).squeeze(2).squeeze(1)
    gate = seen & (maha < 9.21)
    gain = cov @ h.transpose(1, 2) @ inverse
    gain = gain * gate.to(gain.dtype)[:, None, None]
    mean = mean + (gain @ innovation.unsqueeze(2)).squeeze(2)
    cov = cov - gain @ h @ cov
    cov = 0.5 * (cov + cov.transpose(1, 2))
    nll = 0.5 * (maha + torch.log(det) + 2 * math.log(2 * math.pi))
    nll[~gate] = 0.0
    return mean, cov, nll


@torch.jit.script
def model(
    mean: Tensor, cov: Tensor, control: Tensor, landmarks: List[Tensor], ranges: Tensor, seen: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    q = torch.diag(torch.tensor([0.01, 0.01, 0.005]))
    noise = torch.diag(torch.tensor([0.1, 0.05]))
    mean, cov = predict(mean, cov, control, q, 0.1)
    loss = torch.zeros(mean.size(0))
    for i, landmark in enumerate(landmarks):
        mean, cov, nll = update(mean, cov, landmark, ranges[:, i], seen[:, i], noise)
        loss += nll
    mean[:, 2] = wrap(mean[:, 2])
    return mean, cov, loss.mean()


inputs = (
    torch.randn(8, 3),
    torch.eye(3).repeat(8, 1, 1) * 0.2,
    torch.randn(8, 2, requires_grad=True),
    [torch.tensor([2.0, 1.0]), torch.tensor([-1.0, 3.0])],
    torch.rand(8, 2, 2) + 0.5,
    torch.rand(8, 2) > 0.3,
)
