"""Click and conversion rates: SENet over fields, bilinear interactions, a factorisation machine, ESMM's loss."""

from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dice(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(width, eps=1e-8)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        x_p = torch.sigmoid(self.bn(x))
        return self.alpha * (1 - x_p) * x + x_p * x


class SENetLayer(nn.Module):
    def __init__(self, fields, reduction=2):
        super().__init__()
        self.excitation = nn.Sequential(
            nn.Linear(fields, fields // reduction, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(fields // reduction, fields, bias=False),
            nn.ReLU(inplace=True),
        )

    def forward(self, inputs):
        z = torch.mean(inputs, dim=-1)
        a = self.excitation(z)
        return torch.mul(inputs, torch.unsqueeze(a, dim=2))


class Tower(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0):
        super().__init__()
        self.fc1, self.act = nn.Linear(width, 12), Dice(12)
        self.fc2, self.prelu = nn.Linear(12, 6), nn.PReLU(6)
        self.out = nn.Linear(6, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.act(self.fc1(x)))
        x = self.dropout(self.prelu(self.fc2(x)))
        return self.out(x)


class FiBiNET(nn.Module):
    def __init__(self, vocabulary: int = 30, fields: int = 4, dim: int = 6) -> None:
        super().__init__()
        self.fields = fields
        self.embedding, self.linear = nn.Embedding(vocabulary, dim), nn.Embedding(vocabulary, 1)
        self.senet = SENetLayer(fields)
        self.bilinear = nn.Linear(dim, dim, bias=False)
        pairs = [(i, j) for i in range(fields) for j in range(i + 1, fields)]
        self.register_buffer("left", torch.tensor([i for i, _ in pairs]))
        self.register_buffer("right", torch.tensor([j for _, j in pairs]))
        width = 2 * dim * len(pairs) + 3
        self.ctr, self.cvr = Tower(width), Tower(width)
        self.bias = nn.Parameter(torch.zeros(1))

    def interactions(self, e: Tensor) -> Tensor:
        v_i = self.bilinear(e.index_select(1, self.left))
        v_j = e.index_select(1, self.right)
        return torch.flatten(v_i * v_j, start_dim=1)

    def fm(self, e: Tensor) -> Tensor:
        square_of_sum = torch.pow(torch.sum(e, dim=1, keepdim=True), 2)
        sum_of_square = torch.sum(e * e, dim=1, keepdim=True)
        cross_term = square_of_sum - sum_of_square
        return 0.5 * torch.sum(cross_term, dim=2, keepdim=False)

    def forward(
        self,
        sparse: Tensor,
        dense: Tensor,
        click: Tensor,
        convert: Tensor,
        weight: Optional[Tensor] = None,
    ) -> Dict[str, Tensor]:
        e = self.embedding(sparse)
        dense = torch.sign(dense) * torch.log1p(torch.abs(dense))
        dnn_input = torch.cat([self.interactions(self.senet(e)), self.interactions(e), dense], dim=-1)
        logit = self.linear(sparse).sum(dim=1)
        logit += self.fm(e)
        logit += self.bias
        ctr_logit = logit + self.ctr(dnn_input)
        cvr_logit = self.cvr(dnn_input)
        p_ctr = torch.sigmoid(ctr_logit).squeeze(1)
        p_cvr = torch.sigmoid(cvr_logit).squeeze(1)
        p_ctcvr = p_ctr * p_cvr
        p_ctcvr = p_ctcvr.clamp(min=1e-7, max=1 - 1e-7)
        both = click * convert
        loss_ctr = F.binary_cross_entropy_with_logits(ctr_logit.squeeze(1), click, reduction="none")
        loss_ctcvr = -(both * p_ctcvr.log() + (1 - both) * (1 - p_ctcvr).log())
        loss = loss_ctr + loss_ctcvr
        if weight is not None:
            loss = loss * weight
        reg = 1e-4 * (e**2).sum(dim=[1, 2]).mean()
        with torch.no_grad():
            correct = ((p_ctr > 0.5) == (click > 0.5)).float().mean()
        return {"loss": loss.mean() + reg, "p_ctr": p_ctr, "p_ctcvr": p_ctcvr, "accuracy": correct}


model = FiBiNET()
inputs = (
    torch.randint(0, 30, (16, 4)),
    torch.randn(16, 3) * 4,
    (torch.rand(16) > 0.5).float(),
    (torch.rand(16) > 0.6).float(),
    torch.rand(16) + 0.5,
)
