"""A linear-chain CRF: the score of a tag sequence, the partition function, and Viterbi's decoding."""

import torch
from torch import Tensor, nn


class CRF(nn.Module):
    def __init__(self, num_tags: int = 4) -> None:
        super().__init__()
        self.start_transitions = nn.Parameter(torch.randn(num_tags) * 0.1)
        self.end_transitions = nn.Parameter(torch.randn(num_tags) * 0.1)
        self.transitions = nn.Parameter(torch.randn(num_tags, num_tags) * 0.1)

    def compute_score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        length, batch = tags.shape
        m = mask.float()
        rows = torch.arange(batch, device=tags.device)
        score = self.start_transitions[tags[0]]
        score += emissions[0, rows, tags[0]]
        for i in range(1, length):
            score += self.transitions[tags[i - 1], tags[i]] * m[i]
            score += emissions[i, rows, tags[i]] * m[i]
        ends = mask.long().sum(dim=0) - 1
        score += self.end_transitions[tags[ends, rows]]
        return score

    def compute_normalizer(self, emissions: Tensor, mask: Tensor) -> Tensor:
        score = self.start_transitions + emissions[0]
        for i in range(1, emissions.size(0)):
            next_score = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            next_score = torch.logsumexp(next_score, dim=1)
            score = torch.where(mask[i].unsqueeze(1), next_score, score)
        score += self.end_transitions
        return torch.logsumexp(score, dim=1)

    def decode(self, emissions: Tensor) -> Tensor:
        score = self.start_transitions + emissions[0]
        history: list[Tensor] = []
        for i in range(1, emissions.size(0)):
            next_score = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            best, indices = next_score.max(dim=1)
            score = best
            history.append(indices)
        score += self.end_transitions
        best_tag = score.max(dim=1)[1]
        path = [best_tag]
        for i in range(len(history)):
            back = history[len(history) - 1 - i]
            best_tag = back.gather(1, best_tag.unsqueeze(1)).squeeze(1)
            path.append(best_tag)
        return torch.stack(path).flip(0)

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        numerator = self.compute_score(emissions, tags, mask)
        denominator = self.compute_normalizer(emissions, mask)
        llh = numerator - denominator
        loss = -(llh.sum() / mask.float().sum())
        return loss, self.decode(emissions.detach())


model = CRF()
lengths = torch.tensor([6, 4, 3])
inputs = (
    torch.randn(6, 3, 4, requires_grad=True),
    torch.randint(0, 4, (6, 3)),
    torch.arange(6)[:, None] < lengths[None, :],
)
