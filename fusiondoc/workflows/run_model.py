"""A model of this process, with its inputs, run in a child; shared by
``fusiondoc.diagnose`` and the pytest fixture.

The child gets files: the model, the inputs, and a target that loads both. The model
is a TorchScript archive: whatever was passed is scripted (or traced) here, which
compiles it and runs no graph, and is saved with ``torch.jit.save``. So functions,
closures and classes defined in a test or a notebook need no import by name, and the
archive keeps the line that each operator comes from, training mode, device, and
which parameters require grad.

If that is allowed and all its code can be imported by name, the model is pickled
instead: then the child has the Python model too, which eager passes need.

This file imports torch, unlike others outside the probe: it runs in the user's
process, which has imported torch already to make the inputs.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.model_identity import of_file, of_name
from fusiondoc.captures.request import RunRequest, TargetSpec
from fusiondoc.errors import ModelFailed, UsageError
from fusiondoc.fusers import DYNAMO, FRONTENDS, facts_of
from fusiondoc.model.source import from_package
from fusiondoc.numbers import pair_of
from fusiondoc.probe import CALLER, FUSER
from fusiondoc.probe.fusers import off_in_process
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows.run import (
    Finished,
    FollowUps,
    Notify,
    report_run,
    run_target,
    silent,
)

TARGET = "fusion_target.py"

_TARGET_TEXT = '''"""The model and the inputs that a program gave to fusiondoc; diagnose runs this file."""

import os
import sys

import torch

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [folder for folder in {path} if folder not in sys.path]
model = {model}
inputs = torch.load(os.path.join(_HERE, "inputs.pt"){whole})
'''
_ARCHIVE = 'torch.jit.load(os.path.join(_HERE, "model.pt"))'
_PICKLED = 'torch.load(os.path.join(_HERE, "model.pickle"){whole})'

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


class RunnableTarget(NamedTuple):
    """A function or module that a child can run."""

    file: Path
    """The program that loads the archive and the inputs."""
    source_map: Mapping[str, Any]
    """See probe/models.py: lines of the program that call functions of torch's
    Python files, and the layers of operators. Only the process that compiled the
    model can follow these calls; a loaded archive has lost them. Empty for a
    pickled model, which the child compiles."""
    pickled: bool = False


def write_target(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    folder: Path,
    label: str,
    trace: bool,
    further: Sequence[Sequence[Any]] = (),
    by_name: bool = False,
) -> RunnableTarget:
    """Write ``fn`` and its inputs into ``folder``.

    Args:
        label: its name in messages.
        trace: ``torch.jit.trace`` instead of ``torch.jit.script``.
        further: inputs of other shapes.
        by_name: pickle it if all its code can be imported by name.

    Raises: ModelFailed: TorchScript cannot compile it; the message is TorchScript's
        own. UsageError: ``fn`` is nothing that can be run, or an input cannot be
        saved.
    """
    torch: Any = importlib.import_module("torch")
    _check(fn, inputs, label)
    pickled = by_name and _pickled(torch, fn, folder / "model.pickle")
    if pickled:
        scripted = None
    else:
        scripted = _archived(torch, fn, tuple(inputs), folder, label, trace)
    shapes = [tuple(inputs_) for inputs_ in (inputs, *further)]
    try:
        torch.save(shapes if further else shapes[0], str(folder / "inputs.pt"))
    except Exception as error:  # pickle raises nearly anything
        raise UsageError(
            f"the inputs of {label} cannot be handed to a process of its own: {error}",
            "Inputs are tensors, numbers, strings, and lists, tuples and dicts of them.",
        ) from None
    target = folder / TARGET
    target.write_text(_target_text(torch, pickled), encoding="utf-8")
    return RunnableTarget(
        target, {} if pickled else _source_map(torch, scripted), pickled
    )


def _check(fn: Callable[..., Any], inputs: Sequence[Any], label: str) -> None:
    """Refuse a model that TorchScript cannot take in any form."""
    if isinstance(fn, type):
        raise UsageError(
            f"{label}: a function or an nn.Module is needed, and this is the class {fn.__name__}",
            "Pass an instance, such as Block(8).",
        )
    if not callable(fn):
        raise UsageError(
            f"{label}: a function or an nn.Module is needed, and this is of type {type(fn).__name__}",
            "Pass what is to be called.",
        )
    for number, value in enumerate(inputs):
        if type(value).__module__.split(".")[0] == "numpy":
            raise UsageError(
                f"{label}: input {number} is a numpy {type(value).__name__}; TorchScript takes tensors and "
                "plain numbers",
                "Convert it: torch.from_numpy(...) or float(...).",
            )


def _target_text(torch: Any, pickled: bool) -> str:
    """The text of the program that loads the files."""
    # weights_only exists from 1.13 on; its default from 2.6 on accepts only tensors
    # and plain values.
    release = pair_of(re.match(r"(\d+)\.(\d+)", str(torch.__version__))) or (0, 0)
    whole = ", weights_only=False" if release >= (1, 13) else ""
    if not pickled:
        return _TARGET_TEXT.format(path=[], model=_ARCHIVE, whole=whole)
    folders = [os.path.realpath(folder) for folder in sys.path]
    return _TARGET_TEXT.format(
        path=folders, model=_PICKLED.format(whole=whole), whole=whole
    )


def _archived(
    torch: Any,
    fn: Any,
    inputs: tuple[Any, ...],
    folder: Path,
    label: str,
    trace: bool,
) -> Any:
    """Script the model, and save it in ``folder``."""
    with _quiet():
        scripted = _torchscript(
            torch, fn, inputs, label, trace or not _has_source(torch, fn)
        )
    try:
        with _quiet():
            torch.jit.save(scripted, str(folder / "model.pt"))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).strip()}"
        raise ModelFailed(
            f"{label} cannot be saved as an archive", SAVE_HINT, text
        ) from None
    return scripted


def _pickled(torch: Any, fn: Any, file: Path) -> bool:
    """Pickle the model; True if another process can load it."""
    if isinstance(fn, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return False
    if not (isinstance(fn, torch.nn.Module) or _has_source(torch, fn)):
        return False
    if isinstance(fn, torch.nn.Module):
        owners = {type(inner) for inner in fn.modules()}
    else:
        owners = {fn}
    if not all(_importable(str(owner.__module__)) for owner in owners):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # that sources cannot be kept beside the pickle (torch below 2)
            torch.save(fn, str(file))
        # torch.save does not compress, so a reference to __main__, which only this
        # process has, shows as text.
        with open_regular(file) as written:
            if b"__main__" not in written.read():
                return True
    except Exception:  # pickle raises nearly anything
        pass
    with suppress(OSError):
        file.unlink()
    return False


def _importable(module: str) -> bool:
    """True if a new process with this ``sys.path`` finds the module.
    ``sys.modules`` also has modules made at run time."""
    return (
        module != "__main__"
        and PathFinder.find_spec(module.partition(".")[0], sys.path) is not None
    )


def _source_map(torch: Any, scripted: Any) -> dict[str, Any]:
    from fusiondoc.probe.models import source_map

    # A torch without these functions still runs the model.
    with suppress(Exception):
        return source_map(torch, scripted)
    return {}


def _has_source(torch: Any, fn: Any) -> bool:
    """True if TorchScript can read its source: that of a module, or the ``def`` of
    a function; not that of a lambda, a bound method, a builtin, a
    ``functools.partial`` or another object with ``__call__``."""
    if isinstance(fn, (torch.nn.Module, torch.jit.ScriptFunction)):
        return True
    return inspect.isfunction(fn) and fn.__name__ != "<lambda>"


def _torchscript(
    torch: Any, fn: Any, inputs: tuple[Any, ...], label: str, trace: bool
) -> Any:
    if isinstance(fn, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return fn
    if (
        os.environ.get("PYTORCH_JIT") == "0"
    ):  # torch.jit.script would return the function as it is
        raise UsageError(
            "PYTORCH_JIT=0 is set: it switches TorchScript off",
            "Unset it: unset PYTORCH_JIT",
        )
    try:
        if not trace:
            return torch.jit.script(fn)
        with _untouched(torch, fn):
            return torch.jit.trace(_traceable(torch, fn), inputs, check_trace=False)
    except Exception as error:
        if trace:
            raise ModelFailed(
                f"{label} cannot be traced", TRACE_HINT, _where(error)
            ) from None
        # All frames are TorchScript's; its message shows the user's line.
        text = f"{type(error).__name__}: {str(error).strip()}"
        raise ModelFailed(
            f"{label} cannot be scripted", SCRIPT_HINT, text
        ) from None


def _traceable(torch: Any, fn: Any) -> Any:
    """``fn`` with a name and a module, which ``torch.jit.trace`` needs."""
    if (
        isinstance(fn, torch.nn.Module)
        or inspect.isfunction(fn)
        or inspect.ismethod(fn)
    ):
        return fn

    def call(*inputs: Any) -> Any:
        return fn(*inputs)

    return call


@contextmanager
def _quiet() -> Iterator[None]:
    """Context manager: suppress torch's warning that TorchScript is deprecated
    (torch 2.9 upward): the program does not use TorchScript itself, and a test
    would fail where warnings are errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is ")
        yield


@contextmanager
def _untouched(torch: Any, fn: Any) -> Iterator[None]:
    """Context manager: restore random state and buffers (running means), as tracing
    runs the Python code once."""
    devices = []
    if torch.cuda.is_initialized():
        devices = list(range(torch.cuda.device_count()))
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
    """The user's part of an error's traceback."""
    from fusiondoc.probe import users_traceback

    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    return users_traceback(error.with_traceback(inner)).rstrip()


_THE_USUAL = FollowUps()


class ExistingCapture:
    """A capture folder (``captures.store.Place``) that already exists, with the
    model in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def new(self, slug: str) -> Path:
        """Return the folder."""
        return self._path

    def done(self, path: Path) -> None:
        """Do nothing: the caller made the folder, and handles the end of the run
        itself."""


def run_model(
    fn: Callable[..., Any],
    inputs: Sequence[Sequence[Any]],
    request: RunRequest,
    folder: Path,
    *,
    by_name: bool = False,
    follow_ups: FollowUps = _THE_USUAL,
    peak: float | None = None,
    notify: Notify = silent,
) -> Finished:
    """Hand ``fn`` and its inputs to a child, and report its run.

    Args: inputs: the arguments, a sequence for each shape; at least one. request:
        how to run; only the label of its target is used, as the model's name in
        messages. folder: an empty folder for the capture. The model is kept in it
        too, so that it can run again. by_name: see ``write_target``.

    Raises:
        FusiondocError: the error that ``fusiondoc diagnose`` would end with.
        KeyboardInterrupt: the user interrupted; the child was stopped.
    """
    label = request.target.text
    off = off_in_process(importlib.import_module("torch"))
    fn, request = _of_torch_compile(fn, request)
    of_python = any(
        one.compiles_python and one.fuser == request.fuser
        for one in FRONTENDS.values()
    )
    target = write_target(
        fn,
        inputs[0],
        folder,
        label,
        request.trace,
        inputs[1:],
        by_name or of_python,
    )
    # A function traced for an archive must not be traced again.
    request = replace(
        request,
        target=TargetSpec(label, "file", path=target.file),
        model=request.model or model_of_object(fn, label, request.cwd),
        trace=request.trace and target.pickled,
    )
    ran = run_target(request, ExistingCapture(folder), notify=notify)
    if ran.interrupted:
        raise KeyboardInterrupt
    # The probe cannot find it out for an archive.
    if target.source_map:
        ran.capture.add_source_map(target.source_map)
    _record_switched_off(ran.capture, off, request)
    done = report_run(request, ran, follow_ups=follow_ups, peak=peak, notify=notify)
    if done.interrupted:
        raise KeyboardInterrupt
    if done.failed is not None:
        raise done.failed
    return done


def _of_torch_compile(fn: Any, request: RunRequest) -> tuple[Any, RunRequest]:
    """Return the function or model to run. An object made by ``torch.compile`` runs
    under the fuser of torch.compile, unless another was requested. For a function,
    its inner function is returned: the wrapper has no name that a child could
    import."""
    from fusiondoc.probe.frontends import comes_to_torch_compile
    from fusiondoc.probe.models import not_compiled

    fuser = DYNAMO.fuser or request.fuser
    if (
        request.fuser not in ("auto", fuser)
        or (request.frontend or "auto") != "auto"
    ):
        return fn, request
    torch: Any = importlib.import_module("torch")
    if comes_to_torch_compile(torch, fn) is None:
        return fn, request
    if isinstance(fn, torch.nn.Module):
        inner = fn
    else:
        inner = not_compiled(fn, lambda _: None)
    return inner, replace(request, fuser=fuser)


def _record_switched_off(
    capture: Capture, off: Sequence[str], request: RunRequest
) -> None:
    """Record the switches that are ``off`` in this process and were on in the run,
    as they keep the model from fusing here."""
    of_capture = capture.records
    known = {row.what for row in of_capture.switches.rows}
    for what in off:
        if what == FUSER:
            of_run = (
                facts_of(of_capture.fuser.effective).switches.off_by_call
                is not None
            )
        else:
            of_run = what not in request.knobs
        if of_run and what not in known:
            capture.add_record("switched_off", what=what, when=CALLER)


def model_of_object(fn: Any, label: str, cwd: Path) -> str:
    """Return the model's name for an object of this process: its name in the file
    of its code, if the file is the user's, else in the current folder."""
    owner = fn if inspect.isfunction(fn) else type(fn)
    file = getattr(sys.modules.get(owner.__module__), "__file__", None)
    if file is None or from_package(file) != file or not Path(file).is_file():
        return of_name(label, cwd)
    entry = f":{owner.__qualname__}"
    return of_file(Path(file), entry, file + entry, cwd)


def name_of(fn: Any) -> str:
    """The name of a function or module in messages."""
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if name == "<lambda>":
        return "lambda"
    return str(name)


def slug_of(fn: Any) -> str:
    """The name as a part of a folder's name."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name_of(fn))[
        :40
    ]


def shapes_of(inputs: Any) -> list[tuple[Any, ...]]:
    """The arguments of a model, a tuple for each shape."""
    if inputs is None:
        return [()]
    if isinstance(inputs, tuple):
        return [inputs]
    if isinstance(inputs, list):
        if inputs and all(isinstance(shape, tuple) for shape in inputs):
            return inputs
        raise UsageError(
            "a list of inputs is a list of tuples, one for each shape",
            "For one shape pass a tuple: (x, y).",
        )
    if callable(inputs) and not hasattr(inputs, "dtype"):
        return shapes_of(inputs())
    return [(inputs,)]
