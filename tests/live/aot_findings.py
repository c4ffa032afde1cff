"""Functions under AOTAutograd that each do one thing that a report must tell.
Nothing becomes TorchScript but the last, whose backend traces the graph that
torch.compile gives it."""

import contextlib

import torch
from functorch.compile import (
    aot_function,
    default_partition,
    memory_efficient_fusion,
    nop,
)

NOTHING = {"fw_compiler": nop, "bw_compiler": nop}


def tensor(*shape):
    return torch.randn(*shape, requires_grad=True)


def anew(x):
    return (x * 2).sigmoid()


def sized(x):
    return x.view(x.size(0) // 2, 2, -1).sum(0).expand(3, 2, -1) * 2


def free(x):
    return (x * 3).tanh()


def changed(x, b):
    b.add_(x.detach())
    return x * b.sigmoid()


def overlapping(x, y):
    return (x * y).sin()


def decided(x):
    return x * 2 if x.sum() > 0 else x


def greedy(x):
    return (x.sin() * x.cos()).exp()


def keeps_more(joint, inputs, **options):
    """The default partition, and a copy of one of its tensors that nothing
    needs."""
    forward, backward = default_partition(joint, inputs, **options)
    result = next(node for node in forward.graph.nodes if node.op == "output")
    kept = result.args[0][-1]
    with forward.graph.inserting_before(result):
        copy = forward.graph.call_function(torch.ops.aten.clone.default, (kept,))
    result.args = ((*result.args[0], copy),)
    tangent = next(
        node for node in backward.graph.nodes if node.name.startswith("tangents")
    )
    with backward.graph.inserting_before(tangent):
        given = backward.graph.placeholder("copy")
    copy.meta, given.meta = dict(kept.meta), dict(kept.meta)
    forward.recompile()
    backward.recompile()
    return forward, backward


for _ in range(3):
    memory_efficient_fusion(anew, **NOTHING)(tensor(4, 8))

one = memory_efficient_fusion(sized, **NOTHING)
for rows in (4, 8):
    with contextlib.suppress(RuntimeError):
        one(tensor(rows, 8))

one = memory_efficient_fusion(free, **NOTHING)
for rows in (4, 8):
    one(tensor(rows, 8))

memory_efficient_fusion(changed, **NOTHING)(tensor(4, 8), torch.randn(4, 8))

whole = torch.randn(8, 8)
memory_efficient_fusion(overlapping, **NOTHING)(whole[:4], whole[4:])

with contextlib.suppress(Exception):
    memory_efficient_fusion(decided, **NOTHING)(tensor(4, 8))

aot_function(greedy, partition_fn=keeps_more, **NOTHING)(tensor(4, 8))


@torch.compile(backend="aot_eager")
def cut(x):
    y = x * 2
    print("in between")
    return y.sin() + 1


cut(tensor(4, 8)).sum().backward()


@torch.compile(backend=lambda graph, args: torch.jit.trace(graph, args))
def plain(x):
    y = x.sigmoid() * x
    return y.tanh() + 1


for _ in range(4):
    plain(torch.ones(4, 8))
