"""Lucas and Kanade: image gradients, structure tensors, a few iterations of flow, and a robust loss."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LucasKanade(nn.Module):
    def __init__(self, iterations: int = 2) -> None:
        super().__init__()
        self.iterations = iterations
        self.epsilon = nn.Parameter(torch.tensor(1e-3))
        self.register_buffer("window", torch.full((1, 1, 3, 3), 1 / 9))

    def gradients(self, image: Tensor) -> tuple[Tensor, Tensor]:
        gx = torch.zeros_like(image)
        gy = torch.zeros_like(image)
        gx[..., 1:-1] = (image[..., 2:] - image[..., :-2]) / 2
        gy[..., 1:-1, :] = (image[..., 2:, :] - image[..., :-2, :]) / 2
        return gx, gy

    def windowed(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.window, padding=1)

    def warp(self, image: Tensor, flow: Tensor) -> Tensor:
        h, w = image.shape[2:]
        ys = torch.arange(h, device=image.device).to(image.dtype)
        xs = torch.arange(w, device=image.device).to(image.dtype)
        x = xs[None, None, :] + flow[:, 0]
        y = ys[None, :, None] + flow[:, 1]
        grid = torch.stack([x * 2 / (w - 1) - 1, y * 2 / (h - 1) - 1], -1)
        return F.grid_sample(image, grid, mode="bilinear", padding_mode="border", align_corners=True)

    def forward(self, first: Tensor, second: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
        ix, iy = self.gradients(first)
        xx, xy, yy = self.windowed(ix * ix), self.windowed(ix * iy), self.windowed(iy * iy)
        xx = xx + self.epsilon
        yy = yy + self.epsilon
        det = xx * yy - xy * xy
        weak = det < 1e-6
        det = det.masked_fill(weak, 1.0)
        for _ in range(self.iterations):
            warped = self.warp(second, flow)
            it = warped - first
            bx, by = self.windowed(ix * it), self.windowed(iy * it)
            u = (xy * by - yy * bx) / det
            v = (xy * bx - xx * by) / det
            update = torch.cat([u, v], 1)
            update = torch.where(weak, torch.zeros_like(update), update)
            update.clamp_(-1.0, 1.0)
            flow = flow + update
        error = self.warp(second, flow) - first
        robust = torch.sqrt(error * error + 1e-6)
        smooth = (flow[..., 1:] - flow[..., :-1]).abs().mean() + (
            flow[..., 1:, :] - flow[..., :-1, :]
        ).abs().mean()
        weight = torch.exp(-10 * (ix.abs() + iy.abs()))
        weight /= weight.mean()
        loss = (robust * weight).mean()
        loss += 0.1 * smooth
        return loss, flow


model = LucasKanade()
inputs = (torch.rand(1, 1, 8, 8), torch.rand(1, 1, 8, 8), torch.zeros(1, 2, 8, 8))
