"""Runs programs on the CPU, the first without a fuser, the others under NNC.

The JIT log goes to stderr; each program begins with a line ``== NAME``. Prints, as
JSON, for each program the values that torch's own graph API finds between operators
of its plan: kind of the maker, kind of the taker, bytes (null where the graph has
no sizes).
"""

import json
import sys

import torch


def unfused(x, y):
    a = (x * y).relu()
    return (torch.cumsum(a, 0) + a).tanh() * a


def around(x, y):
    a = (x * y).relu()
    return (torch.cumsum(a, 0) + a).tanh()


def viewed(x, y):
    return torch.mm((x * y + 1.0).relu().t(), y)


def takers(value):
    for use in value.uses():
        if use.user.kind() == "prim::profile":
            yield from takers(use.user.output())
        elif use.user.kind().startswith("aten::"):
            yield use.user


def between(graph):
    found = []
    for node in graph.nodes():
        for value in node.outputs() if node.kind().startswith("aten::") else ():
            sizes = value.type().sizes()
            size = 4 * sizes[0] * sizes[1] if sizes else None
            found += [[node.kind(), taker.kind(), size] for taker in takers(value)]
    return found


torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
found = {}
for function in (unfused, around, viewed):
    torch._C._jit_set_texpr_fuser_enabled(function is not unfused)
    sys.stderr.write(f"== {function.__name__}\n")
    scripted = torch.jit.script(function)
    with torch.no_grad():
        for _ in range(4):
            scripted(torch.ones(4, 8), torch.ones(4, 8))
    found[function.__name__] = between(torch.jit.last_executed_optimized_graph())
print(json.dumps(found))
