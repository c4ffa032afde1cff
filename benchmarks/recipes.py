"""Tries every recipe of fusiondoc/changes/recipes.py on this machine and prints
what it changes.

    python benchmarks/recipes.py nvfuser        # torch 1.12 to 2.1 with CUDA
    python benchmarks/recipes.py nnc            # on the CPU
    python benchmarks/recipes.py nnc --json     # as tests/test_recipes.py reads it

Needs torch and fusiondoc only. For each recipe: eager outputs and gradients of both
ways to write it, in several dtypes; the operators of its scripted graph; and a
small program around it under the fuser, before and after: its groups, the operators
in them, and the largest difference of the fused result from eager.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fusiondoc.changes.recipes import RECIPES, Recipe
from fusiondoc.operators import VIEWS

KINDS = {"nvfuser": "prim::CudaFusionGroup", "nnc": "prim::TensorExprGroup"}
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
}
NO_WORK = {
    "aten::chunk",
    "aten::size",
    "aten::dim",
    "prim::dtype",
    "prim::device",
} | VIEWS
RUNS = 4


@dataclass
class Outcome:
    name: str
    replaces: list[str]
    difference: dict[str, float] = field(default_factory=dict)
    """dtype -> largest difference of outputs, over the largest output and in units
    of the dtype's epsilon; of the dtypes that eager has on this device."""
    gradient: dict[str, float] = field(default_factory=dict)
    operators: list[str] = field(default_factory=list)
    """Of the scripted ``after`` that have a tensor as output; views are left
    out."""
    groups: list[int] = field(default_factory=list)
    """Before and after."""
    fused: list[int] = field(default_factory=list)
    """Operators in groups, before and after."""
    fused_difference: float | None = None
    problem: str | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fuser", choices=sorted(KINDS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    use(asked.fuser)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [
            tried(recipe, i, asked.fuser, Path(folder))
            for i, recipe in enumerate(RECIPES)
        ]
    if asked.json:
        print(json.dumps([asdict(one) for one in outcomes]))
        return
    print(
        f"torch {torch.__version__}, {asked.fuser}: operators in groups and groups, before and after"
    )
    for one in outcomes:
        if one.problem:
            print(f"{one.name:60} {one.problem}")
            continue
        groups, fused = (
            " -> ".join(map(str, pair)) for pair in (one.groups, one.fused)
        )
        print(
            f"{one.name:60} {fused} in {groups}, difference {one.fused_difference:.1e} from eager"
        )


def use(fuser: str) -> None:
    if fuser == "nvfuser":
        torch._C._jit_set_texpr_fuser_enabled(False)
        torch._C._jit_set_nvfuser_enabled(True)
    else:
        torch._C._jit_override_can_fuse_on_cpu(True)
        torch._C._jit_set_te_must_use_llvm_cpu(False)
        torch._C._jit_set_texpr_reductions_enabled(True)


def tried(recipe: Recipe, index: int, fuser: str, folder: Path) -> Outcome:
    outcome = Outcome(recipe.after, sorted(recipe.replaces))
    device = "cuda" if fuser == "nvfuser" else "cpu"
    try:
        made = module_of(recipe, index, folder)
        for name, dtype in DTYPES.items():
            try:
                output, gradient = differences(
                    made, inputs_of(recipe, dtype, device)
                )
            except RuntimeError as error:
                if "not implemented for" not in str(error):
                    raise
                continue  # by eager itself, such as LSTM cells of bfloat16 on CUDA up to torch 2.1
            outcome.difference[name] = output
            if gradient is not None:
                outcome.gradient[name] = gradient
        outcome.operators = operators_of(torch.jit.script(made.after))
        for function in (made.program_before, made.program_after):
            values = inputs_of(recipe, torch.float32, device)
            groups, fused, apart = under_fuser(function, values, KINDS[fuser])
            outcome.groups.append(groups)
            outcome.fused.append(fused)
            outcome.fused_difference = max(outcome.fused_difference or 0.0, apart)
    except (RuntimeError, AttributeError, TypeError) as error:
        outcome.problem = (str(error).strip().splitlines() or ["?"])[0][:200]
    return outcome


def names_of(recipe: Recipe) -> dict[str, str]:
    return dict(text.split("=", 1) for text in recipe.inputs.split())


def inputs_of(
    recipe: Recipe, dtype: torch.dtype, device: str
) -> list[torch.Tensor]:
    torch.manual_seed(0)
    made = []
    for text in names_of(recipe).values():
        kind, sizes = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()
        shape = [int(size) for size in sizes.split(",") if size]
        if kind == "bool":
            made.append((torch.rand(shape) > 0.5).to(device))
        elif kind == "probability":
            made.append((torch.rand(shape) * 0.8 + 0.1).to(device, dtype))
        else:
            made.append((torch.randn(shape) * 2).to(device, dtype))
    return made


def module_of(recipe: Recipe, index: int, folder: Path) -> ModuleType:
    """A file with ``before`` and ``after``, alone and between operators that
    fuse."""
    names = list(names_of(recipe))
    arguments, first = ", ".join(names), names[0]
    lines = ["import torch", "import torch.nn.functional as F", "", recipe.helper]
    for which, text in (("before", recipe.before), ("after", recipe.after)):
        lines += [f"def {which}({arguments}):", f"    return {text}", ""]
    probe = load("\n".join(lines), f"recipe_{index}_alone", folder)
    result = probe.after(*inputs_of(recipe, torch.float32, "cpu"))
    for which, text in (("before", recipe.before), ("after", recipe.after)):
        lines += [
            f"def program_{which}({arguments}):",
            f"    {first} = torch.sigmoid({first} * 1.5)",
        ]
        lines += [f"    made = {text}"]
        value = "made[0]" if isinstance(result, tuple) else "made"
        if isinstance(result, torch.Tensor) and result.dtype == torch.bool:
            value = f"torch.where(made, {first}, {first} * 2.0)"
        lines += [f"    return torch.tanh({value} * 0.5)", ""]
    return load("\n".join(lines), f"recipe_{index}", folder)


def load(text: str, name: str, folder: Path) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def differences(
    made: ModuleType, values: list[torch.Tensor]
) -> tuple[float, float | None]:
    found: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []
    for function in (made.before, made.after):
        own = [
            v.detach().clone().requires_grad_(v.is_floating_point()) for v in values
        ]
        result = function(*own)
        outputs = list(result) if isinstance(result, tuple) else [result]
        gradients = []
        if outputs[0].requires_grad:
            torch.manual_seed(1)
            total = sum(
                (o * torch.rand_like(o)).sum() for o in outputs if o.requires_grad
            )
            try:
                total.backward()
            except RuntimeError as error:  # floor_divide has no derivative
                if "derivative for" not in str(error):
                    raise
            gradients = (
                []
                if all(v.grad is None for v in own)
                else [
                    torch.zeros_like(v) if v.grad is None else v.grad
                    for v in own
                    if v.requires_grad
                ]
            )
        found.append((outputs, gradients))
    (before, grad_before), (after, grad_after) = found
    return apart(before, after), apart(
        grad_before, grad_after
    ) if grad_before and grad_after else None


def apart(before: list[torch.Tensor], after: list[torch.Tensor]) -> float:
    worst = 0.0
    for a, b in zip(before, after):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        a64, b64 = a.detach().double(), b.detach().double()
        unit = torch.finfo(a.dtype).eps if a.is_floating_point() else 1.0
        scale = max(1.0, float(a64.abs().max()))
        worst = max(
            worst, float((a64 - b64).abs().nan_to_num(1e30).max()) / scale / unit
        )
    return worst


def operators_of(scripted: Any) -> list[str]:
    """Tensor operators that are no views, as the optimiser leaves them: chunk is a
    prim::ConstantChunk."""
    graph = scripted.inlined_graph.copy()
    torch._C._jit_pass_constant_propagation(graph)
    torch._C._jit_pass_canonicalize_graph_fuser_ops(graph)
    found = set()
    for node in every_node(graph):
        kind = node.kind()
        tensors = any("Tensor" in str(out.type()) for out in node.outputs())
        if (
            tensors
            and kind not in NO_WORK
            and not kind.startswith(("prim::List", "prim::Tuple", "prim::If"))
        ):
            found.add(kind)
    return sorted(
        found - {"prim::Constant", "prim::unchecked_cast", "prim::RaiseException"}
    )


def every_node(block: Any) -> list[Any]:
    found = []
    for node in block.nodes():
        found.append(node)
        for inner in node.blocks():
            found += every_node(inner)
    return found


def under_fuser(
    function: Callable[..., Any], values: list[torch.Tensor], kind: str
) -> tuple[int, int, float]:
    scripted = torch.jit.script(function)
    with torch.no_grad():
        for _ in range(RUNS):
            result = scripted(*[v.clone() for v in values])
        expected = function(*[v.clone() for v in values])
    graph = torch.jit.last_executed_optimized_graph()
    groups = graph.findAllNodes(kind, True)
    fused = sum(
        node.kind() != "prim::Constant"
        for group in groups
        for node in group.g("Subgraph").nodes()
    )
    return (
        len(groups),
        fused,
        float((result.double() - expected.double()).abs().max()),
    )


if __name__ == "__main__":
    main()
