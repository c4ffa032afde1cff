"""A world model's losses: a discrete latent with unimix, balanced KL, symlog, two-hot returns, lambdas."""

from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def symlog(x: Tensor) -> Tensor:
    return torch.sign(x) * torch.log1p(torch.abs(x))


def symexp(x: Tensor) -> Tensor:
    return torch.sign(x) * (torch.exp(torch.abs(x)) - 1.0)


def unimix(logits: Tensor, ratio: float = 0.01) -> Tensor:
    probs = torch.softmax(logits, dim=-1)
    probs = probs * (1.0 - ratio) + ratio / probs.shape[-1]
    return probs.log()


def kl(left: Tensor, right: Tensor, free: float) -> Tensor:
    value = (left.exp() * (left - right)).sum(-1).sum(-1)
    return value.clamp(min=free)


def two_hot(x: Tensor, bins: Tensor) -> Tensor:
    x = symlog(x)
    below = (bins <= x[..., None]).to(torch.int32).sum(-1) - 1
    above = below + 1
    below = below.clamp(0, bins.numel() - 1).long()
    above = above.clamp(0, bins.numel() - 1).long()
    equal = below == above
    to_below = torch.where(equal, torch.ones_like(x), torch.abs(bins[below] - x))
    to_above = torch.where(equal, torch.ones_like(x), torch.abs(bins[above] - x))
    total = to_below + to_above
    target = F.one_hot(below, bins.numel()) * (to_above / total)[..., None]
    target += F.one_hot(above, bins.numel()) * (to_below / total)[..., None]
    return target


def lambda_return(reward: Tensor, value: Tensor, discount: Tensor, lambda_: float) -> Tensor:
    inputs = reward[:-1] + discount[1:] * value[1:] * (1 - lambda_)
    last = value[-1]
    outputs: List[Tensor] = []
    for t in range(inputs.size(0) - 1, -1, -1):
        last = inputs[t] + discount[t + 1] * lambda_ * last
        outputs.insert(0, last)
    return torch.stack(outputs)


class WorldModel(nn.Module):
    def __init__(self, obs: int = 6, hidden: int = 8, classes: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.classes, self.groups, self.mix = classes, groups, 0.01
        self.cell_in, self.cell = nn.Linear(classes * groups + 2, hidden), nn.GRUCell(hidden, hidden)
        self.prior = nn.Sequential(nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.SiLU(inplace=True))
        self.prior_out, self.post = nn.Linear(hidden, 8), nn.Linear(hidden + obs, 8)
        self.reward, self.critic = nn.Linear(hidden, 9), nn.Linear(hidden, 9)
        self.register_buffer("bins", torch.linspace(-4.0, 4.0, 9))

    def forward(
        self, obs: Tensor, action: Tensor, reward: Tensor, first: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        steps, batch = reward.shape
        h = torch.zeros(batch, 8, device=obs.device)
        z = torch.zeros(batch, self.groups * self.classes, device=obs.device)
        states: List[Tensor] = []
        loss = torch.zeros(batch, device=obs.device)
        for t in range(steps):
            keep = (~first[t]).float().unsqueeze(-1)
            h, z = h * keep, z * keep
            h = self.cell(F.elu(self.cell_in(torch.cat([z, action[t]], -1)), inplace=True), h)
            prior = unimix(self.prior_out(self.prior(h)).view(batch, self.groups, -1), self.mix)
            post = unimix(
                self.post(torch.cat([h, symlog(obs[t])], -1)).view(batch, self.groups, -1), self.mix
            )
            loss += 0.5 * kl(post.detach(), prior, 0.1) + 0.1 * kl(post, prior.detach(), 0.1)
            probs = post.exp()
            hard = F.one_hot(probs.argmax(-1), self.classes).to(probs.dtype)
            z = (hard + probs - probs.detach()).flatten(1)
            states.append(h)
        hidden = torch.stack(states)
        value = symexp((torch.softmax(self.critic(hidden), -1) * self.bins).sum(-1))
        discount = 0.99 * (~first).float()
        target = lambda_return(reward, value, discount, 0.95).detach()
        nll = -(two_hot(reward, self.bins) * F.log_softmax(self.reward(hidden), -1)).sum(-1)
        critic = -(two_hot(target, self.bins) * F.log_softmax(self.critic(hidden[:-1]), -1)).sum(-1)
        weight = torch.cumprod(discount, 0)
        weight /= weight.mean()
        return loss.mean() + nll.mean() + (weight[:-1] * critic).mean(), target, value


model = WorldModel()
inputs = (
    torch.randn(4, 3, 6) * 3,
    torch.randn(4, 3, 2),
    torch.randn(4, 3),
    torch.tensor([[False] * 3, [False] * 3, [False, True, False], [False] * 3]),
)
