"""torchvision's densenet121 written by hand, with a small growth rate; training."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        bottleneck = self.conv1(self.relu1(self.norm1(torch.cat(features, 1))))
        return self.conv2(self.relu2(self.norm2(bottleneck)))


class DenseBlock(nn.Module):
    def __init__(self, layers, channels, growth):
        super().__init__()
        self.layers = nn.ModuleList([DenseLayer(channels + i * growth, growth) for i in range(layers)])

    def forward(self, first: Tensor) -> Tensor:
        features = [first]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


def transition(before, after):
    return nn.Sequential(
        nn.BatchNorm2d(before),
        nn.ReLU(inplace=True),
        nn.Conv2d(before, after, 1, bias=False),
        nn.AvgPool2d(2, 2),
    )


def densenet121(growth=2, channels=4):
    parts = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    for number, layers in enumerate((6, 12, 24, 16)):
        parts.append(DenseBlock(layers, channels, growth))
        channels += layers * growth
        if number < 3:
            parts.append(transition(channels, channels // 2))
            channels //= 2
    parts += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
    return nn.Sequential(*parts, nn.Linear(channels, 10))


model = densenet121()
inputs = (torch.randn(2, 3, 32, 32),)
