"""Ten programs under AOTAutograd with a partition function that writes down, in its own words, what is saved.

Run as a script: ``OUT`` in the environment names the file. What is saved of each comes from torch's own two
partition functions on the same joint graph; bytes from the storages of the traced tensors, each once.
"""

import copy
import json
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from functorch.compile import (
    aot_function,
    default_decompositions,
    default_partition,
    memory_efficient_fusion,
    min_cut_rematerialization_partition,
    nop,
)

told = {}


def parted(graph, outputs):
    """Of a (forward, backward) pair: names saved, bytes of them, names in both."""
    forward, backward = graph
    nodes = {node.name: node for node in forward.graph.nodes}
    results = next(
        node for node in forward.graph.nodes if node.op == "output"
    ).args[0]
    kept = list(results[outputs:])
    given = {storage(node) for node in nodes.values() if node.op == "placeholder"}
    sizes = {
        storage(node): whole(node) for node in kept if storage(node) not in given
    }
    calls = [
        {n.name for n in one.graph.nodes if n.op == "call_function"}
        for one in (forward, backward)
    ]
    twice = [name for name in calls[0] & calls[1] if "getitem" not in name]
    return {
        "saved": sorted(node.name for node in kept if node.op != "placeholder"),
        "inputs": sorted(node.name for node in kept if node.op == "placeholder"),
        "bytes": sum(sizes.values()),
        "recomputed": sorted(twice),
    }


def storage(node):
    return node.meta["val"].untyped_storage()._cdata


def whole(node):
    return node.meta["val"].untyped_storage().nbytes()


def spy(name, inner):
    def partition(joint, inputs, *, num_fwd_outputs, **options):
        other = default_partition(
            copy.deepcopy(joint), inputs, num_fwd_outputs=num_fwd_outputs
        )
        made = inner(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        told[name] = {
            "made": parted(made, num_fwd_outputs),
            "default": parted(other, num_fwd_outputs),
        }
        return made

    return partition


def gelu_bias(x, b):
    return F.gelu(x + b, approximate="tanh")


def dropout_add(x, b, r):
    return F.dropout(x + b, 0.3) + r


def layer_norm(x, w, b):
    return F.layer_norm(x + 1.0, (16,), w, b) * 2


def rms_norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def attention(q, k):
    return torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ k


def reshaped(x, w):
    return (x.relu().reshape(2, 4, 16).transpose(1, 2).sin() * 2).reshape(8, 16) @ w


def two_results(x, b):
    y = (x * b).sigmoid()
    return y, y.cos() + x


def swiglu(x, w):
    a, b = (x @ w).chunk(2, -1)
    return F.silu(a) * b


def long_chain(x, b):
    for _ in range(6):
        x = (x + b).tanh() * x.sigmoid()
    return x


def normalised(x, w):
    return F.softmax(F.relu(x @ w).view(4, 2, 16), -1).mean()


def tensor(*shape):
    return torch.randn(*shape, requires_grad=True)


PROGRAMS = (
    (gelu_bias, tensor(8, 16), tensor(16)),
    (dropout_add, tensor(8, 16), tensor(16), tensor(8, 16)),
    (layer_norm, tensor(8, 16), tensor(16), tensor(16)),
    (rms_norm, tensor(8, 16), tensor(16)),
    (attention, tensor(2, 8, 16), tensor(2, 8, 16)),
    (reshaped, tensor(8, 16), tensor(16, 4)),
    (two_results, tensor(8, 16), tensor(16)),
    (swiglu, tensor(8, 16), tensor(16, 32)),
    (long_chain, tensor(8, 16), tensor(16)),
    (normalised, tensor(8, 16), tensor(16, 16)),
)

# Tracing is the point: nothing is compiled.
OPTIONS = {
    "fw_compiler": nop,
    "bw_compiler": nop,
    "decompositions": default_decompositions,
}

if __name__ == "__main__":
    for program, *inputs in PROGRAMS:
        name = program.__name__
        cut = spy(name + " min-cut", min_cut_rematerialization_partition)
        memory_efficient_fusion(program, partition_fn=cut, **OPTIONS)(*inputs)
        aot_function(
            program,
            partition_fn=spy(name + " default", default_partition),
            **OPTIONS,
        )(*inputs)
    Path(os.environ["OUT"]).write_text(json.dumps(told), "utf-8")
