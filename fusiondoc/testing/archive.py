"""The model of a test as files that a child can run: a TorchScript archive, the inputs, and a target.

Whatever was passed is scripted (or traced) in the test process, which compiles it and runs no graph, and is
saved with ``torch.jit.save``. So functions, closures and classes defined inside a test need no import by
name, and the archive keeps the line of the test that each operator comes from, training mode, device, and
which parameters require grad.

This is the one file outside the probe that imports torch: it runs in the user's test process, which has
imported torch already to make the inputs.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from fusiondoc.errors import ModelFailed, UsageError

TARGET = "fusion_target.py"

_TARGET_TEXT = '''"""The model and the inputs that a test gave to fusiondoc; diagnose runs this file."""

import os

import torch

_HERE = os.path.dirname(os.path.abspath(__file__))
model = torch.jit.load(os.path.join(_HERE, "model.pt"))
inputs = torch.load(os.path.join(_HERE, "inputs.pt"){})
'''

SCRIPT_HINT = (
    "Change that line, or pass trace=True: it records the operators that these inputs run (control flow is "
    "then frozen, and values that a function closes over are constants)."
)
SAVE_HINT = (
    "The model runs in a process of its own, so what stays Python cannot be part of it: a module that a "
    "function only closes over (pass the module itself), or a function with @torch.jit.ignore."
)
TRACE_HINT = (
    "Tracing takes tensors, and lists, tuples and dicts of them, as inputs; a module with parameters is to "
    "be passed itself, not a function around it."
)


class Target(NamedTuple):
    """What a child can run."""

    file: Path
    """Loads the archive and the inputs."""
    source_map: Mapping[str, str]
    """See probe/source_map.py: lines of the test that call functions of torch's Python files. Only the
    process that compiled the model can follow these calls; a loaded archive has lost them."""


def write_target(
    fn: Callable[..., Any], inputs: Sequence[Any], folder: Path, label: str, trace: bool
) -> Target:
    """Write ``fn`` and its inputs into ``folder``.

    Raises:
        ModelFailed: TorchScript cannot compile it; the message is TorchScript's own.
        UsageError: ``fn`` is nothing that can be run, or an input cannot be saved.
    """
    torch: Any = importlib.import_module("torch")
    if isinstance(fn, type) or not callable(fn):
        what = f"the class {fn.__name__}" if isinstance(fn, type) else f"of type {type(fn).__name__}"
        raise UsageError(
            f"{label}: a function or an nn.Module is needed, and this is {what}",
            "Pass an instance, such as Block(8)." if isinstance(fn, type) else None,
        )
    for number, value in enumerate(inputs):
        if type(value).__module__.split(".")[0] == "numpy":
            raise UsageError(
                f"{label}: input {number} is a numpy {type(value).__name__}; TorchScript takes tensors and "
                "plain numbers",
                "Convert it: torch.from_numpy(...) or float(...).",
            )
    with _quiet():
        scripted = _torchscript(torch, fn, tuple(inputs), label, trace or not _has_source(torch, fn))
    try:
        with _quiet():
            torch.jit.save(scripted, str(folder / "model.pt"))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).strip()}"
        raise ModelFailed(f"{label} cannot be saved as an archive\n{text}", SAVE_HINT) from None
    try:
        torch.save(tuple(inputs), str(folder / "inputs.pt"))
    except Exception as error:  # pickle raises nearly anything
        raise UsageError(
            f"the inputs of {label} cannot be handed to a process of its own: {error}",
            "Inputs are tensors, numbers, strings, and lists, tuples and dicts of them.",
        ) from None
    target = folder / TARGET
    # From 1.13 on there is weights_only; from 2.6 on its default refuses what is no tensor or plain value.
    match = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    knows = match is not None and (int(match.group(1)), int(match.group(2))) >= (1, 13)
    target.write_text(_TARGET_TEXT.format(", weights_only=False" if knows else ""), encoding="utf-8")
    return Target(target, _source_map(torch, scripted))


def _source_map(torch: Any, scripted: Any) -> dict[str, str]:
    from fusiondoc.probe.source_map import source_map

    # What this torch cannot tell about its graphs is no reason not to run.
    with suppress(Exception):
        return source_map(torch, scripted)
    return {}


def _has_source(torch: Any, fn: Any) -> bool:
    """Whether TorchScript can read it: it parses a module, or the ``def`` of a function; not a lambda, a
    bound method, a builtin, a ``functools.partial`` or another object with ``__call__``."""
    if isinstance(fn, (torch.nn.Module, torch.jit.ScriptFunction)):
        return True
    return inspect.isfunction(fn) and fn.__name__ != "<lambda>"


def _torchscript(torch: Any, fn: Any, inputs: tuple[Any, ...], label: str, trace: bool) -> Any:
    if isinstance(fn, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return fn
    if os.environ.get("PYTORCH_JIT") == "0":  # torch.jit.script would return the function as it is
        raise UsageError("PYTORCH_JIT=0 is set: it switches TorchScript off", "Unset it: unset PYTORCH_JIT")
    try:
        if not trace:
            return torch.jit.script(fn)
        with _untouched(torch, fn):
            return torch.jit.trace(_traceable(torch, fn), inputs, check_trace=False)
    except Exception as error:
        if trace:
            raise ModelFailed(f"{label} cannot be traced\n{_where(error)}", TRACE_HINT) from None
        # All frames are TorchScript's; its message shows the user's line.
        text = f"{type(error).__name__}: {str(error).strip()}"
        raise ModelFailed(f"{label} cannot be scripted\n{text}", SCRIPT_HINT) from None


def _traceable(torch: Any, fn: Any) -> Any:
    """``fn`` with a name and a module, which ``torch.jit.trace`` asks of functions."""
    if isinstance(fn, torch.nn.Module) or inspect.isfunction(fn) or inspect.ismethod(fn):
        return fn

    def call(*inputs: Any) -> Any:
        return fn(*inputs)

    return call


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's word that TorchScript is deprecated (torch 2.9 upward): the test has not asked for it,
    and would fail where warnings are errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is ")
        yield


@contextmanager
def _untouched(torch: Any, fn: Any) -> Iterator[None]:
    """Tracing runs the Python code once: random state and buffers (running means) are put back after it."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    buffers = list(fn.buffers()) if isinstance(fn, torch.nn.Module) else []
    before = [buffer.detach().clone() for buffer in buffers]
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, old in zip(buffers, before):
                    buffer.copy_(old)


def _where(error: Exception) -> str:
    """The user's part of the traceback."""
    from fusiondoc.probe.failures import users_traceback

    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    return users_traceback(error.with_traceback(inner)).rstrip()
