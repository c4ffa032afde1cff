"""One step of a legged robot's task: torques, observations, rewards, resets, an estimator with a policy behind it."""

from typing import Tuple

import torch
from torch import Tensor, nn


@torch.jit.script
def quat_rotate_inverse(q, v):
    # type: (Tensor, Tensor) -> Tensor
    shape = q.shape
    q_w = q[:, -1]
    q_vec = q[:, :3]
    a = v * (2.0 * q_w ** 2 - 1.0).unsqueeze(-1)
    b = torch.cross(q_vec, v, dim=-1) * q_w.unsqueeze(-1) * 2.0
    c = q_vec * torch.bmm(q_vec.view(shape[0], 1, 3), v.view(shape[0], 3, 1)).squeeze(-1) * 2.0
    return a - b + c


@torch.jit.script
def wrap_to_pi(angles):
    # type: (Tensor) -> Tensor
    angles %= 2 * 3.141592653589793
    angles -= 2 * 3.141592653589793 * (angles > 3.141592653589793)
    return angles


@torch.jit.script
def compute_torques(actions, dof_pos, dof_vel, default_pos, limits, p_gain, d_gain):
    # type: (Tensor, Tensor, Tensor, Tensor, Tensor, float, float) -> Tensor
    actions_scaled = actions * 0.25
    torques = p_gain * (actions_scaled + default_pos - dof_pos) - d_gain * dof_vel
    return torch.clip(torques, -limits, limits)


@torch.jit.script
def compute_reward(
    commands,
    base_lin_vel,
    base_ang_vel,
    gravity,
    torques,
    dof_vel,
    last_dof_vel,
    contact,
    air_time,
    sigma,
    dt,
):
    # type: (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, float, float) -> Tuple[Tensor, Tensor]
    lin_vel_error = torch.sum(torch.square(commands[:, :2] - base_lin_vel[:, :2]), dim=1)
    ang_vel_error = torch.square(commands[:, 2] - base_ang_vel[:, 2])
    rew = torch.exp(-lin_vel_error / sigma) * 1.0
    rew += torch.exp(-ang_vel_error / sigma) * 0.5
    rew += torch.square(base_lin_vel[:, 2]) * -2.0
    rew += torch.sum(torch.square(base_ang_vel[:, :2]), dim=1) * -0.05
    rew += torch.sum(torch.square(gravity[:, :2]), dim=1) * -0.2
    rew += torch.sum(torch.square(torques), dim=1) * -0.00001
    rew += torch.sum(torch.square((last_dof_vel - dof_vel) / dt), dim=1) * -2.5e-7
    first_contact = (air_time > 0.0) * contact
    air_time = air_time + dt
    rew_air = torch.sum((air_time - 0.5) * first_contact, dim=1)
    rew_air *= torch.norm(commands[:, :2], dim=1) > 0.1
    air_time *= ~contact
    rew = rew + rew_air
    rew = torch.clip(rew, min=0.0)
    return rew, air_time


class ActorCritic(nn.Module):
    def __init__(self, observations: int, actions: int, latent: int = 4):
        super().__init__()
        self.estimator = nn.Sequential(nn.Linear(observations, 16), nn.ELU(), nn.Linear(16, latent + 3))
        self.actor = nn.Sequential(nn.Linear(observations + latent + 3, 16), nn.ELU(), nn.Linear(16, actions))
        self.std = nn.Parameter(0.8 * torch.ones(actions))
        self.clip_obs, self.clip_actions = 5.0, 1.2

    def forward(self, obs: Tensor, noise: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        obs = torch.clamp(obs, -self.clip_obs, self.clip_obs)
        code = self.estimator(obs)
        vel, latent = code[:, :3], code[:, 3:]
        latent = latent / torch.clamp(torch.norm(latent, dim=-1, keepdim=True), min=1e-6)
        mean = self.actor(torch.cat((obs, vel.detach(), latent), dim=-1))
        std = self.std.clamp(min=0.05).expand_as(mean)
        action = mean + std * noise
        log_prob = (-((action - mean) ** 2) / (2 * std ** 2) - std.log() - 0.9189385332).sum(-1)
        return torch.clip(action, -self.clip_actions, self.clip_actions), log_prob, vel


class Task(nn.Module):
    def __init__(self, dofs: int = 6, feet: int = 2):
        super().__init__()
        self.dt = 0.02
        self.policy = ActorCritic(9 + 2 * dofs, dofs)
        self.register_buffer("default_pos", torch.linspace(-0.5, 0.5, dofs))
        self.register_buffer("limits", torch.full((dofs,), 20.0))
        self.register_buffer("gravity", torch.tensor([0.0, 0.0, -1.0]))

    def forward(
        self, root: Tensor, dof_pos: Tensor, dof_vel: Tensor, last_vel: Tensor, forces: Tensor, air: Tensor,
        commands: Tensor, noise: Tensor,
    ):
        quat = root[:, 3:7] / root[:, 3:7].norm(p=2, dim=-1, keepdim=True)
        lin_vel = quat_rotate_inverse(quat, root[:, 7:10])
        ang_vel = quat_rotate_inverse(quat, root[:, 10:13])
        projected = quat_rotate_inverse(quat, self.gravity.expand(root.size(0), 3))
        heading = torch.atan2(projected[:, 1], -projected[:, 2])
        heading_error = wrap_to_pi(commands[:, 3] - heading)
        yaw = torch.clip(0.5 * heading_error, -1.0, 1.0)
        command = torch.stack([commands[:, 0], commands[:, 1], yaw], dim=1)
        obs = torch.cat(
            (ang_vel * 0.25, projected, command, dof_pos - self.default_pos, dof_vel * 0.05), dim=-1
        )
        actions, log_prob, vel = self.policy(obs, noise)
        torques = compute_torques(actions, dof_pos, dof_vel, self.default_pos, self.limits, 20.0, 0.5)
        contact = forces > 1.0
        reward, air = compute_reward(
            command, lin_vel, ang_vel, projected, torques, dof_vel, last_vel, contact, air, 0.25, self.dt
        )
        reset = projected[:, 2] > -0.3
        reward = torch.where(reset, torch.full_like(reward, -1.0), reward)
        estimate = (vel - lin_vel).pow(2).mean()
        loss = -(log_prob * reward.detach()).mean() + estimate
        return loss, torques, reward, air, reset


model = Task()
inputs = (
    torch.randn(24, 13),
    torch.randn(24, 6),
    torch.randn(24, 6),
    torch.randn(24, 6),
    torch.rand(24, 2) * 3,
    torch.rand(24, 2),
    torch.randn(24, 4),
    torch.randn(24, 6),
)
