"""Values, groups and operators of programs, by torch alone; ``promises.py`` runs it
in a child process.

    python promises_judge.py nnc|nvfuser 0|1 PROGRAM [CHANGED ...]

The first program is the original: each other is compared with it, in eager mode. A
line of JSON a program.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import json
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

GROUPS = ("prim::TensorExprGroup", "prim::CudaFusionGroup")
EXECUTOR = "profiling_graph_executor_impl"
PREFIX = re.compile(r"^\[\w+ [\w.]+:\d+\] ")
HEADER = re.compile(r"^[A-Z]\w* Graph *: *$")
SECTION = re.compile(r"^with (prim::[A-Za-z]+)_\d+ = graph\(")
PARAMETER = re.compile(r"^(?:graph\(|with .* = graph\(| +)(%[^ ]+) : (.*?)[,):]*$")
NUMBER = re.compile(
    r"%\d+$"
)  # of a value without a name: the same value has others elsewhere
NODE = re.compile(r"^ +(%.*?) = (\w+::\w+)")
TENSOR = re.compile(
    r": (Tensor|Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool|ComplexFloat|ComplexDouble)\b"
)
NO_WORK = [  # views, what makes a tensor of constants, and elements of lists
    f"aten::{name}"
    for name in (
        *(
            "zeros",
            "ones",
            "full",
            "empty",
            "zeros_like",
            "ones_like",
            "full_like",
            "empty_like",
        ),
        *(
            "view",
            "reshape",
            "t",
            "transpose",
            "permute",
            "expand",
            "expand_as",
            "unsqueeze",
            "squeeze",
        ),
        *(
            "slice",
            "select",
            "detach",
            "flatten",
            "chunk",
            "split",
            "narrow",
            "size",
            "unbind",
            "alias",
        ),
        "__getitem__",
    )
]
OWN_EXECUTOR = ("prim::DifferentiableGraph", "prim::Fallback")
TOLERANCE = {
    torch.float16: 1e-2,
    torch.bfloat16: 2e-2,
    torch.float32: 1e-4,
    torch.float64: 1e-8,
}
WARM_RUNS = 4  # two profiled, then the optimised plan, then one more


class Node(NamedTuple):
    """A node of a printed plan."""

    kind: str
    type: str
    source: str


Names = tuple[str, ...]


def load(path: str, device: str) -> tuple[Any, tuple[Any, ...]]:
    """``model`` and ``inputs`` of a program, with the same random numbers every
    time."""
    torch.manual_seed(0)
    names = runpy.run_path(path)
    inputs = names["inputs"]() if callable(names["inputs"]) else names["inputs"]
    if isinstance(inputs, list):
        inputs = inputs[0]
    model = names["model"]
    if isinstance(model, torch.nn.Module):
        model = model.to(device)
    return model, moved(inputs, device)


def moved(value: Any, device: str) -> Any:
    """The same with all its tensors on a device, those in lists too (the state of
    an optimiser). Leaves that require a gradient stay leaves."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: moved(part, device) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [moved(part, device) for part in value]
        return (
            type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        )
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in tensors(part)]
    return []


def eager_results(path: str, device: str, backward: bool) -> list[torch.Tensor]:
    """What a program computes in eager mode.

    Where random numbers decide, those of a module in evaluation: an operator and
    the same in place may draw others from one seed (dropout on a GPU does). Of a
    function only the shapes are left to compare.
    """
    one, other = (run(*load(path, device), backward, seed=seed) for seed in (1, 2))
    if difference(one, other) is None:
        return one
    model, inputs = load(path, device)
    if isinstance(model, torch.nn.Module):
        return run(model.eval(), inputs, backward)
    return [torch.zeros_like(value) for value in one]


def run(
    model: Any,
    inputs: tuple[Any, ...],
    backward: bool,
    printed: tuple[list[str], list[str]] = ([], []),
    seed: int = 1,
) -> list[torch.Tensor]:
    """One pass: outputs, arguments as they are afterwards, buffers, and gradients.

    As ``fusiondoc diagnose`` runs a model: without a backward pass, gradients are
    recorded only where an input asks for them.

    Args: printed: what torch prints goes there, in the forward and in the backward
        pass.
    """
    torch.manual_seed(seed)
    given = [copy_of(value) for value in inputs]
    passed = [
        value.clone() if isinstance(value, torch.Tensor) else value
        for value in given
    ]
    recorded = backward or any(value.requires_grad for value in tensors(passed))
    with printed_to(printed[0]), torch.set_grad_enabled(recorded):
        outputs = tensors(model(*passed))
    results = [*outputs, *tensors(passed)]
    module = isinstance(model, torch.nn.Module)
    if module:
        results += list(model.buffers())
    sources = [
        value
        for value in given
        if isinstance(value, torch.Tensor) and value.requires_grad
    ]
    sources += (
        [one for one in model.parameters() if one.requires_grad] if module else []
    )
    if backward:
        loss = [value.float().sum() for value in outputs if value.requires_grad]
        if loss and sources:
            with printed_to(printed[1]):
                grads = torch.autograd.grad(sum(loss), sources, allow_unused=True)
            results += [torch.zeros(()) if grad is None else grad for grad in grads]
    return [value.detach().clone() for value in results]


def copy_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return copy.deepcopy(value)


def difference(one: list[torch.Tensor], other: list[torch.Tensor]) -> str | None:
    """How the results of two programs differ beyond the tolerance of their
    dtype."""
    if len(one) != len(other):
        return f"{len(one)} results, and {len(other)} changed"
    for index, (a, b) in enumerate(zip(one, other)):
        tolerance = TOLERANCE.get(a.dtype, 0.0)
        try:
            torch.testing.assert_close(
                a, b, rtol=tolerance, atol=tolerance / 10, equal_nan=True
            )
        except AssertionError as error:
            return f"result {index} differs: " + " ".join(str(error).split())[:200]
    return None


@contextlib.contextmanager
def printed_to(lines: list[str]) -> Iterator[None]:
    """Append the lines that torch prints of its graph executors meanwhile, without
    their prefix."""
    torch._C._jit_set_logging_option(EXECUTOR)
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
            lines += (PREFIX.sub("", line) for line in text.splitlines())


def count(lines: list[str]) -> dict[str, Any]:
    """Groups, and operators with a tensor as their result, inside groups and
    outside, of all plans.

    A plan is printed once, when its executor has made it: "Optimized Graph", the
    plan, and below it a section for each graph in it
    (profiling_graph_executor_impl.cpp, 2.13). Those of differentiable graphs are
    plans of their own. Where the guard of a group fails, its operators get a plan
    of their own for other types: that is no group more. A plan with the parameters
    of a differentiable graph may be that of another layer: there are as many as
    graphs with these operators in the outer plan (a fallback, as in the first step
    of a loop whose state has no gradient yet, has other names of its parameters),
    or, where torch changed these, with parameters of these names. The debug state of
    the executors has the plans as objects, but not of gradients where one of them
    never ran (it asserts that).
    """
    found: dict[str, Any] = {
        "groups": 0,
        "inside": 0,
        "outside": collections.Counter(),
    }
    bodies: dict[tuple[str, ...], set[str]] = {}
    seen: collections.Counter[tuple[Names, Names]] = collections.Counter()
    expected: collections.Counter[Names] = collections.Counter()
    of_names: collections.Counter[Names] = collections.Counter()
    regions = False
    for sections in plans(lines):
        inner = [one for one in sections if one.name == OWN_EXECUTOR[0]]
        if not regions:  # those of fallbacks are in it too
            expected.update(operators_of(one.nodes) for one in inner)
            of_names.update(tuple(sorted(one.parameters)) for one in inner)
        regions = regions or bool(inner)
        own = [one for one in sections if not one.name.startswith(OWN_EXECUTOR)]
        nodes = [(one.name, node) for one in own for node in one.nodes]
        operators = operators_of([node for _, node in nodes])
        others = bodies.get(operators)
        parameters = tuple(sorted(sections[0].parameters))
        if (
            not (regions and of_names[parameters])
            and others is not None
            and types_of(own) not in others
        ):
            continue
        known = operators in expected
        which = ((), operators) if known else (parameters, operators)
        seen[which] += 1
        if seen[which] > (
            expected[operators] if known else max(1, of_names[parameters])
        ):
            continue
        for name, node in nodes:
            if node.kind in GROUPS:
                found["groups"] += 1
            elif name in GROUPS:
                found["inside"] += 1
            else:
                found["outside"][node.kind] += 1
        for one in own:
            if one.name in GROUPS:
                bodies.setdefault(operators_of(one.nodes), set()).add(
                    types_of([one])
                )
    return found


def operators_of(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(
        sorted(node.kind + node.source for node in nodes if node.kind not in GROUPS)
    )


def types_of(sections: list[Section]) -> str:
    """The types of the results of operators, and of the inputs of groups."""
    types = [
        node.type
        for one in sections
        for node in one.nodes
        if node.kind not in GROUPS
    ]
    for one in sections:
        types += one.types if one.name in GROUPS else ()
    return " ".join(sorted(types))


class Section(NamedTuple):
    """A graph of a plan."""

    name: str
    """Its kind; "" is the plan itself."""
    parameters: list[str]
    types: list[str]
    """Of the parameters."""
    nodes: list[Node]
    """Groups, and operators of tensors."""


def plans(lines: list[str]) -> Iterator[list[Section]]:
    """The sections of each plan."""
    sections: list[Section] = []
    for line in lines:
        section, node = SECTION.match(line), NODE.match(line)
        if HEADER.match(line):
            if sections:
                yield sections
            sections = (
                [Section("", [], [], [])]
                if line.startswith("Optimized Graph")
                else []
            )
        elif section is not None and sections:
            sections.append(Section(section[1], [], [], []))
        if node is not None and sections:
            kind = re.sub(r"_\d+$", "", node[2])
            if kind in GROUPS or (
                kind.startswith("aten::") and TENSOR.search(node[1])
            ):
                found = Node(
                    kind, node[1].partition(" : ")[2], line.rpartition(" # ")[2]
                )
                sections[-1].nodes.append(found)
        elif sections and (parameter := PARAMETER.match(line)):
            sections[-1].parameters.append(NUMBER.sub("%", parameter[1]))
            sections[-1].types.append(parameter[2])
    if sections:
        yield sections


def lines_of(scripted: Any, path: str) -> dict[str, list[str]]:
    """By line of the program, the operators that stand there, also in functions
    that it calls."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    seen: set[str] = set()
    if isinstance(scripted, torch.jit.ScriptModule):
        for module in scripted.modules():
            if hasattr(module, "forward"):
                walk_calls(module.graph, module, path, found, seen)
    else:
        walk_calls(scripted.graph, None, path, found, seen)
    return {line: sorted(ops) for line, ops in found.items()}


def walk_calls(
    block: Any, owner: Any, path: str, found: dict[str, set[str]], seen: set[str]
) -> set[str]:
    """Operators of a graph before inlining; of each line of the program into
    ``found``."""
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


def of_function(
    node: Any, path: str, found: dict[str, set[str]], seen: set[str]
) -> set[str]:
    name = node.inputsAt(0).node().s("name")
    for full in (str(node.inputsAt(0).type()), name):
        function = torch.jit._state._python_cu.find_function(full)
        if function is not None and full not in seen:
            return walk_calls(function.graph, None, path, found, seen | {full})
    return {f"aten::{name}"}


def module_of(value: Any, owner: Any) -> Any:
    """The submodule that a value of a graph is, by the attributes that lead to
    it."""
    if value.node().kind() != "prim::GetAttr":
        return owner
    parent = module_of(value.node().inputsAt(0), owner)
    return getattr(parent, value.node().s("name"), None)


def measure(
    path: str, expected: list[torch.Tensor] | None, fuser: str, backward: bool
) -> tuple[Any, Any]:
    """The row of a program, and its results in eager mode."""
    device = "cuda" if fuser == "nvfuser" else "cpu"
    results = eager_results(path, device, backward)
    error = None if expected is None else difference(expected, results)
    model, inputs = load(path, device)
    scripted = model if hasattr(model, "graph") else torch.jit.script(model)
    printed: tuple[list[str], list[str]] = ([], [])
    for _ in range(WARM_RUNS):
        run(scripted, inputs, backward, printed)
    counts = {"forward": count(printed[0]), "backward": count(printed[1])}
    row = {
        "path": path,
        "error": error,
        "no_work": NO_WORK,
        "ops_of_lines": lines_of(scripted, path),
        **counts,
    }
    return row, results


def main() -> None:
    fuser, backward, *paths = sys.argv[1:]
    expected = None
    with torch.jit.fuser("fuser1" if fuser == "nnc" else "fuser2"):
        torch._C._jit_override_can_fuse_on_cpu(True)
        torch._C._jit_set_te_must_use_llvm_cpu(
            False
        )  # a build without LLVM interprets its kernels
        for path in paths:
            try:
                row, results = measure(path, expected, fuser, backward == "1")
                expected = results if expected is None else expected
            except Exception as error:
                text = str(error).strip()[
                    -300:
                ]  # TorchScript's own error comes last
                row = {"path": path, "error": f"{type(error).__name__}: {text}"}
            print("JUDGE " + json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
