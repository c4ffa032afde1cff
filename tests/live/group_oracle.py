"""Runs functions under a fuser and prints, as JSON, the groups that torch's own graph API finds of each.

    python group_oracle.py nnc|nvfuser [[PROGRAM, "inference"|"backward", SHAPES, LOG], ...]

nnc runs on the CPU, nvfuser on the GPU. The JIT log of each goes to its file meanwhile, as stderr: the test
compares what fusiondoc reads there with this.
"""

import json
import os
import sys
import types

import torch
import torch.nn.functional as F

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


PROGRAMS = {f.__name__: f for f in (chain, split, layers, block, lonely, branch, two_regions)}


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


def plans_after(name, backward, shapes):
    # A function of its own: torch keeps what it compiled of one, with the plans of earlier runs.
    program = PROGRAMS[name]
    function = torch.jit.script(types.FunctionType(program.__code__, program.__globals__, name))
    for shape in shapes:
        for _ in range(6):
            x = torch.randn(*shape, device=DEVICE, requires_grad=backward)
            y = torch.randn(*shape, device=DEVICE)
            out = function(x, y)
            if backward:
                out.sum().backward()
    return [[phase, groups_of(graph)] for phase, graph in plans_of(function.get_debug_state())]


found = []
for name, mode, shapes, log in json.loads(sys.argv[2]):
    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 2)
    os.close(file)
    found.append(plans_after(name, mode == "backward", shapes))
print(json.dumps(found))
