"""The steps of a program that runs as it is: what its optimiser does, or a function that the user names.

A step lasts from the end of one to the end of the next, as a training loop sees it: with data loading.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
import time
from typing import Any, Callable

from .records import Records
from .replaced import AfterImport

ANNOTATION = "fusiondoc script step"
"""How a call of the named function is called in a trace; an optimiser's has torch's own name there."""

_MOST_KEPT = 5_000
"""Intervals that are told, the last ones."""
_DECORATOR = "__fusiondoc_step__"


class ScriptSteps:
    """Counts steps and, with ``timed``, takes their times; ``start`` before the program is imported.

    Args:
        function: ``NAME`` or ``Class.NAME`` in the program's own file, or ``package.module:NAME``; None
            counts steps of optimisers.
    """

    def __init__(self, torch: Any, records: Records, function: str | None, timed: bool) -> None:
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
        """From now on steps count."""
        if self._function is None:
            self._hook_optimizers()
            return
        module, colon, name = self._function.rpartition(":")
        if colon:
            finder = AfterImport({module: lambda loaded: self._replace(loaded, name)})
            if module in sys.modules:
                self._replace(sys.modules[module], name)
            sys.meta_path.insert(0, finder)

    def change(self, tree: ast.Module) -> ast.Module:
        """The program with the named function decorated, if it is in this file."""
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
        """In a fork: steps before it are those of the process that made it."""
        self._marks.clear()
        self._counts.clear()

    def look_in(self, main: Any) -> None:
        """In a process that is spawned: its main module has been imported, and not by ``change``. Its
        functions look each other up where it ran, of which ``main`` is a copy (multiprocessing/spawn.py,
        ``_fixup_main_from_path``)."""
        with contextlib.suppress(Exception):
            if self._function is None or ":" in self._function:
                return
            self._replace(main, self._function)
            for one in list(vars(main).values()):
                ran = getattr(one, "__globals__", {})
                if ran.get("__name__") == "__mp_main__" and self._function in ran:
                    ran[self._function] = vars(main)[self._function]

    def finish(self) -> None:
        """Write what was counted: of several optimisers that with the most steps."""
        if self._records.process is not None and not self._counts:
            return
        most = max(self._counts, key=lambda key: self._counts[key], default=None)
        ms = self._intervals(self._marks.get(most, ())) if self._timed and most is not None else []
        why = self._why_not
        if self._function is not None and not self._found:
            why = "there is no function %s in the program" % self._function
        cuda = self._torch.cuda
        on_gpu = self._timed and cuda.is_available() and cuda.is_initialized()
        self._records.write(
            "script_steps",
            by=None if most is None else self._names[most],
            count=0 if most is None else self._counts[most],
            ms=[round(one, 6) for one in ms[-_MOST_KEPT:]],
            left_out=max(0, len(ms) - _MOST_KEPT),
            why_not=why,
            memory_bytes=int(cuda.max_memory_allocated()) if on_gpu else None,
        )

    def _intervals(self, marks: Any) -> list[float]:
        if not self._events:
            return [(two - one) * 1e3 for one, two in zip(marks, marks[1:])]
        self._torch.cuda.synchronize()
        return [float(one.elapsed_time(two)) for one, two in zip(marks, marks[1:])]

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
        """Every class gets its ``step`` counted when the first of it is made."""
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
        holder = functools.reduce(getattr, owner.split("."), module) if owner else module
        setattr(holder, last, self._stepping(getattr(holder, last)))
        self._found = True

    def _stepping(self, function: Any) -> Any:
        """The function with its calls counted."""
        jit = self._torch.jit
        if isinstance(function, (jit.ScriptFunction, jit.ScriptModule)) or not callable(function):
            self._why_not = "%s is TorchScript: name the Python function that calls it" % self._function
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
    """The definition of ``A.b`` in these statements, also inside if, try and with; the last of several."""
    found = None
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == names[0]:
            if len(names) > 1:
                found = _definition(node.body, names[1:]) or found
            elif isinstance(node, ast.FunctionDef):
                found = node
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            for field in ("body", "orelse", "finalbody"):
                found = _definition(getattr(node, field, []), names) or found
    return found
