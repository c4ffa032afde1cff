"""The child of test_why_not: runs the functions that its arguments name
(FILE.py:NAME), all in one process.

Each is scripted and run five times, with gradients where its OPTIONS have
--backward, as diagnose does it."""

import importlib.util
import sys
from pathlib import Path

import torch


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for argument in sys.argv[1:]:
    path, name = argument.rsplit(":", 1)
    example = load(path)
    scripted = torch.jit.script(getattr(example, name))
    backward = "--backward" in getattr(example, "OPTIONS", ())
    for _ in range(5):
        with torch.set_grad_enabled(backward):
            result = scripted(*example.inputs)
        if backward:
            results = result if isinstance(result, tuple) else (result,)
            sum(one.sum() for one in results if one.requires_grad).backward()
