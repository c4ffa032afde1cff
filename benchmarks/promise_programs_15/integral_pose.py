"""Human pose: Gaussian targets, integral regression of heat maps, bone losses, key point similarity."""

import torch
from torch import Tensor, nn


class IntegralPose(nn.Module):
    def __init__(self, joints: int = 3, size: int = 6) -> None:
        super().__init__()
        self.size = size
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.final = nn.Conv2d(8, joints, 1)
        self.register_buffer("sigmas", torch.tensor([0.3, 0.5, 0.8]))
        self.register_buffer("parents", torch.tensor([0, 0, 1]))

    def targets(self, points: Tensor, visible: Tensor, sigma: float) -> Tensor:
        axis = torch.arange(self.size, device=points.device, dtype=points.dtype)
        dx = (axis[None, None, None, :] - points[..., 0, None, None]) ** 2
        dy = (axis[None, None, :, None] - points[..., 1, None, None]) ** 2
        heat = torch.exp(-(dx + dy) / (2 * sigma**2))
        heat[heat < 0.01] = 0
        heat *= visible[..., None, None]
        return heat

    def soft_argmax(self, heat: Tensor, beta: float) -> Tensor:
        n, j, h, w = heat.shape
        probability = (heat.flatten(2) * beta).softmax(-1).view(n, j, h, w)
        axis = torch.arange(w, device=heat.device).to(heat.dtype)
        x = (probability.sum(2) * axis).sum(-1)
        y = (probability.sum(3) * axis).sum(-1)
        return torch.stack([x, y], -1)

    def similarity(self, predicted: Tensor, points: Tensor, visible: Tensor, area: Tensor) -> Tensor:
        distance = (predicted - points).pow(2).sum(-1)
        variance = (self.sigmas * 2) ** 2
        e = distance / variance / (area[:, None] + 1e-6) / 2
        return (torch.exp(-e) * visible).sum(1) / visible.sum(1).clamp(min=1)

    def forward(self, x: Tensor, points: Tensor, visible: Tensor, area: Tensor) -> tuple[Tensor, Tensor]:
        heat = self.final(self.relu(self.norm(self.conv(x))))
        with torch.no_grad():
            wanted = self.targets(points, visible, 1.0)
        mse = (heat - wanted) ** 2
        mse = mse.mean((2, 3)) * visible
        predicted = self.soft_argmax(heat, 10.0)
        delta = (predicted - points).abs()
        delta = torch.where(delta < 1.0, 0.5 * delta * delta, delta - 0.5)
        delta *= visible.unsqueeze(-1)
        bones = predicted - predicted[:, self.parents]
        wanted_bones = points - points[:, self.parents]
        bone_loss = (bones.norm(2, -1) - wanted_bones.norm(2, -1)).abs().mean()
        loss = mse.mean() + delta.sum() / visible.sum().clamp(min=1.0)
        loss += 0.1 * bone_loss
        return loss, self.similarity(predicted, points, visible, area)


model = IntegralPose()
inputs = (
    torch.randn(2, 4, 6, 6),
    torch.rand(2, 3, 2) * 5,
    torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]),
    torch.tensor([9.0, 16.0]),
)
