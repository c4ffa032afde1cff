"""Runs one program under a fuser and prints, as JSON, the groups that torch's own
graph API finds.

    python groups_oracle.py nnc|nvfuser PROGRAM.py inference|backward [--trace]

The program names ``model``, a function or a module, and ``inputs``, a tuple. nnc
runs on the CPU, nvfuser on the GPU. The JIT log goes to stderr meanwhile.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import sys

import torch

PASSES = 6
KINDS = {"nnc": "prim::TensorExprGroup", "nvfuser": "prim::CudaFusionGroup"}


def set_up(fuser: str) -> None:
    """Turn on one fuser; both switches of NNC are needed on the CPU."""
    if fuser == "nvfuser":
        torch._C._jit_set_texpr_fuser_enabled(False)
        torch._C._jit_override_can_fuse_on_gpu(False)
        torch._C._jit_set_nvfuser_enabled(True)
        return
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_te_must_use_llvm_cpu(False)


def load(path: str):
    """The module of a program, and its path as torch's source ranges name it."""
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return module


def moved(value, device: str, gradients: bool):
    """Inputs on the device; floating tensors record gradients if they are
    wanted."""
    if isinstance(value, torch.Tensor):
        value = value.detach().clone().to(device)
        return value.requires_grad_(gradients and value.is_floating_point())
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device, gradients) for item in value)
    if isinstance(value, dict):
        return {key: moved(item, device, gradients) for key, item in value.items()}
    return value


def tensors_of(value):
    """All tensors in the outputs of a program."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def type_of(kind) -> str:
    """A type as the logs print it."""
    if kind.kind() == "NumberType":
        return "Scalar"
    if kind.kind() != "TensorType":
        return str(kind)
    facts = list(map(str, kind.sizes()))
    if facts and kind.strides() is not None:  # unknown strides are not printed
        facts.append(f"strides={kind.strides()}")
    facts += [
        f"requires_grad={int(kind.requires_grad())}",
        f"device={kind.device()}",
    ]
    return f"{kind.scalarType()}({', '.join(facts)})"


def groups_of(graph, kind: str):
    """Operators and input types of each fusion group of a plan."""
    found = []
    for node in graph.findAllNodes(kind, True):
        body = node.g("Subgraph")
        operators = [
            inner.kind()
            for inner in body.nodes()
            if inner.kind() != "prim::Constant"
        ]
        found.append(
            [operators, [type_of(value.type()) for value in body.inputs()]]
        )
    return found


class Listed:
    """The plans that torch lists of an executor, of its differentiable graphs and
    of their gradients."""

    def __init__(self) -> None:
        self.plans = []
        """(phase, graph)."""
        self.gradients_missing = False
        """torch raises for the gradients of a graph if one of them has no plan yet
        (optimized_plan_ INTERNAL ASSERT FAILED, profiling_graph_executor_impl.cpp):
        none of that graph is listed."""

    def add(self, state, phase: str) -> None:
        """Add the plans of an executor."""
        for plan in state.execution_plans.values():
            self.plans.append((phase, plan.graph))
            for inner in plan.code.differentiable_op_executor_states():
                self.add(inner, phase)
            try:
                gradients = plan.code.grad_executor_states()
            except RuntimeError:
                self.gradients_missing = True
                continue
            for inner in gradients:
                self.add(inner, "backward")


def main() -> None:
    """Run the program, then print what torch lists."""
    parser = argparse.ArgumentParser()
    parser.add_argument("fuser", choices=KINDS)
    parser.add_argument("program")
    parser.add_argument("mode", choices=("inference", "backward"))
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    set_up(options.fuser)
    device = "cuda" if options.fuser == "nvfuser" else "cpu"
    backward = options.mode == "backward"
    torch.manual_seed(0)
    module = load(options.program)
    model = module.model
    if isinstance(model, torch.nn.Module):
        model = copy.deepcopy(model).to(device).train(backward)
    elif isinstance(model, type):
        model = model().to(device).train(backward)
    if isinstance(model, torch.jit.ScriptFunction | torch.jit.ScriptModule):
        program = model
    elif options.trace:
        program = torch.jit.trace(
            model, moved(module.inputs, device, backward), check_trace=False
        )
    else:
        program = torch.jit.script(model)
    with torch.set_grad_enabled(backward):
        for _ in range(PASSES):
            out = program(*moved(module.inputs, device, backward))
            losses = [
                part.float().sum() for part in tensors_of(out) if part.requires_grad
            ]
            if backward and losses:
                sum(losses).backward()
    owner = getattr(program, "_c", program)
    listed = Listed()
    listed.add(owner.get_debug_state(), "forward")
    plans = [
        [phase, groups_of(graph, KINDS[options.fuser])]
        for phase, graph in listed.plans
    ]
    print(
        json.dumps({"plans": plans, "gradients_missing": listed.gradients_missing})
    )


if __name__ == "__main__":
    main()
