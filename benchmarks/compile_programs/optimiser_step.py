"""A step of Lion with decoupled decay and a clip by the norm of all gradients, by foreach operators."""

import torch
from torch import Tensor


def model(parameters: list[Tensor], gradients: list[Tensor], moments: list[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        norm = torch.stack(torch._foreach_norm(gradients)).norm()
        clip = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        gradients = torch._foreach_mul(gradients, clip)
        updates = torch._foreach_add(torch._foreach_mul(moments, 0.9), gradients, alpha=0.1)
        updates = [update.sign() for update in updates]
        torch._foreach_lerp_(moments, gradients, 0.01)
        decayed = torch._foreach_mul(parameters, 1 - 1e-3)
        return list(torch._foreach_add(decayed, updates, alpha=-1e-2))


torch.manual_seed(0)
shapes = [(16, 12), (16,), (9, 16), (9,)]
inputs = tuple([torch.randn(shape) for shape in shapes] for _ in range(3))
