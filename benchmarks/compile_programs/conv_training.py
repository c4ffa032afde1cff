"""Convolutions with batch norm as they train: statistics are updated; a strided block, a pooled head."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16)
        self.skip = nn.Conv2d(8, 16, 1, stride=2, bias=False)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(16, 5)

    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.conv1(image)))
        x = torch.relu(self.bn2(self.conv2(x)) + self.skip(x))
        x = self.pool(x)
        return nn.functional.cross_entropy(self.head(x.mean((2, 3))), label, label_smoothing=0.1)


torch.manual_seed(0)
model = Net().train()
inputs = (torch.randn(4, 3, 16, 16), torch.randint(5, (4,)))
