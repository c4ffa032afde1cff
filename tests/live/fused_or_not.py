"""Runs programs on the CPU without a fuser, whose plans go to stderr as the JIT
log, and under NNC.

Each log begins with a line ``== NAME``. Prints, as JSON, the groups that torch's
own graph API finds in the plans under NNC: for each program the operators of each
group, in order.
"""

import json
import sys
import types

import torch


def chain(x, y):
    return ((x + y).relu() * y).tanh()


def split(x, y):
    a = (x + y).relu() * 2.0
    b = torch.cumsum(a, 0)
    return (b * y).sigmoid() + b


def around(x, y):
    """The product waits for the sum of rows, which waits for the group before
    it."""
    a = (x * y).relu()
    return (torch.cumsum(a, 0) + a).tanh()


def plan(function, fuser):
    torch._C._jit_set_texpr_fuser_enabled(fuser)
    again = types.FunctionType(
        function.__code__, globals()
    )  # torch keeps what it scripted of a function
    scripted = torch.jit.script(again)
    with torch.no_grad():
        for _ in range(4):
            scripted(torch.ones(4, 8), torch.ones(4, 8))
    return torch.jit.last_executed_optimized_graph()


torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
found = {}
for function in (chain, split, around):
    sys.stderr.write(f"== {function.__name__}\n")
    plan(function, False)
    sys.stderr.write("== under the fuser\n")
    groups = plan(function, True).findAllNodes("prim::TensorExprGroup", True)
    found[function.__name__] = [
        [
            node.kind()
            for node in group.g("Subgraph").nodes()
            if node.kind() != "prim::Constant"
        ]
        for group in groups
    ]
print(json.dumps(found))
