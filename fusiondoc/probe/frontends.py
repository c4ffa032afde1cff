"""The frontends, which make graphs of a target: TorchScript, AOTAutograd in front
of it, Transformer Engine, or modules that fuse themselves.

The last are xFormers' ``NVFused...`` (xformers/components/nvfuser, releases 0.0.12
to 0.0.21): ``forward`` runs the plain operators where its tensor is not on a GPU,
else it calls ``memory_efficient_fusion`` on its function, in every call. ``MLP``
(components/feedforward/mlp.py) is made of them only where
``xformers._is_functorch_available`` was set to True before it was imported. A class
is known by its name, whoever defines it; noted is whether its calls came to
AOTAutograd.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import types
from typing import Any, Iterator, Sequence

from . import CANNOT_RUN, Refused, UserError, first_line, fusers
from .aot_records import WRAPPED
from .aot_watch import ENTRIES, Watch
from .log_and_records import Records
from .replaced import Replaced
from .te_plans import OPS

_MOST_FUNCTIONS = 2_000
"""Most functions of the user's that are searched for AOTAutograd."""


class Chosen:
    """The model to run, and why its frontend was chosen. ``eager`` is the model
    that it was made from; None if that is not known."""

    def __init__(
        self, frontend: str, model: Any, why: str | None, eager: Any
    ) -> None:
        self.frontend = frontend
        self.model = model
        self.why = why
        self.eager = eager


def choose(torch: Any, requested: str, model: Any) -> Chosen:
    """Choose the frontend of this model from the value of ``--frontend``.

    Raises:
        Refused: AOTAutograd cannot compile it, or this torch has none.
        UserError: wrapping it failed.
    """
    if requested == "torchscript":
        return Chosen("torchscript", model, None, model)
    scripted = isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
    used = None if scripted else uses_aot(torch, model)
    if used is not None:
        return Chosen("aot", model, "the target " + used, eager_form(model))
    if requested == "auto":
        return Chosen("torchscript", model, "auto: the target uses no other", model)
    if scripted:
        raise Refused(
            "frontend",
            "--frontend aot compiles Python, and this model is TorchScript already",
            "Name the function or module before it is scripted, or leave --frontend out.",
        )
    return Chosen(
        "aot", _wrapped(model), "--frontend aot: memory_efficient_fusion", model
    )


def write_choice(
    records: Records, spec: dict[str, Any], chosen: Chosen, verified: bool
) -> None:
    """Record the choice, and the options that have no effect with it."""
    records.write(
        "frontend",
        requested=spec.get("frontend"),
        effective=chosen.frontend,
        why=chosen.why,
    )
    if chosen.frontend != "aot":
        return
    ignored = ["trace", "verify", "no_freeze", "freeze"]
    if verified:
        ignored.remove("verify")
    note_ignored_options(
        records, spec, ignored, "a model that AOTAutograd compiles"
    )
    if spec.get("timing") and chosen.eager is None:
        raise Refused(
            "timing",
            "the model compiles parts of itself: nothing is known to be its eager form",
        )


def note_ignored_options(
    records: Records, spec: dict[str, Any], options: Sequence[str], target: str
) -> None:
    """Note the options of the request that have no effect on such a target."""
    for option in options:
        if spec.get(option):
            records.note(
                "--%s has no effect on %s" % (option.replace("_", "-"), target)
            )


def holds_te(model: Any) -> bool:
    """True if a module or function uses Transformer Engine: it holds a
    ``te.ops.Sequential`` or an operator of it (also in a tuple, list or dictionary
    of its own, where ``modules()`` does not see it), a module of
    ``transformer_engine.pytorch``, which TorchScript takes no more than these, or
    names one."""
    te = sys.modules.get(OPS)
    if te is None:
        return False
    kinds = (te.Sequential, te.FusibleOperation)

    def is_te(value: Any, deep: int = 2) -> bool:
        if isinstance(value, kinds):
            return True
        if isinstance(value, dict):
            value = list(value.values())
        return (
            deep > 0
            and isinstance(value, (tuple, list))
            and any(is_te(v, deep - 1) for v in value[:100])
        )

    modules = getattr(model, "modules", None)
    if not callable(modules):
        return any(
            _holds(reached, is_te) or _of_te(type(reached))
            for reached in _reached(model, set())
        )
    seen: set[int] = set()
    for module in modules():
        if _holds(module, is_te) or _of_te(type(module)):
            return True
        if any(
            is_te(reached)
            for reached in _reached(getattr(type(module), "forward", None), seen)
        ):
            return True
    return False


def _holds(value: Any, is_te: Any) -> bool:
    """True if a value is such an object, or contains one."""
    held = getattr(value, "__dict__", None)
    return is_te(value) or (
        isinstance(held, dict)
        and any(is_te(value) for value in list(held.values()))
    )


def _of_te(kind: type) -> bool:
    return any(
        base.__module__.startswith("transformer_engine.pytorch.")
        for base in kind.__mro__
    )


def _wrapped(model: Any) -> Any:
    try:
        compilers = importlib.import_module("functorch.compile")
    except ImportError as error:
        raise Refused(
            "frontend",
            "--frontend aot: functorch.compile cannot be imported: %s"
            % first_line(error),
            "It is in torch from 1.13 on, and in the package functorch 0.2 for torch 1.12.",
            CANNOT_RUN,
        ) from None
    try:
        return compilers.memory_efficient_fusion(model)
    except Exception as error:
        raise UserError("frontend") from error


def eager_form(model: Any) -> Any:
    """The model that ``aot_function``, ``aot_module`` or ``torch.compile`` wrapped;
    None if not known."""
    if WRAPPED in getattr(model, "__dict__", {}):
        while WRAPPED in vars(model):
            model = model.__wrapped__
        return model
    for name in ("orig_module", "_orig_mod", "_torchdynamo_orig_callable"):
        if name in getattr(model, "_modules", {}) or (
            name[0] == "_" and hasattr(model, name)
        ):
            return getattr(model, name)
    return None


def uses_aot(torch: Any, model: Any) -> str | None:
    """How the model itself uses AOTAutograd, as the end of a sentence; None if it
    does not."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    for candidate in (model, *modules):
        compiled = (
            hasattr(candidate, "_torchdynamo_orig_callable")
            or type(candidate).__name__ == "OptimizedModule"
        )
        if compiled and not _by_inductor(candidate):
            return "is compiled by torch.compile"
    if modules:
        functions = [getattr(type(module), "forward", None) for module in modules]
    else:
        functions = [model]
    seen: set[int] = set()
    for function in functions:
        for value in _reached(function, seen):
            if WRAPPED in getattr(value, "__dict__", {}):
                return "calls what %s has wrapped" % getattr(value, WRAPPED)
            name = getattr(value, "__name__", None)
            if name in ENTRIES and _is_torchs(value):
                return "calls " + str(name)
    return None


def comes_to_torch_compile(torch: Any, model: Any) -> str | None:
    """How the model itself uses torch.compile with its default backend, as the end
    of a sentence; None if it does not."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    for candidate in (model, *modules):
        if _is_compiled(candidate) and _by_inductor(candidate):
            return "is compiled by torch.compile"
    if modules:
        functions = [getattr(type(module), "forward", None) for module in modules]
    else:
        functions = [model]
    seen: set[int] = set()
    for function in functions:
        for value in _reached(function, seen):
            if _is_compiled(value) and _by_inductor(value):
                return "calls what torch.compile has compiled"
    return None


def ran_compiled(
    torch: Any,
    loaded: Any,
    spec: dict[str, Any],
    fuser: str,
    records: Records,
    clock: Any,
) -> bool:
    """Run a loaded model with torch.compile, if that is requested or the model
    itself uses it; return whether it was run.

    Raises:
        Refused, UserError: as ``CompiledRun``.
    """
    own = None
    if fusers.may_be_compiled(torch, spec, fuser):
        own = comes_to_torch_compile(torch, loaded.model)
    if own is None and not fusers.is_compiler(fuser):
        return False
    from .inductor_run import CompiledRun

    note_ignored_options(
        records, spec, ("trace", "freeze", "no_freeze"), "a model that is compiled"
    )
    eager = eager_form(loaded.model) if own is not None else None
    CompiledRun(torch, loaded, spec, records, own, eager).run(clock)
    return True


def _is_compiled(value: Any) -> bool:
    """True if ``torch.compile`` made the object, or if its method ``compile`` was
    called."""
    if type(value).__name__ == "OptimizedModule":
        return True
    held = getattr(value, "__dict__", {})
    return (
        "_torchdynamo_orig_callable" in held
        or held.get("_compiled_call_impl") is not None
    )


def _by_inductor(compiled: Any) -> bool:
    """True if torch.compile uses its default backend, which makes no TorchScript:
    the only backend that has a configuration (torch/_dynamo/eval_frame.py,
    torch/__init__.py). With ``fullgraph`` there is none (2.6 to 2.13,
    ``optimize_assert``), and the backend itself is looked for."""
    compiled = (
        vars(compiled).get("_compiled_call_impl") or compiled
    )  # of a module's own method ``compile``
    try:
        if compiled.get_compiler_config() is not None:
            return True
    except Exception:  # older torch has no such thing
        return False
    return any(
        type(backend).__name__ == _BACKEND for backend in _backends(compiled)
    )


_BACKEND = "_TorchCompileInductorWrapper"
"""The class of the default backend (torch/__init__.py, 2.1 to 2.13)."""
_INNER = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable")
"""Attributes that hold the backend inside a wrapper: since 2.13, and before."""
_MOST_WRAPPERS = 10


def _backends(compiled: Any) -> Iterator[Any]:
    """The backend of a module or function that torch.compile made, with the
    wrappers around it: the ``callback`` of its context
    (``OptimizedModule.dynamo_ctx``, or in the closure of the function)."""
    contexts = [getattr(compiled, "dynamo_ctx", None)]
    for cell in getattr(compiled, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            contexts.append(cell.cell_contents)
    for context in contexts:
        backend = getattr(context, "callback", None)
        for _ in range(_MOST_WRAPPERS):
            if backend is None:
                break
            yield backend
            held = getattr(backend, "__dict__", {})
            backend = None
            for name in _INNER:
                if held.get(name) is not None:
                    backend = held[name]
                    break


def _is_torchs(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).split(".")[0] in (
        "torch",
        "functorch",
        "transformer_engine",
    )


def _reached(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the function, the callables that it names in its globals and closure,
    and so on recursively through the user's own functions. ``seen``: ids of
    callables to leave out; visited ones are added."""
    ahead = [function]
    while ahead and len(seen) < _MOST_FUNCTIONS:
        reached = ahead.pop()
        reached = getattr(reached, "func", reached)  # functools.partial
        reached = getattr(reached, "__func__", reached)
        if id(reached) in seen or not callable(reached):
            continue
        seen.add(id(reached))
        yield reached
        plain = isinstance(reached, types.FunctionType) and WRAPPED not in vars(
            reached
        )
        if plain and not _is_torchs(reached):
            for value in _named_values(reached):
                if callable(value) and not isinstance(value, type):
                    ahead.append(value)


def _named_values(function: types.FunctionType) -> list[Any]:
    """Values of the names in a function's code: globals, attributes of modules,
    variables of its closure."""
    names = _names(function.__code__)
    values = []
    for name in names:
        if name in function.__globals__:
            values.append(function.__globals__[name])
    modules = []
    for value in values:
        if isinstance(value, types.ModuleType):
            modules.append(value)
    for name in names:  # functorch.compile.memory_efficient_fusion
        # Not getattr: a module's own __getattr__ may import (torch._dynamo) or
        # raise (torch.classes).
        found = []
        for module in modules:
            if name in vars(module):
                found.append(vars(module)[name])
        values += found
        for value in found:
            if isinstance(value, types.ModuleType):
                modules.append(value)
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not filled yet
            values.append(cell.cell_contents)
    return values


def _names(code: types.CodeType) -> list[str]:
    found = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.extend(_names(constant))
    return found


_FUSED_CLASSES = (
    "NVFusedBiasActivationDropout",
    "NVFusedBiasDropoutRes",
    "NVFusedBiasDropoutResLayerNorm",
)
_SWITCHED = ("xformers.components.feedforward.mlp", "MLP")


class _Kind:
    """A class of modules that fuse themselves."""

    def __init__(self) -> None:
        self.calls = 0
        self.fused = 0
        self.wraps = 0
        self.eager: list[str] = []
        self.modules: list[Any] = []


class FusedModules:
    """Watches these classes from their definition on; ``watch`` counts the calls of
    AOTAutograd."""

    def __init__(self, torch: Any, records: Records, watch: Watch) -> None:
        self._torch = torch
        self._records = records
        self._watch = watch
        self._kinds: dict[str, _Kind] = {}
        self._seen: set[type] = set()
        self._names: dict[int, str] = {}
        self._replaced = Replaced()

    def start(self, defined: bool = False) -> None:
        """Examine every subclass of ``torch.nn.Module`` that is defined from now
        on; ``defined``: also the existing ones."""
        base = self._torch.nn.Module
        ahead = list(base.__subclasses__()) if defined else []
        seen: set[type] = set()
        while ahead:
            kind = ahead.pop()
            if kind not in seen:
                seen.add(kind)
                ahead.extend(kind.__subclasses__())
                with contextlib.suppress(Exception):
                    self.look_at(kind)
        if "__init_subclass__" in vars(base):
            return

        def init_subclass(cls: Any, **kwargs: Any) -> None:
            super(base, cls).__init_subclass__(**kwargs)
            with contextlib.suppress(Exception):
                self.look_at(cls)

        made: Any = init_subclass
        self._replaced.put(base, "__init_subclass__", classmethod(made))

    def stop(self) -> None:
        """Restore all classes."""
        self._replaced.take_back()

    def forget(self) -> None:
        """In a fork: forget the calls of the parent process, which records them
        itself."""
        for kind in self._kinds.values():
            kind.calls = kind.fused = kind.wraps = 0
            kind.eager = []

    def name_layers(self, model: Any) -> None:
        """Learn the paths of the modules in a model, whose classes may have been
        defined before this watch began."""
        if isinstance(model, self._torch.nn.Module):
            for name, module in model.named_modules():
                self._names[id(module)] = name
                cls = type(module)
                self.look_at(cls)
                if (
                    cls.__module__,
                    cls.__name__,
                ) == _SWITCHED and not _switch_is_on():
                    # It is scripted, so its ``forward`` is never called.
                    kind = self._kinds[cls.__name__]
                    kind.modules.append(module)
                    kind.eager = [self._why(module, ())]

    def look_at(self, cls: type) -> None:
        """Watch a class, if it fuses by itself."""
        switched = (cls.__module__, cls.__name__) == _SWITCHED
        if (
            cls in self._seen
            or not (cls.__name__ in _FUSED_CLASSES or switched)
            or "forward" not in vars(cls)
        ):
            return
        self._seen.add(cls)
        original = vars(cls)["forward"]
        kind = self._kinds.setdefault(cls.__name__, _Kind())
        watched = self

        @functools.wraps(original)
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if switched and _switch_is_on():
                return original(
                    self, *args, **kwargs
                )  # the modules inside it are counted instead
            wraps, calls = watched._watch.wraps, watched._watch.calls
            result = original(self, *args, **kwargs)
            with contextlib.suppress(Exception):
                watched._note(
                    kind,
                    self,
                    args,
                    watched._watch.wraps - wraps,
                    watched._watch.calls - calls,
                )
            return result

        watched._replaced.put(cls, "forward", forward)

    def _note(
        self,
        kind: _Kind,
        module: Any,
        args: tuple[Any, ...],
        wraps: int,
        calls: int,
    ) -> None:
        kind.calls += 1
        kind.wraps += wraps
        if (
            not any(known is module for known in kind.modules)
            and len(kind.modules) < 1000
        ):
            kind.modules.append(module)
        if wraps or calls:
            kind.fused += 1
            return
        why = self._why(module, args)
        if why not in kind.eager:
            kind.eager.append(why)

    def _why(self, module: Any, args: tuple[Any, ...]) -> str:
        if type(module).__name__ == "MLP":
            return "xformers._is_functorch_available is False, so MLP was made of plain modules"
        if any(
            isinstance(arg, self._torch.Tensor) and not arg.is_cuda for arg in args
        ):
            return "its tensor is not on a GPU"
        if not module.training:
            return "the module is in eval mode"
        if "xformers" in sys.modules and not _switch_is_on():
            return "xformers._is_functorch_available is False"
        return "its forward did not call memory_efficient_fusion"

    def finish(self) -> None:
        """Write a record for each class that was called or that is known to stay
        eager."""
        for name, kind in self._kinds.items():
            if kind.calls or kind.eager:
                layers = []
                for module in kind.modules:
                    if id(module) in self._names:
                        layers.append(self._names[id(module)])
                self._records.write(
                    "fused_module",
                    kind=name,
                    calls=kind.calls,
                    fused=kind.fused,
                    wraps=kind.wraps,
                    layers=layers,
                    eager=kind.eager,
                )


def _switch_is_on() -> bool:
    return bool(
        getattr(sys.modules.get("xformers"), "_is_functorch_available", False)
    )
