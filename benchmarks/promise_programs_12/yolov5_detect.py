"""YOLOv5: focus, C3 with bottlenecks, fast pyramid pooling, the detection layer with grids."""

import torch
from torch import Tensor, nn


class Conv(nn.Module):
    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Focus(nn.Module):
    def __init__(self, c1: int, c2: int) -> None:
        super().__init__()
        self.conv = Conv(c1 * 4, c2, 1)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        return self.conv(torch.cat(parts, 1))


class Bottleneck(nn.Module):
    def __init__(self, c: int, shortcut: bool = True) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(c, c, 1), Conv(c, c, 3)
        self.add = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cv2(self.cv1(x)) if self.add else self.cv2(self.cv1(x))


class C3(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.cv1, self.cv2, self.cv3 = Conv(c, c // 2), Conv(c, c // 2), Conv(c, c)
        self.m = nn.Sequential(Bottleneck(c // 2), Bottleneck(c // 2, False))

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), dim=1))


class SPPF(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(c, c // 2), Conv(c * 2, c)
        self.m = nn.MaxPool2d(3, stride=1, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cv1(x)
        y1 = self.m(x)
        y2 = self.m(y1)
        return self.cv2(torch.cat([x, y1, y2, self.m(y2)], 1))


class Detect(nn.Module):
    def __init__(self, nc: int, anchors: Tensor, c: int) -> None:
        super().__init__()
        self.nc, self.no, self.na = nc, nc + 5, anchors.shape[1]
        self.register_buffer("anchors", anchors)
        self.register_buffer("stride", torch.tensor([2.0, 4.0]))
        self.m = nn.ModuleList([nn.Conv2d(c, self.no * self.na, 1) for _ in range(2)])
        self.inplace = True

    def grid(self, nx: int, ny: int, i: int) -> tuple[Tensor, Tensor]:
        device = self.anchors.device
        y, x = torch.arange(ny, device=device).float(), torch.arange(nx, device=device).float()
        yv, xv = torch.meshgrid(y, x, indexing="ij")
        grid = torch.stack((xv, yv), 2).expand(1, self.na, ny, nx, 2) - 0.5
        anchor_grid = (
            (self.anchors[i] * self.stride[i]).view(1, self.na, 1, 1, 2).expand(1, self.na, ny, nx, 2)
        )
        return grid, anchor_grid

    def forward(self, xs: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        z: list[Tensor] = []
        raw: list[Tensor] = []
        for i, m in enumerate(self.m):
            x = m(xs[i])
            bs, _, ny, nx = x.shape
            x = x.view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            raw.append(x)
            if not self.training:
                grid, anchor_grid = self.grid(nx, ny, i)
                y = x.detach().sigmoid()
                if self.inplace:
                    y[..., 0:2] = (y[..., 0:2] * 2 + grid) * self.stride[i]
                    y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * anchor_grid
                else:
                    xy, wh, conf = y.split((2, 2, self.nc + 1), 4)
                    y = torch.cat(((xy * 2 + grid) * self.stride[i], (wh * 2) ** 2 * anchor_grid, conf), 4)
                y[..., 5:] *= y[..., 4:5]
                z.append(y.view(bs, -1, self.no))
        if self.training:
            return torch.zeros(1, device=xs[0].device), raw
        return torch.cat(z, 1), raw


class Yolo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = Focus(3, 4), Conv(4, 4, 3, 2)
        self.c3, self.sppf = C3(4), SPPF(4)
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.merge = Conv(8, 4)
        self.detect = Detect(2, torch.rand(2, 2, 2) + 0.5, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        p3 = self.stem(x)
        p4 = self.sppf(self.c3(self.down(p3)))
        p3 = self.merge(torch.cat([self.up(p4), p3], 1))
        return self.detect([p3, p4])


model = Yolo().eval()
inputs = (torch.rand(1, 3, 8, 8),)
