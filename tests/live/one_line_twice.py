"""One line of a program that runs twice, with other neighbours each time, under NNC
on the CPU.

The JIT log goes to stderr. Prints, as JSON, what torch's own graph API finds of the
line's operators in the plan, in order: kind of the node that makes the input, and
kinds of those that take the result.
"""

import json

import torch

torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)


def activation(x):
    return torch.tanh(x)


def model(x, w):
    first = activation(torch.mm(x, w))
    scaled = torch.relu(torch.mm(first, w) + 1.0) * 2.0
    second = activation(torch.cumsum(scaled, 0))
    return torch.mm(second, w)


with torch.no_grad():
    scripted = torch.jit.script(model)
    for _ in range(4):
        scripted(torch.ones(8, 8), torch.ones(8, 8))

plan = torch.jit.last_executed_optimized_graph()
print(
    json.dumps(
        [
            [
                node.input().node().kind(),
                [use.user.kind() for use in node.output().uses()],
            ]
            for node in plan.findAllNodes("aten::tanh", False)
        ]
    )
)
