"""The loss of SSD: smooth L1 of the boxes, cross entropy with the hardest negatives."""

import torch
from torch import Tensor


def model(loc: Tensor, conf: Tensor, loc_t: Tensor, conf_t: Tensor) -> Tensor:
    pos = conf_t > 0
    num_pos = pos.sum(dim=1, keepdim=True)
    diff = torch.abs(loc - loc_t)
    smooth = torch.where(diff < 1.0, 0.5 * diff * diff, diff - 0.5)
    loss_l = (smooth * pos.unsqueeze(-1).float()).sum()
    x_max = conf.max()
    log_sum = torch.log(torch.sum(torch.exp(conf - x_max), dim=2)) + x_max
    loss_c = log_sum - conf.gather(2, conf_t.unsqueeze(-1)).squeeze(-1)
    mined = loss_c.detach().clone()
    mined[pos] = 0.0
    order = mined.sort(dim=1, descending=True)[1]
    rank = order.sort(dim=1)[1]
    num_neg = torch.clamp(3 * num_pos, max=pos.size(1) - 1)
    neg = rank < num_neg
    keep = (pos | neg).float()
    return (loss_l + (loss_c * keep).sum()) / num_pos.sum().clamp(min=1).float()


conf_t = torch.zeros(2, 12, dtype=torch.long)
conf_t[:, ::5] = 2
inputs = (
    torch.randn(2, 12, 4, requires_grad=True),
    torch.randn(2, 12, 4, requires_grad=True),
    torch.randn(2, 12, 4),
    conf_t,
)
