"""IMPALA's learner: V-trace targets from the end backwards, policy and entropy losses."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def action_log_probs(logits: Tensor, actions: Tensor) -> Tensor:
    flat = -F.nll_loss(F.log_softmax(logits.flatten(0, 1), dim=-1), actions.flatten(), reduction="none")
    return flat.view_as(actions)


def from_importance_weights(
    log_rhos: Tensor, discounts: Tensor, rewards: Tensor, values: Tensor, bootstrap: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        rhos = torch.exp(log_rhos)
        clipped = torch.clamp(rhos, max=1.0)
        cs = torch.clamp(rhos, max=1.0)
        next_values = torch.cat([values[1:], torch.unsqueeze(bootstrap, 0)], dim=0)
        deltas = clipped * (rewards + discounts * next_values - values)
        acc = torch.zeros_like(bootstrap)
        result: list[Tensor] = []
        for t in range(discounts.shape[0] - 1, -1, -1):
            acc = deltas[t] + discounts[t] * cs[t] * acc
            result.append(acc)
        result.reverse()
        vs = torch.add(torch.stack(result), values)
        vs_next = torch.cat([vs[1:], torch.unsqueeze(bootstrap, 0)], dim=0)
        pg_rhos = torch.clamp(rhos, max=1.0)
        return vs, pg_rhos * (rewards + discounts * vs_next - values)


class Learner(nn.Module):
    def __init__(self, inputs: int = 5, hidden: int = 8, actions: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.ReLU(inplace=True)
        )
        self.policy = nn.Linear(hidden, actions)
        self.baseline = nn.Linear(hidden, 1)
        self.register_buffer("reward_sum", torch.zeros(()))
        self.register_buffer("reward_m2", torch.ones(()))
        self.register_buffer("reward_count", torch.ones(()))

    def normalised(self, rewards: Tensor) -> Tensor:
        if self.training:
            self.reward_sum += rewards.sum()
            self.reward_count += rewards.numel()
            delta = rewards - self.reward_sum / self.reward_count
            self.reward_m2 += delta.pow(2).sum()
        std = torch.sqrt(self.reward_m2 / self.reward_count).clamp(min=0.01)
        out = rewards / std
        squeezed = torch.tanh(out / 5.0)
        return torch.where(out < 0, 0.3 * squeezed, squeezed) * 5.0

    def forward(
        self, obs: Tensor, actions: Tensor, behaviour: Tensor, rewards: Tensor, done: Tensor, last: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        h = self.body(obs)
        logits = self.policy(h)
        values = self.baseline(h).squeeze(-1)
        bootstrap = self.baseline(self.body(last)).squeeze(-1)
        discounts = (~done).float() * 0.99
        rewards = self.normalised(rewards)
        log_rhos = action_log_probs(logits, actions) - action_log_probs(behaviour, actions)
        vs, pg_advantages = from_importance_weights(log_rhos, discounts, rewards, values, bootstrap)
        pg_loss = torch.sum(-action_log_probs(logits, actions) * pg_advantages.detach())
        advantage = vs - values
        value_loss = 0.5 * torch.sum(advantage**2)
        policy = F.softmax(logits, dim=-1)
        entropy = torch.sum(policy * F.log_softmax(logits, dim=-1))
        loss = pg_loss
        loss += 0.5 * value_loss
        loss += 0.0006 * entropy
        error = values.detach() - vs
        explained = 1 - error.var() / vs.var().clamp_(min=1e-6)
        return loss, {"pg": pg_loss.detach(), "entropy": entropy.detach(), "explained": explained}


model = Learner()
inputs = (
    torch.randn(4, 3, 5),
    torch.randint(0, 3, (4, 3)),
    torch.randn(4, 3, 3),
    torch.randn(4, 3),
    torch.rand(4, 3) > 0.8,
    torch.randn(3, 5),
)
