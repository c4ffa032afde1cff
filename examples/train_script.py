"""A program of its own: two models and a loss in TorchScript, a data loader with a worker, an optimizer.

fusiondoc diagnose --script examples/train_script.py -- --steps 8
"""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset


class Block(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.inner = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.inner(x) * 0.5 + x)


class Head(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.out = torch.nn.Linear(width, 1)

    def forward(self, x):
        return torch.tanh(self.out(x) * 0.5 + 1.0)


@torch.jit.script
def loss_of(y, wanted):
    apart = (y - wanted).abs()
    return torch.where(apart < 1.0, apart * apart * 0.5, apart - 0.5).sum()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    block, head = torch.jit.script(Block(16)), torch.jit.trace(Head(16), torch.randn(4, 16))
    optimizer = torch.optim.AdamW([*block.parameters(), *head.parameters()], lr=0.01)
    data = TensorDataset(torch.randn(4 * steps, 16), torch.randn(4 * steps, 1))
    for x, wanted in DataLoader(data, batch_size=4, num_workers=1):
        optimizer.zero_grad()
        loss_of(head(block(x)), wanted).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
