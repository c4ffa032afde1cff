"""A text CNN: highway over embeddings, filters of several widths, max over time, focal loss with mixup."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Highway(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        h, g = self.both(x).chunk(2, dim=-1)
        g = torch.sigmoid(g - 1.0)
        return g * F.relu(h) + (1.0 - g) * x


class TextCNN(nn.Module):
    def __init__(
        self, words: int = 20, width: int = 6, filters: int = 4, classes: int = 3, mode: str = "max"
    ) -> None:
        super().__init__()
        self.mode, self.p, self.gamma = mode, 0.0, 2.0
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.highway = Highway(width)
        self.convs = nn.ModuleList([nn.Conv1d(width, filters, k, padding=k - 1) for k in (2, 3, 4)])
        self.head = nn.Linear(3 * filters, classes)
        self.class_weight = nn.Parameter(torch.tensor([1.0, 0.5, 2.0]), requires_grad=False)

    def encode(self, tokens: Tensor) -> Tensor:
        keep = tokens != 0
        x = self.highway(self.embed(tokens))
        x = x.masked_fill(~keep.unsqueeze(-1), 0.0).transpose(1, 2)
        pooled: list[Tensor] = []
        for conv in self.convs:
            c = F.relu(conv(x), inplace=True)
            if self.mode == "max":
                top, _ = c.max(dim=-1)
            elif self.mode == "mean":
                top = c.sum(-1) / keep.sum(1, keepdim=True).to(c.dtype)
            else:
                top = torch.logsumexp(c, dim=-1)
            pooled.append(top)
        return torch.cat(pooled, dim=1)

    def forward(self, tokens: Tensor, labels: Tensor, mix: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encode(tokens)
        if self.p > 0.0:
            z = F.dropout(z, self.p, self.training)
        one_hot = F.one_hot(labels, 3).type_as(z)
        one_hot = one_hot * 0.94 + 0.02
        if self.training:
            lam = torch.maximum(mix, 1 - mix).unsqueeze(-1)
            z = lam * z + (1 - lam) * z.flip(0)
            one_hot = lam * one_hot + (1 - lam) * one_hot.flip(0)
        logits = self.head(z)
        log_p = F.log_softmax(logits.float(), dim=-1)
        p = log_p.exp()
        focal = (1 - p) ** self.gamma * log_p
        loss = -(one_hot * focal * self.class_weight).sum(-1)
        hard = loss > loss.mean()
        weight = torch.ones_like(loss)
        weight[hard] = 1.5
        loss = (weight * loss).mean()
        norm = self.head.weight.pow(2).sum()
        loss += 1e-4 * norm
        confident = p.max(dim=-1)[0] > 0.5
        return loss, confident.float().mean()


model = TextCNN()
inputs = (
    torch.tensor([[3, 4, 5, 6, 0, 0], [7, 8, 9, 1, 2, 0], [11, 12, 13, 14, 15, 16]]),
    torch.tensor([0, 1, 2]),
    torch.tensor([0.3, 0.8, 0.6]),
)
