"""Rprop and RAdam as torch.optim has them in plain operators: steps that grow and shrink."""

from typing import Optional

import torch
from torch import Tensor


def single_rprop(
    param: Tensor,
    grad: Tensor,
    prev: Tensor,
    step_size: Tensor,
    etaminus: float,
    etaplus: float,
    maximize: bool,
) -> None:
    grad = grad if not maximize else -grad
    sign = grad.mul(prev).sign()
    sign[sign.gt(0)] = etaplus
    sign[sign.lt(0)] = etaminus
    sign[sign.eq(0)] = 1
    step_size.mul_(sign).clamp_(1e-6, 50.0)
    grad = grad.clone()
    grad[sign.eq(etaminus)] = 0
    param.addcmul_(grad.sign(), step_size, value=-1.0)
    prev.copy_(grad)


def single_radam(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    step: int,
    lr: float,
    weight_decay: float,
) -> None:
    beta1, beta2 = 0.9, 0.999
    bias_correction1 = 1 - beta1**step
    bias_correction2 = 1 - beta2**step
    if weight_decay != 0:
        grad = grad.add(param, alpha=weight_decay)
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    bias_corrected = exp_avg / bias_correction1
    rho_inf = 2 / (1 - beta2) - 1
    rho_t = rho_inf - 2 * step * (beta2**step) / bias_correction2
    if rho_t > 5.0:
        rect = ((rho_t - 4) * (rho_t - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho_t)) ** 0.5
        denom = exp_avg_sq.sqrt()
        denom.add_(1e-8)
        adaptive = bias_correction2**0.5 / denom
        param.add_(bias_corrected * lr * adaptive * rect, alpha=-1.0)
    else:
        param.add_(bias_corrected * lr, alpha=-1.0)


def clip_grad_norm(grads: list[Tensor], max_norm: float) -> Tensor:
    norms: list[Tensor] = []
    for g in grads:
        norms.append(torch.norm(g, 2.0))
    total = torch.norm(torch.stack(norms), 2.0)
    coef = max_norm / (total + 1e-6)
    coef = torch.clamp(coef, max=1.0)
    for g in grads:
        g.mul_(coef)
    return total


def model(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    sizes: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    found_inf: Optional[Tensor] = None,
) -> Tensor:
    if found_inf is not None and bool(found_inf > 0):
        return torch.zeros_like(found_inf)
    total = clip_grad_norm(grads, 1.0)
    for i, param in enumerate(params):
        if i % 2 == 0:
            single_rprop(param, grads[i], prevs[i], sizes[i], 0.5, 1.2, False)
        else:
            single_radam(param, grads[i], exp_avgs[i], exp_avg_sqs[i], 7, 1e-2, 0.01)
    return total


shape = (4, 5)
inputs = (
    [torch.randn(shape) for _ in range(4)],
    [torch.randn(shape) for _ in range(4)],
    [torch.randn(shape) for _ in range(4)],
    [torch.rand(shape) for _ in range(4)],
    [torch.zeros(shape) for _ in range(4)],
    [torch.rand(shape) for _ in range(4)],
    torch.zeros([]),
)
