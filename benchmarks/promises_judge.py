"""Values, groups and operators of programs, by torch alone; ``promises.py`` runs it in a child process.

    python promises_judge.py nnc|nvfuser 0|1 PROGRAM [CHANGED ...]

The first program is the original: each other is compared with it, in eager mode. A line of JSON a program.
"""

from __future__ import annotations

import collections
import copy
import json
import re
import runpy
import sys
from collections.abc import Iterator
from typing import Any

import torch

GROUPS = ("prim::TensorExprGroup", "prim::CudaFusionGroup")
GUARDS = (
    "prim::TypeCheck",
    "prim::RequiresGradCheck",
    "prim::CudaFusionGuard",
    "prim::TensorExprDynamicGuard",
    "prim::AutogradAllNonZero",
    "prim::AutogradAllZero",
)
VIEWS = [
    f"aten::{name}"
    for name in (
        *("view", "reshape", "t", "transpose", "permute", "expand", "expand_as", "unsqueeze", "squeeze"),
        *("slice", "select", "detach", "flatten", "chunk", "split", "narrow", "size", "unbind", "alias"),
    )
]
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 2e-2, torch.float32: 1e-4, torch.float64: 1e-8}
WARM_RUNS = 4  # two profiled, then the optimised plan, then one more


def load(path: str, device: str) -> tuple[Any, tuple[Any, ...]]:
    """``model`` and ``inputs`` of a program, with the same random numbers every time."""
    torch.manual_seed(0)
    names = runpy.run_path(path)
    inputs = names["inputs"]() if callable(names["inputs"]) else names["inputs"]
    if isinstance(inputs, list):
        inputs = inputs[0]
    model = names["model"]
    if isinstance(model, torch.nn.Module):
        model = model.to(device)
    return model, tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in inputs)


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in tensors(part)]
    return []


def run(model: Any, inputs: tuple[Any, ...], backward: bool) -> list[torch.Tensor]:
    """One pass: outputs, arguments as they are afterwards, buffers, and gradients."""
    torch.manual_seed(1)
    given = [copy_of(value) for value in inputs]
    passed = [value.clone() if isinstance(value, torch.Tensor) else value for value in given]
    outputs = tensors(model(*passed))
    results = [*outputs, *tensors(passed)]
    module = isinstance(model, torch.nn.Module)
    if module:
        results += list(model.buffers())
    sources = [value for value in given if isinstance(value, torch.Tensor) and value.requires_grad]
    sources += [one for one in model.parameters() if one.requires_grad] if module else []
    if backward:
        loss = [value.float().sum() for value in outputs if value.requires_grad]
        if loss and sources:
            grads = torch.autograd.grad(sum(loss), sources, allow_unused=True)
            results += [torch.zeros(()) if grad is None else grad for grad in grads]
    return [value.detach().clone() for value in results]


def copy_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return copy.deepcopy(value)


def difference(one: list[torch.Tensor], other: list[torch.Tensor]) -> str | None:
    """How the results of two programs differ beyond the tolerance of their dtype."""
    if len(one) != len(other):
        return f"{len(one)} results, and {len(other)} changed"
    for index, (a, b) in enumerate(zip(one, other)):
        tolerance = TOLERANCE.get(a.dtype, 0.0)
        try:
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
        except AssertionError as error:
            return f"result {index} differs: " + " ".join(str(error).split())[:200]
    return None


def plans(scripted: Any) -> Iterator[Any]:
    """The optimised graphs of all executors of a program, of its differentiable graphs and gradients.

    Found as by ``_script_method_graph_for`` of torch/jit/_fuser.py (2.13). Torch has those of gradients
    only for some programs.
    """
    for plan in scripted.get_debug_state().execution_plans.values():
        yield plan.graph
        inner = plan.code.differentiable_op_executor_states() + plan.code.grad_executor_states()
        for state in inner:
            for inner_plan in state.execution_plans.values():
                yield inner_plan.graph


def count(block: Any, found: dict[str, Any], in_group: bool) -> None:
    """Counts groups and operators with a tensor as their result, through branches."""
    for node in block.nodes():
        kind = node.kind()
        if kind in GROUPS:
            found["groups"] += 1
            count(node.g("Subgraph"), found, True)
        elif kind.startswith("aten::") and any(is_tensor(out) for out in node.outputs()):
            if in_group:
                found["inside"] += 1
            else:
                found["outside"][kind] += 1
        blocks = list(node.blocks())
        for inner in blocks[:1] if is_guard(node) else blocks:
            count(inner, found, in_group)


def is_guard(node: Any) -> bool:
    """True for the branch at a guard of types: its second block is the same operators, unfused."""
    if node.kind() != "prim::If":
        return False
    condition = node.inputsAt(0).node()
    if condition.kind() == "aten::all":  # of a list of booleans
        parts = next(condition.inputs()).node()
        return any(part.node().kind() in GUARDS for part in parts.inputs())
    return condition.kind() in GUARDS


def is_tensor(value: Any) -> bool:
    return value.type().isSubtypeOf(torch._C.TensorType.get()) or str(value.type()) == "Tensor[]"


def lines_of(scripted: Any, path: str) -> dict[str, list[str]]:
    """By line of the program, the operators that stand there, also in functions that it calls."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    seen: set[str] = set()
    if isinstance(scripted, torch.jit.ScriptModule):
        for module in scripted.modules():
            if hasattr(module, "forward"):
                walk_calls(module.graph, module, path, found, seen)
    else:
        walk_calls(scripted.graph, None, path, found, seen)
    return {line: sorted(ops) for line, ops in found.items()}


def walk_calls(block: Any, owner: Any, path: str, found: dict[str, set[str]], seen: set[str]) -> set[str]:
    """Operators of a graph before inlining; of each line of the program into ``found``."""
    operators: set[str] = set()
    for node in block.nodes():
        ops = {node.kind()} if node.kind().startswith("aten::") else set()
        if node.kind() == "prim::CallFunction":
            ops |= of_function(node, path, found, seen)
        elif node.kind() == "prim::CallMethod":
            called = module_of(node.inputsAt(0), owner)
            method = getattr(called, node.s("name"), None)
            if method is not None and hasattr(method, "graph"):
                ops |= walk_calls(method.graph, called, path, found, seen)
        for inner in node.blocks():
            ops |= walk_calls(inner, owner, path, found, seen)
        line = re.search(r'File "([^"]+)", line (\d+)', node.sourceRange())
        if ops and line and line[1] == path:
            found[line[2]] |= ops
        operators |= ops
    return operators


def of_function(node: Any, path: str, found: dict[str, set[str]], seen: set[str]) -> set[str]:
    name = node.inputsAt(0).node().s("name")
    for full in (str(node.inputsAt(0).type()), name):
        function = torch.jit._state._python_cu.find_function(full)
        if function is not None and full not in seen:
            return walk_calls(function.graph, None, path, found, seen | {full})
    return {f"aten::{name}"}


def module_of(value: Any, owner: Any) -> Any:
    """The submodule that a value of a graph is, by the attributes that lead to it."""
    if value.node().kind() != "prim::GetAttr":
        return owner
    parent = module_of(value.node().inputsAt(0), owner)
    return getattr(parent, value.node().s("name"), None)


def measure(path: str, expected: list[torch.Tensor] | None, fuser: str, backward: bool) -> tuple[Any, Any]:
    """The row of a program, and its results in eager mode."""
    device = "cuda" if fuser == "nvfuser" else "cpu"
    model, inputs = load(path, device)
    results = run(model, inputs, backward)
    error = None if expected is None else difference(expected, results)
    model, inputs = load(path, device)
    scripted = model if hasattr(model, "graph") else torch.jit.script(model)
    for _ in range(WARM_RUNS):
        run(scripted, inputs, backward)
    found: dict[str, Any] = {"groups": 0, "inside": 0, "outside": collections.Counter()}
    for graph in plans(scripted):
        count(graph, found, False)
    row = {"path": path, "error": error, "views": VIEWS, "ops_of_lines": lines_of(scripted, path), **found}
    return row, results


def main() -> None:
    fuser, backward, *paths = sys.argv[1:]
    expected = None
    with torch.jit.fuser("fuser1" if fuser == "nnc" else "fuser2"):
        torch._C._jit_override_can_fuse_on_cpu(True)
        torch._C._jit_set_te_must_use_llvm_cpu(False)  # a build without LLVM interprets its kernels
        for path in paths:
            try:
                row, results = measure(path, expected, fuser, backward == "1")
                expected = results if expected is None else expected
            except Exception as error:
                row = {"path": path, "error": f"{type(error).__name__}: {str(error).strip()[:200]}"}
            print("JUDGE " + json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
