"""EfficientDet: BiFPN nodes with fast normalised fusion, swish with in-place updates, separable heads."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MemoryEfficientSwish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(x.sigmoid())


class SeparableConv(nn.Module):
    def __init__(self, channels: int, out: int, norm: bool = True, activation: bool = False) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, out, 1)
        self.norm, self.activation = norm, activation
        self.bn = nn.BatchNorm2d(out, momentum=0.01, eps=1e-3)
        self.swish = MemoryEfficientSwish()

    def forward(self, x: Tensor) -> Tensor:
        x = self.pointwise(self.depthwise(x))
        if self.norm:
            x = self.bn(x)
        if self.activation:
            x = self.swish(x)
        return x


class BiFPN(nn.Module):
    def __init__(self, channels: int = 4, epsilon: float = 1e-4) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.up, self.down = SeparableConv(channels, channels), SeparableConv(channels, channels)
        self.out = SeparableConv(channels, channels)
        self.w1, self.w2 = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
        self.w3 = nn.Parameter(torch.ones(2))
        self.swish = nn.SiLU()
        self.pool = nn.MaxPool2d(2)

    def forward(self, p3: Tensor, p4: Tensor) -> tuple[Tensor, Tensor]:
        weight = F.relu(self.w1)
        weight = weight / (torch.sum(weight, dim=0) + self.epsilon)
        up = weight[0] * p4 + weight[1] * self.pool(p3)
        p4_up = self.up(self.swish(up))
        weight = F.relu(self.w3)
        weight = weight / (torch.sum(weight, dim=0) + self.epsilon)
        p3_out = self.out(
            self.swish(weight[0] * p3 + weight[1] * F.interpolate(p4_up, scale_factor=2.0, mode="nearest"))
        )
        weight = F.relu(self.w2)
        weight = weight / (torch.sum(weight, dim=0) + self.epsilon)
        p4_out = self.down(self.swish(weight[0] * p4 + weight[1] * p4_up + weight[2] * self.pool(p3_out)))
        return p3_out, p4_out


class Head(nn.Module):
    def __init__(self, channels: int = 4, anchors: int = 2, classes: int = 3) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SeparableConv(channels, channels, norm=False) for _ in range(2)])
        self.bns = nn.ModuleList(
            [nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(2)]) for _ in range(2)]
        )
        self.swish = MemoryEfficientSwish()
        self.header = SeparableConv(channels, anchors * classes, norm=False)
        self.classes = classes

    def forward(self, levels: list[Tensor]) -> Tensor:
        feats: list[Tensor] = []
        for level, bns in enumerate(self.bns):
            feat = levels[level]
            for conv, bn in zip(self.convs, bns):
                feat = self.swish(bn(conv(feat)))
            feat = self.header(feat).permute(0, 2, 3, 1)
            feats.append(feat.contiguous().view(feat.shape[0], -1, self.classes))
        return torch.cat(feats, dim=1).sigmoid()


class EfficientDet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fpn1, self.fpn2, self.head = BiFPN(), BiFPN(), Head()

    def forward(self, p3: Tensor, p4: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
        p3, p4 = self.fpn1(p3, p4)
        p3, p4 = self.fpn2(p3, p4)
        scores = self.head([p3, p4])
        scores = torch.clamp(scores, 1e-4, 1.0 - 1e-4)
        alpha = torch.ones_like(scores) * 0.25
        alpha = torch.where(positive, alpha, 1.0 - alpha)
        focal = torch.where(positive, 1.0 - scores, scores)
        focal = alpha * torch.pow(focal, 2.0)
        bce = -(positive.float() * torch.log(scores) + (1.0 - positive.float()) * torch.log(1.0 - scores))
        loss = focal * bce
        loss = torch.where(torch.ne(positive.float(), -1.0), loss, torch.zeros_like(loss))
        return loss.sum() / torch.clamp(positive.sum().float(), min=1.0), scores


model = EfficientDet()
inputs = (torch.randn(2, 4, 4, 4), torch.randn(2, 4, 2, 2), torch.rand(2, 40, 3) > 0.7)
