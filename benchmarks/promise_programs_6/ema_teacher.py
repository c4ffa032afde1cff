"""Updates of a DINO step: the teacher by momentum in place, its centre, and the loss of a student."""

import torch
import torch.nn.functional as F
from torch import Tensor


def update_center(center: Tensor, teacher_output: Tensor, momentum: float) -> None:
    batch_center = torch.sum(teacher_output, dim=0, keepdim=True)
    batch_center = batch_center / len(teacher_output)
    center.mul_(momentum).add_(batch_center, alpha=1 - momentum)


def model(student: Tensor, teacher: Tensor, center: Tensor, ema: Tensor, weight: Tensor) -> Tensor:
    student_out = (student / 0.1).chunk(2)
    teacher_out = F.softmax((teacher - center) / 0.04, dim=-1).detach()
    total = torch.zeros([], device=student.device)
    for q in student_out:
        loss = torch.sum(-teacher_out * F.log_softmax(q, dim=-1), dim=-1)
        total += loss.mean()
    total /= 2
    update_center(center, teacher, 0.9)
    ema.mul_(0.996).add_((1 - 0.996) * weight.detach())
    koleo = F.normalize(student, eps=1e-8, p=2.0, dim=-1)
    dots = torch.mm(koleo, koleo.t())
    dots.view(-1)[:: (koleo.size(0) + 1)].fill_(-1)
    nearest = dots.max(dim=1)[0]
    spread = -torch.log((2 - 2 * nearest).clamp(min=1e-6).sqrt() + 1e-8).mean()
    return total + 0.1 * spread


inputs = (
    torch.randn(4, 6, requires_grad=True),
    torch.randn(2, 6),
    torch.zeros(1, 6),
    torch.zeros(6, 6),
    torch.randn(6, 6, requires_grad=True),
)
