"""Watches a program that runs as a script: its use of TorchScript and
torch.compile, and its steps.

Each model that it scripts, traces or loads is recorded with its name and line; and
the counts of torch.compile, for programs without such models. A step is a call of
the optimiser's ``step``, or of a function that the user names; it lasts from the
end of a call to the end of the next, as a training loop sees it: with data
loading."""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sys
import time
import weakref
from typing import Any, Callable

from . import OWN_FOLDER, folder_of
from .fusers import generated_kernels
from .log_and_records import Records
from .models import source_map
from .replaced import AfterImport, Replaced, takes_frames_up

_MAKERS = {
    "script": "scripted",
    "trace": "traced",
    "trace_module": "traced",
    "load": "loaded",
    "freeze": "frozen",
    "optimize_for_inference": "frozen",
}
"""Function of torch.jit (all exist from 1.10 to 2.13) -> a description of the
models that it makes."""

_MOST_MODELS = 64
_WALK_SECONDS = 5.0
"""Seconds for the search of all models' graphs for lines and layers."""


class ProgramWatch:
    """One for each process; ``start`` before the program is imported, ``finish`` at
    its end."""

    def __init__(self, torch: Any, records: Records) -> None:
        self._torch = torch
        self._records = records
        self._models: list[_Model] = []
        self._inside = 0
        self._ended = False
        self._walked = 0.0
        self._replaced = Replaced()
        self._torchs = folder_of(torch)

    def start(self) -> None:
        """Wrap the functions that make TorchScript so that each model is noted."""
        jit = self._torch.jit
        for name, how in _MAKERS.items():
            original = getattr(jit, name, None)
            if original is not None:
                self._replaced.put(jit, name, self._noting(original, how))

    def stop(self) -> None:
        """Undo the replacements, for a program that continues."""
        self._ended = True
        self._replaced.take_back()

    def finish(self, block: bool = False) -> None:
        """Write a record for each model, and one of torch.compile's counts. For a
        ``block`` without a model nothing is written: models that were scripted
        before it are not known."""
        if block and not self._models:
            return
        for model in self._models:
            self._records.write(
                "scripted_model",
                name=model.name,
                how=model.how,
                at=model.at,
                count=model.count,
                planned=model.planned(),
            )
        instead = _compiled()
        if self._records.process is None or any(instead.values()):
            self._records.write("ran_instead", **instead)

    def forget(self) -> None:
        """In a fork: forget the models of the parent process, which records them
        itself."""
        self._models = []

    def _noting(self, original: Callable[..., Any], how: str) -> Callable[..., Any]:
        frames_up = takes_frames_up(original)

        @functools.wraps(original)
        def made(*args: Any, **kwargs: Any) -> Any:
            if frames_up:  # names of a class that is scripted are looked up in the caller's frame
                kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
            if self._ended:  # torch.compile has put its own around this one
                return original(*args, **kwargs)
            self._inside += 1
            try:
                result = original(*args, **kwargs)
            finally:
                self._inside -= 1
            if not self._inside:
                with contextlib.suppress(Exception):
                    self._note(
                        result,
                        how,
                        args[0] if args else next(iter(kwargs.values()), None),
                    )
            return result

        return made

    def _note(self, made: Any, how: str, given: Any) -> None:
        jit = self._torch.jit
        if made is given or not isinstance(
            made, (jit.ScriptModule, jit.ScriptFunction)
        ):
            return
        at = self._caller()
        if at is None:
            return  # torch scripts things of its own
        kind = _kind_of(made)
        for model in self._models:
            if model.is_same(kind, given):
                model.count += how != "frozen"
                model.keep(made)
                if how == "frozen" and "frozen" not in model.how:
                    model.how += ", frozen"
                    self._walk(model.name, made)
                return
        if len(self._models) >= _MOST_MODELS:
            return
        name = _name_of(made, given, how)
        taken = {model.name for model in self._models}
        unique = next(unique for unique in _numbered(name) if unique not in taken)
        model = _Model(unique, how, at, kind)
        model.keep(made)
        self._models.append(model)
        self._walk(unique, made)

    def _walk(self, name: str, made: Any) -> None:
        """Find the lines and layers of a model's operators now: the model may not
        live until the end."""
        if self._walked < _WALK_SECONDS:
            began = time.perf_counter()
            with contextlib.suppress(Exception):
                self._records.write(
                    "source_map",
                    model=name,
                    **source_map(self._torch, made, always=True),
                )
            self._walked += time.perf_counter() - began

    def _caller(self) -> str | None:
        """``file:line`` of the call of torch.jit; None if torch itself made the
        call."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(self._torchs):
            return None
        return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)


class _Model:
    """Modules of one type, which share their code and executors."""

    def __init__(self, name: str, how: str, at: str, kind: Any) -> None:
        self.name = name
        self.how = how
        self.at = at
        self.count = 1
        self._kinds = {kind}
        self._kept: list[Callable[[], Any]] = []
        """Weak references to its forms (scripted, frozen)."""

    def keep(self, made: Any) -> None:
        """Keep another form of the model."""
        self._kinds.add(_kind_of(made))
        try:
            self._kept.append(weakref.ref(made))
        except TypeError:  # a function, which has no weights
            self._kept.append(lambda: made)

    def is_same(self, kind: Any, given: Any) -> bool:
        """True if it has this type, or if ``given`` is one of its forms, from which
        another is made."""
        return kind in self._kinds or any(
            form() is given for form in self._kept if given is not None
        )

    def planned(self) -> bool | None:
        """Whether it has an execution plan; None if the model no longer exists."""
        alive = []
        for made in (kept() for kept in self._kept):
            if made is not None:
                alive.append(made)
        if not alive:
            return None
        return any(map(_has_plan, alive))


def _has_plan(made: Any) -> bool:
    """True if the profiling executor has a plan: it has a debug state once it has
    optimised (``getDebugState`` of
    torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, 1.12 to 2.13, throws
    before)."""
    called = (
        made if hasattr(made, "get_debug_state") else getattr(made, "forward", None)
    )
    try:
        return called.get_debug_state() is not None  # type: ignore[union-attr]
    except Exception:
        return False


def _kind_of(made: Any) -> Any:
    inner = getattr(made, "_c", None)
    if inner is None:
        return id(made)
    try:
        return str(inner._type().annotation_str)
    except Exception:
        return id(made)


def _name_of(made: Any, given: Any, how: str) -> str:
    if how == "loaded":
        name = getattr(given, "name", given)
        if isinstance(name, str):
            return os.path.basename(name)
        return "loaded"
    name = getattr(made, "original_name", None) or getattr(given, "__name__", None)
    return str(name or getattr(made, "name", None) or type(given).__name__).replace(
        "<lambda>", "lambda"
    )


def _numbered(name: str) -> Any:
    yield name
    number = 2
    while True:
        yield "%s_%d" % (name, number)
        number += 1


def _compiled() -> dict[str, Any]:
    """Torch.compile's own counters (torch/_dynamo/utils.py, 2.0 to 2.13)."""
    found: dict[str, Any] = {"frames": 0, "graphs": 0, "kernels": 0}
    with contextlib.suppress(Exception):
        counters = sys.modules["torch._dynamo.utils"].counters
        found["frames"] = int(counters["frames"].get("ok", 0))
        found["graphs"] = int(counters["stats"].get("unique_graphs", 0))
    with contextlib.suppress(Exception):
        found["kernels"] = generated_kernels()
    return found


ANNOTATION = "fusiondoc script step"
"""Name of a call of the named function in a trace; a step of an optimiser has
torch's own name."""

_MOST_KEPT = 5_000
"""Most intervals that are recorded, the last ones."""
_DECORATOR = "__fusiondoc_step__"


class ScriptSteps:
    """Counts steps and, with ``timed``, takes their times; ``start`` before the
    program is imported.

    Args:
        function: ``NAME`` or ``Class.NAME`` in the program's own file, or ``package.module:NAME``; None
            counts steps of optimisers.
    """

    def __init__(
        self, torch: Any, records: Records, function: str | None, timed: bool
    ) -> None:
        self._torch = torch
        self._records = records
        self._function = function
        self._timed = timed
        self._marks: dict[Any, list[Any]] = {}
        self._counts: dict[Any, int] = {}
        self._names: dict[Any, str] = {}
        self._inside = False
        self._events = False
        self._found = False
        self._why_not: str | None = None

    def start(self) -> None:
        """Start counting steps."""
        if self._function is None:
            self._hook_optimizers()
            return
        module, colon, name = self._function.rpartition(":")
        if colon:
            finder = AfterImport(
                {module: lambda loaded: self._replace(loaded, name)}
            )
            if module in sys.modules:
                self._replace(sys.modules[module], name)
            sys.meta_path.insert(0, finder)

    def change(self, tree: ast.Module) -> ast.Module:
        """Decorate the named function in the program's source, if it is in this
        file."""
        if self._function is None or ":" in self._function:
            return tree
        found = _definition(tree.body, self._function.split("."))
        if found is None:
            return tree
        self._found = True
        decorator = ast.Name(_DECORATOR, ast.Load())
        first = found.decorator_list[0] if found.decorator_list else found
        found.decorator_list.insert(0, ast.copy_location(decorator, first))
        import builtins

        setattr(builtins, _DECORATOR, self._stepping)
        return tree

    def forget(self) -> None:
        """In a fork: forget the steps of the parent process."""
        self._marks.clear()
        self._counts.clear()

    def look_in(self, main: Any) -> None:
        """Find the function in a spawned process, whose main module was imported
        without ``change``. Its functions look each other up in the module as it
        ran, of which ``main`` is a copy (multiprocessing/spawn.py,
        ``_fixup_main_from_path``)."""
        with contextlib.suppress(Exception):
            if self._function is None or ":" in self._function:
                return
            self._replace(main, self._function)
            for value in list(vars(main).values()):
                ran = getattr(value, "__globals__", {})
                if ran.get("__name__") == "__mp_main__" and self._function in ran:
                    ran[self._function] = vars(main)[self._function]

    def finish(self) -> None:
        """Write the count and times of the steps; of several optimisers those of
        the one with the most steps."""
        if self._records.process is not None and not self._counts:
            return
        most = max(self._counts, key=lambda key: self._counts[key], default=None)
        ms = []
        if self._timed and most is not None:
            ms = self._intervals(self._marks.get(most, ()))
        why = self._why_not
        if self._function is not None and not self._found:
            why = "there is no function %s in the program" % self._function
        cuda = self._torch.cuda
        on_gpu = self._timed and cuda.is_available() and cuda.is_initialized()
        self._records.write(
            "script_steps",
            by=None if most is None else self._names[most],
            count=0 if most is None else self._counts[most],
            ms=[round(interval, 6) for interval in ms[-_MOST_KEPT:]],
            left_out=max(0, len(ms) - _MOST_KEPT),
            why_not=why,
            memory_bytes=int(cuda.max_memory_allocated()) if on_gpu else None,
        )

    def _intervals(self, marks: Any) -> list[float]:
        if not self._events:
            return [(end - start) * 1e3 for start, end in zip(marks, marks[1:])]
        self._torch.cuda.synchronize()
        intervals = []
        for start, end in zip(marks, marks[1:]):
            intervals.append(float(start.elapsed_time(end)))
        return intervals

    def _mark(self, key: Any, name: str) -> None:
        self._counts[key] = self._counts.get(key, 0) + 1
        self._names[key] = name
        if not self._timed:
            return
        marks = self._marks.setdefault(key, [])
        cuda = self._torch.cuda
        events = bool(cuda.is_available() and cuda.is_initialized())
        if events != self._events:  # a program that comes to the GPU only later
            self._events = events
            marks.clear()
        if not events:
            marks.append(time.perf_counter())
            return
        event = cuda.Event(enable_timing=True)
        event.record()
        marks.append(event)

    def _hook_optimizers(self) -> None:
        """Count the calls of ``step`` of each optimiser class from its first
        instance on."""
        base = self._torch.optim.Optimizer
        original = base.__init__
        steps = self

        @functools.wraps(original)
        def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            with contextlib.suppress(Exception):
                kind = type(optimizer)
                if not getattr(kind.step, "_fusiondoc_counted", False):
                    kind.step = steps._counted(kind.step)

        base.__init__ = made

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def counted(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside:  # an optimiser made of others, or a step that calls that of its parent
                return step(optimizer, *args, **kwargs)
            self._inside = True
            try:
                return step(optimizer, *args, **kwargs)
            finally:
                self._inside = False
                self._mark(id(optimizer), type(optimizer).__name__ + ".step")

        counted._fusiondoc_counted = True  # type: ignore[attr-defined]
        return counted

    def _replace(self, module: Any, name: str) -> None:
        owner, _, last = name.rpartition(".")
        if owner:
            holder = functools.reduce(getattr, owner.split("."), module)
        else:
            holder = module
        setattr(holder, last, self._stepping(getattr(holder, last)))
        self._found = True

    def _stepping(self, function: Any) -> Any:
        """Wrap the function so that its calls are counted."""
        jit = self._torch.jit
        if isinstance(
            function, (jit.ScriptFunction, jit.ScriptModule)
        ) or not callable(function):
            self._why_not = (
                "%s is TorchScript: name the Python function that calls it"
                % self._function
            )
            return function
        record = self._torch.profiler.record_function

        @functools.wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return function(*args, **kwargs)
            self._inside = True
            try:
                with record(ANNOTATION):
                    return function(*args, **kwargs)
            finally:
                self._inside = False
                name = str(self._function).rpartition(":")[2]
                self._mark(name, name)

        return step


def _definition(body: list[ast.stmt], names: list[str]) -> Any:
    """The definition of ``A.b`` in these statements, also inside if, try and with;
    if there are several, the last."""
    found = None
    for node in body:
        if (
            isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and node.name == names[0]
        ):
            if len(names) > 1:
                found = _definition(node.body, names[1:]) or found
            elif isinstance(node, ast.FunctionDef):
                found = node
        elif not isinstance(
            node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
        ):
            for field in ("body", "orelse", "finalbody"):
                found = _definition(getattr(node, field, []), names) or found
    return found
