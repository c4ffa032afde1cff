"""torchvision's DenseNet: layers with lists of features, Optional memory flags, a transition."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, bn_size * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth, growth, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def bn_function(self, inputs: list[Tensor]) -> Tensor:
        concatenated = torch.cat(inputs, 1)
        return self.conv1(self.relu1(self.norm1(concatenated)))

    def forward(self, inputs: list[Tensor]) -> Tensor:
        bottleneck = self.bn_function(inputs)
        new = self.conv2(self.relu2(self.norm2(bottleneck)))
        if self.drop_rate > 0:
            new = F.dropout(new, p=self.drop_rate, training=self.training)
        return new


class DenseBlock(nn.Module):
    def __init__(self, layers: int, inputs: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DenseLayer(inputs + i * growth, growth, 2, 0.0) for i in range(layers)])

    def forward(self, init: Tensor) -> Tensor:
        features = [init]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    def __init__(self, growth: int = 2) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm0 = nn.BatchNorm2d(4)
        self.block1 = DenseBlock(2, 4, growth)
        self.transition = Transition(8, 4)
        self.block2 = DenseBlock(2, 4, growth)
        self.norm5 = nn.BatchNorm2d(8)
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x_ch0 = torch.unsqueeze(x[:, 0], 1) * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
        x_ch1 = torch.unsqueeze(x[:, 1], 1) * (0.224 / 0.5) + (0.456 - 0.5) / 0.5
        x_ch2 = torch.unsqueeze(x[:, 2], 1) * (0.225 / 0.5) + (0.406 - 0.5) / 0.5
        x = torch.cat((x_ch0, x_ch1, x_ch2), 1)
        features = F.relu(self.norm0(self.conv0(x)), inplace=True)
        features = self.block2(self.transition(self.block1(features)))
        features = self.norm5(features)
        out = F.relu(features, inplace=True)
        out = F.adaptive_avg_pool2d(out, (1, 1))
        out = torch.flatten(out, 1)
        return self.classifier(out)


model = DenseNet()
inputs = (torch.randn(2, 3, 6, 6),)
