"""Runs functions under NNC on the CPU and prints the graphs that torch made of
them: a log without prefixes.

python repro_groups.py static|dynamic
"""

import sys

import torch

torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_texpr_fuser_enabled(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)


def strides(x, y, z):
    return torch.relu(x * 2.0 + y).tanh() * z


def chain(x, y):
    return torch.tanh(torch.relu(x * y) + y)


def cat(x, y):
    return torch.cat([x * 2, y.sigmoid()], 1).tanh()


def show(function, *inputs):
    scripted = torch.jit.script(function)
    for _ in range(4):
        scripted(*inputs)
    print(scripted.graph_for(*inputs))


if sys.argv[1] == "static":
    show(
        strides,
        torch.randn(6, 4).t(),
        torch.randn(1, 6).expand(4, 6),
        torch.randn(4, 1, dtype=torch.float64),
    )
    show(chain, torch.randn(4, 6), torch.randn(6))
    show(cat, torch.randn(4, 3), torch.randn(4, 5))
else:
    torch.jit.set_fusion_strategy([("DYNAMIC", 2)])
    show(chain, torch.randn(4, 6), torch.randn(6))
