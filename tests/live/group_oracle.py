"""Runs programs under a fuser and prints, as JSON, the groups that torch's own
graph API finds.

    python group_oracle.py nnc|nvfuser NAME:inference|backward:SHAPES ...

nnc runs on the CPU, nvfuser on the GPU. The JIT log goes to stderr meanwhile, after
a line ``== NUMBER`` for each program: the test compares what fusiondoc reads there
with this.
"""

import json
import os
import sys
import types

import torch
import torch.nn.functional as F
from torch import nn

NVFUSER = sys.argv[1] == "nvfuser"
DEVICE = "cuda" if NVFUSER else "cpu"
KIND = "prim::CudaFusionGroup" if NVFUSER else "prim::TensorExprGroup"

if NVFUSER:
    torch._C._jit_set_texpr_fuser_enabled(False)
    torch._C._jit_override_can_fuse_on_gpu(False)
    torch._C._jit_set_nvfuser_enabled(True)
else:
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_te_must_use_llvm_cpu(False)


def chain(x, y):
    return ((x + y).relu() * y).tanh()


def split(x, y):
    a = (x + y).relu() * 2.0
    b = torch.cumsum(a, 0)
    return (b * y).sigmoid() + b


def layers(x, y):
    for _ in range(4):
        x = torch.cumsum((x * y + 1.0).tanh(), 0)
    return x


def block(x, y):
    z = F.gelu(x + y) * y
    return F.layer_norm(z, (z.size(-1),)) * 2.0 + x


def lonely(x, y):
    return torch.cumsum(torch.cumsum(x, 0) + y, 0)


def branch(x, y):
    if bool(x.sum() > -1e9):
        z = (x * y).relu() + 1.0
    else:
        z = (x - y).sigmoid() * 2.0
    return z.exp() - y


def two_regions(x, y):
    a = (x + y).relu() * y
    b = a.sum(0)
    return (b * 2.0).tanh() + y


def step(x):
    return torch.cumsum(torch.tanh(x * 2 + 1) * x, 0)


def blocks1(x, y):
    return step(x)


def blocks4(x, y):
    return step(step(step(step(x))))


def two_sizes(x, y):
    return step(x).sum() + step(torch.cat([x, x])).sum()


def tuples(x, y):
    return torch.cumsum(((x * 2 + 1).tanh(), y)[0], 0)


def one_loop(x, y):
    for i in range(11):
        x = torch.tanh(x * 0.5 + i)
    return x


def long_loop(x, y):
    n = int(x.size(0)) + 7
    for _ in range(n):
        x = torch.tanh(x * 0.5 + y)
    return x


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.ih = nn.Linear(8, 32)
        self.hh = nn.Linear(8, 32)

    def forward(self, x, h, c):
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell()

    def forward(self, x, y):
        h, c = y, y
        for _ in range(5):
            h, c = self.cell(x, h, c)
        return h


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.sigmoid(self.fc(x)) * 2.0 * x


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[Layer() for _ in range(3)])

    def forward(self, x, y):
        return self.layers(x * y + 1.0)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.BatchNorm1d(8) for _ in range(3)])

    def forward(self, x, y):
        for norm in self.blocks:
            x = torch.cumsum(torch.relu(norm(x)) * y + x, 0)
        return x


FUNCTIONS = (
    *(chain, split, layers, block, lonely, branch, two_regions),
    *(blocks1, blocks4, two_sizes, tuples, one_loop, long_loop),
)
PROGRAMS = {f.__name__: f for f in FUNCTIONS}
MODULES = {"recurrent": Recurrent, "stack": Stack, "normed": Normed}


def made(name):
    """``traced_`` before a name traces; the others are scripted. torch keeps what
    it has scripted, with its executor: each run gets a new one."""
    rest = name.rpartition("traced_")[2].rpartition("checked_")[2]
    torch.manual_seed(0)
    torch.jit._recursive.concrete_type_store = (
        torch.jit._recursive.ConcreteTypeStore()
    )
    if rest in MODULES:
        program = MODULES[rest]().to(DEVICE)
    else:
        program = types.FunctionType(PROGRAMS[rest].__code__, globals())
    if not name.startswith("traced_"):
        return torch.jit.script(program)
    inputs = torch.randn(4, 8, device=DEVICE), torch.randn(4, 8, device=DEVICE)
    return torch.jit.trace(program, inputs, check_trace="checked_" in name)


def groups_of(graph):
    found = []
    for node in graph.findAllNodes(KIND, True):
        body = node.g("Subgraph")
        kinds = [n.kind() for n in body.nodes() if n.kind() != "prim::Constant"]
        found.append([kinds, [type_of(v.type()) for v in body.inputs()]])
    return found


def type_of(tensor):
    if tensor.kind() != "TensorType":
        return str(tensor)
    sizes = ", ".join(map(str, tensor.sizes()))
    return (
        f"{tensor.scalarType()}({sizes}, strides={tensor.strides()}, "
        f"requires_grad={int(tensor.requires_grad())}, device={tensor.device()})"
    )


def plans_of(state):
    for plan in state.execution_plans.values():
        yield "forward", plan.graph
        for inner in plan.code.differentiable_op_executor_states():
            for phase, graph in plans_of(inner):
                yield phase, graph
        for inner in plan.code.grad_executor_states():
            for _, graph in plans_of(inner):
                yield "backward", graph


def run(name, mode, shapes):
    backward = mode == "backward"
    program = made(name)
    with torch.set_grad_enabled(backward):
        for shape in shapes:
            for _ in range(5):
                x = torch.randn(*shape, device=DEVICE, requires_grad=backward)
                y = torch.randn(*shape, device=DEVICE)
                out = program(x, y)
                if backward:
                    out.sum().backward()
    owner = getattr(program, "_c", program)
    return [
        [phase, groups_of(graph)]
        for phase, graph in plans_of(owner.get_debug_state())
    ]


def main():
    found = []
    for number, text in enumerate(sys.argv[2:]):
        name, mode, shapes = text.split(":")
        os.write(2, b"\n== %d\n" % number)
        found.append(run(name, mode, json.loads(shapes)))
    print(json.dumps(found))


main()
