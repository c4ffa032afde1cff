"""The Triton kernels that a step of a compiled program starts on the GPU, by torch's profiler.

    python benchmarks/kernels_oracle.py PROGRAM.py inference|backward

Prints a JSON list of names. Nothing of fusiondoc is imported.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def on_gpu(value: Any) -> Any:
    """The same value with its tensors on the GPU; leaves that require a gradient stay leaves."""
    if isinstance(value, torch.Tensor):
        return value.detach().cuda().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return type(value)(on_gpu(each) for each in value)
    return value


def floats(value: Any) -> list[torch.Tensor]:
    """The tensors that record gradients."""
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        return floats(list(value.values()))
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in floats(part)]
    return []


def main() -> None:
    """Compile, run twice, profile the third step."""
    program, mode = sys.argv[1:]
    torch.manual_seed(0)
    named = runpy.run_path(program)
    model, inputs = named["model"], named["inputs"]
    inputs = inputs() if callable(inputs) else inputs
    arguments = on_gpu(tuple(inputs))
    if isinstance(model, torch.nn.Module):
        model = model.cuda()
    compiled = torch.compile(model)
    recorded = mode == "backward" or bool(floats(arguments))

    def step() -> None:
        with torch.set_grad_enabled(recorded):
            results = floats(compiled(*arguments))
        if mode == "backward":
            torch.autograd.backward(results, [torch.ones_like(result) for result in results])

    step()
    step()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        step()
        torch.cuda.synchronize()
    names = {event.name for event in profiled.events() if event.name.startswith("triton_")}
    print(json.dumps(sorted(names)))


if __name__ == "__main__":
    main()
