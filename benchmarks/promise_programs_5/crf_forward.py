"""The forward algorithm of a linear chain CRF with padded steps, and the score of a given path."""

import torch
from torch import Tensor, nn


class CRF(nn.Module):
    def __init__(self, tags: int = 5) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags))
        self.end = nn.Parameter(torch.randn(tags))
        self.transitions = nn.Parameter(torch.randn(tags, tags))

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        score = self.start + emissions[0]
        path = self.start[tags[0]] + emissions[0].gather(1, tags[0].unsqueeze(1)).squeeze(1)
        for i in range(1, emissions.size(0)):
            step = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            step = torch.logsumexp(step, dim=1)
            score = torch.where(mask[i].unsqueeze(1), step, score)
            own = emissions[i].gather(1, tags[i].unsqueeze(1)).squeeze(1)
            path += (self.transitions[tags[i - 1], tags[i]] + own) * mask[i].float()
        score = score + self.end
        return (torch.logsumexp(score, dim=1) - path).mean()


model = CRF()
inputs = (
    torch.randn(4, 3, 5),
    torch.randint(0, 5, (4, 3)),
    torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=torch.bool),
)
