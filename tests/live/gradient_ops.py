"""Run in a child beside torch: which operators the pass that makes differentiable
graphs takes, tried on one small graph an operator. Prints the taken and the tried
ones as a JSON list each."""

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from one_op_graphs import graph

C = torch._C


def takes(text):
    """Whether a differentiable graph swallows the operator of this graph; None if
    the graph is no good."""
    try:
        parsed = C.parse_ir(text.replace("requires_grad=0", "requires_grad=1"))
        C._jit_pass_create_autodiff_subgraphs(parsed, 1)
    except RuntimeError:
        return None
    return [node.kind() for node in parsed.nodes()]


def main():
    taken, tried = set(), set()
    for schema in C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or any(
            one.name == "out" for one in schema.arguments
        ):
            continue
        for integers in (False, True):
            text = graph(schema, "Float", integers, True)
            kinds = takes(text) if text else None
            if kinds is None:
                continue
            tried.add(schema.name)
            if "prim::DifferentiableGraph" in kinds and schema.name not in kinds:
                taken.add(schema.name)
    print(json.dumps([sorted(taken), sorted(tried)]))


main()
