"""The update block of RAFT: motion encoder, separable convolutional GRU, flow head and convex mask."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SepConvGRU(nn.Module):
    def __init__(self, hidden: int, dim: int) -> None:
        super().__init__()
        self.convz1 = nn.Conv2d(hidden + dim, hidden, (1, 5), padding=(0, 2))
        self.convr1 = nn.Conv2d(hidden + dim, hidden, (1, 5), padding=(0, 2))
        self.convq1 = nn.Conv2d(hidden + dim, hidden, (1, 5), padding=(0, 2))

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        hx = torch.cat([h, x], dim=1)
        z = torch.sigmoid(self.convz1(hx))
        r = torch.sigmoid(self.convr1(hx))
        q = torch.tanh(self.convq1(torch.cat([r * h, x], dim=1)))
        return (1 - z) * h + z * q


class UpdateBlock(nn.Module):
    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.convc1 = nn.Conv2d(9, 8, 1)
        self.convf1 = nn.Conv2d(2, 8, 3, padding=1)
        self.conv = nn.Conv2d(16, 6, 3, padding=1)
        self.gru = SepConvGRU(hidden, 8)
        self.head1, self.head2 = nn.Conv2d(hidden, 8, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)
        self.mask = nn.Sequential(
            nn.Conv2d(hidden, 8, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(8, 36, 1)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, net: Tensor, corr: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(2):
            cor = F.relu(self.convc1(corr))
            flo = F.relu(self.convf1(flow))
            out = F.relu(self.conv(torch.cat([cor, flo], dim=1)))
            net = self.gru(net, torch.cat([out, flow], dim=1))
            flow = flow + self.head2(self.relu(self.head1(net)))
        mask = 0.25 * self.mask(net)
        n, _, h, w = flow.shape
        mask = torch.softmax(mask.view(n, 1, 9, 2, 2, h, w), dim=2)
        up = F.unfold(2 * flow, [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
        up = torch.sum(mask * up, dim=2).permute(0, 1, 4, 2, 5, 3)
        return net, up.reshape(n, 2, 2 * h, 2 * w)


model = UpdateBlock()
inputs = (torch.randn(1, 8, 4, 4), torch.randn(1, 9, 4, 4), torch.randn(1, 2, 4, 4))
