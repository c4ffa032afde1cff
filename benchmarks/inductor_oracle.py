"""What torch itself knows of a compiled program: an oracle for reports of
torch.compile.

    python benchmarks/inductor_oracle.py PROGRAM.py inference|backward [--device
    cuda] [--dynamic] python benchmarks/inductor_oracle.py NAME both [--device cuda]

Of a program, which names ``model`` and ``inputs``: the nodes of each
``Scheduler.nodes`` with the bytes that Inductor counts of them, the kernels that
the generated code defines and calls, and the kernels that the device ran in a step,
by torch's profiler. Of a case of ``inductor_apart.py``: the nodes alone, of both of
its programs. Prints one line of JSON. Nothing of fusiondoc is imported.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
from collections import Counter
from typing import Any

import torch
import torch._inductor.config as config
from promises_judge import moved
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import Scheduler
from torch._inductor.virtualized import V
from torch.profiler import ProfilerActivity, profile

DEFINITION = re.compile(
    r"^(\w+) = async_compile\.(?:triton|cpp_pybinding|multi_kernel)\(", re.MULTILINE
)
CALL = re.compile(r"^\s+(?:(triton_\w+)\.run|(cpp_\w+))\(", re.MULTILINE)


class Seen:
    """Collects what torch makes, graph by graph."""

    def __init__(self) -> None:
        self.graphs: list[dict[str, Any]] = []
        self.codes: list[str] = []
        original = Scheduler.codegen

        def codegen(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            nodes = [self._node(node) for node in scheduler.nodes]
            self.graphs.append(
                {"backward": bool(V.graph.is_backward), "nodes": nodes}
            )
            return original(scheduler, *args, **kwargs)

        Scheduler.codegen = codegen
        GraphLowering.save_output_code = staticmethod(self.codes.append)

    def _node(self, node: Any) -> dict[str, Any]:
        results = {type(one.node).__name__ for one in node.get_nodes()}
        kind = "MultiOutput" if results == {"MultiOutput"} else type(node).__name__
        return {
            "name": node.get_name(),
            "class": kind,
            "bytes": node.get_read_write_buffers_sizes(),
        }

    def as_json(self) -> dict[str, Any]:
        calls = Counter(
            first or second
            for code in self.codes
            for first, second in CALL.findall(code)
        )
        defined = [name for code in self.codes for name in DEFINITION.findall(code)]
        return {"graphs": self.graphs, "defined": defined, "calls": dict(calls)}


def with_gradients(value: Any) -> list[torch.Tensor]:
    """The tensors that record gradients."""
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        return with_gradients(list(value.values()))
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in with_gradients(part)]
    return []


def of_program(
    program: str, mode: str, device: str, dynamic: bool
) -> dict[str, Any]:
    """Compile, run twice, profile the third step."""
    torch.manual_seed(0)
    named = runpy.run_path(program)
    model, inputs = named["model"], named["inputs"]
    arguments = moved(tuple(inputs() if callable(inputs) else inputs), device)
    if isinstance(model, torch.nn.Module):
        model = model.to(device)
    compiled = torch.compile(model, dynamic=dynamic or None)
    recorded = mode == "backward" or bool(with_gradients(arguments))
    seen = Seen()

    def step() -> None:
        with torch.set_grad_enabled(recorded):
            results = with_gradients(compiled(*arguments))
        if mode == "backward":
            torch.autograd.backward(
                results, [torch.ones_like(result) for result in results]
            )

    step()
    found = {**seen.as_json(), "backward": mode == "backward"}
    step()
    if device == "cpu":
        return {**found, "launched": None, "graphs_after": len(seen.graphs)}
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        step()
        torch.cuda.synchronize()
    launched = Counter(
        event.name
        for event in profiled.events()
        if event.device_type.name == "CUDA"
    )
    return {**found, "launched": dict(launched), "graphs_after": len(seen.graphs)}


def zeros(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """For the generated code, in place of memory that kernels which are not
    compiled would have written: calls may check it, as those of bags check their
    offsets."""
    return torch.empty_strided(size, stride, dtype=dtype).zero_()


def of_case(name: str, device: str) -> dict[str, Any]:
    """The graphs of both programs of a case."""
    import inductor_apart

    seen, found = Seen(), {}
    for which in ("apart", "one"):
        inductor_apart.run(name, which, device)
        found[which] = seen.graphs[:]
        seen.graphs.clear()
        torch._dynamo.reset()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("mode", choices=("inference", "backward", "both"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--generate", action="store_true", help="compile no kernels (C++)"
    )
    parser.add_argument(
        "--dynamic", action="store_true", help="compile with dynamic shapes"
    )
    given = parser.parse_args()
    config.force_disable_caches = True
    if given.generate:
        from torch._inductor.async_compile import AsyncCompile

        AsyncCompile.cpp_pybinding = lambda self, *args, **kwargs: (
            lambda *values: None
        )
        config.cpp.vec_isa_ok = True
        torch._C._dynamo.guards._empty_strided_cpu = zeros
    if given.mode == "both":
        print(json.dumps(of_case(given.what, given.device)))
    else:
        print(
            json.dumps(
                of_program(given.what, given.mode, given.device, given.dynamic)
            )
        )


if __name__ == "__main__":
    main()
