"""What a program that runs as it is does with TorchScript and torch.compile: the models that it scripts,
traces and loads, each with its name and line, and what it ran instead where there are none."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import weakref
from typing import Any, Callable

from .records import Records
from .replaced import Replaced, takes_frames_up
from .source_map import source_map

_MAKERS = {
    "script": "scripted",
    "trace": "traced",
    "trace_module": "traced",
    "load": "loaded",
    "freeze": "frozen",
    "optimize_for_inference": "frozen",
}
"""Functions of torch.jit (all there from 1.10 to 2.13), and what a model is called that they make."""

_MOST_MODELS = 64
_WALK_SECONDS = 5.0
"""So long the graphs of all models together are walked for lines and layers."""


class ProgramWatch:
    """One for a process; ``start`` before the program is imported, ``finish`` at its end."""

    def __init__(self, torch: Any, records: Records) -> None:
        self._torch = torch
        self._records = records
        self._models: list[_Model] = []
        self._inside = 0
        self._ended = False
        self._walked = 0.0
        folder = os.path.dirname(os.path.abspath(torch.__file__))
        self._replaced = Replaced()
        self._own = (folder + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep)

    def start(self) -> None:
        """Replace what makes TorchScript by the same with a note of what was made."""
        jit = self._torch.jit
        for name, how in _MAKERS.items():
            original = getattr(jit, name, None)
            if original is not None:
                self._replaced.put(jit, name, self._noting(original, how))

    def stop(self) -> None:
        """Everything as before; for a program that goes on."""
        self._ended = True
        self._replaced.take_back()

    def finish(self, block: bool = False) -> None:
        """Write a record for each model, and one on what else compiled or stepped. Of a ``block`` without a
        model nothing: what was scripted before it is not known."""
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
        """In a fork: its models before are those of the process that made it, and told there."""
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
                    self._note(result, how, args[0] if args else next(iter(kwargs.values()), None))
            return result

        return made

    def _note(self, made: Any, how: str, given: Any) -> None:
        jit = self._torch.jit
        if made is given or not isinstance(made, (jit.ScriptModule, jit.ScriptFunction)):
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
        unique = next(one for one in _numbered(name) if one not in taken)
        model = _Model(unique, how, at, kind)
        model.keep(made)
        self._models.append(model)
        self._walk(unique, made)

    def _walk(self, name: str, made: Any) -> None:
        """Lines and layers of its operators, now: nothing keeps it alive until the end."""
        if self._walked < _WALK_SECONDS:
            began = time.perf_counter()
            with contextlib.suppress(Exception):
                self._records.write("source_map", model=name, **source_map(self._torch, made, always=True))
            self._walked += time.perf_counter() - began

    def _caller(self) -> str | None:
        """``file:line`` that asked for it; None where torch itself did."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(self._own[1]):
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(self._own[0]):
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
        """Its forms, if they are still there."""

    def keep(self, made: Any) -> None:
        """Another form of it."""
        self._kinds.add(_kind_of(made))
        try:
            self._kept.append(weakref.ref(made))
        except TypeError:  # a function, which has no weights
            self._kept.append(lambda: made)

    def is_same(self, kind: Any, given: Any) -> bool:
        """Whether it has this type, or is what a frozen one was made of."""
        return kind in self._kinds or any(one() is given for one in self._kept if given is not None)

    def planned(self) -> bool | None:
        """Whether it has an execution plan; None where it is gone."""
        alive = [one for one in (kept() for kept in self._kept) if one is not None]
        if not alive:
            return None
        return any(map(_has_plan, alive))


def _has_plan(made: Any) -> bool:
    """The profiling executor has a state to tell once it has optimised (``getDebugState`` of
    torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, 1.12 to 2.13, throws before)."""
    called = made if hasattr(made, "get_debug_state") else getattr(made, "forward", None)
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
        return os.path.basename(name) if isinstance(name, str) else "loaded"
    name = getattr(made, "original_name", None) or getattr(given, "__name__", None)
    return str(name or getattr(made, "name", None) or type(given).__name__).replace("<lambda>", "lambda")


def _numbered(name: str) -> Any:
    yield name
    number = 2
    while True:
        yield "%s_%d" % (name, number)
        number += 1


def _compiled() -> dict[str, Any]:
    """What torch.compile did: its own counters (torch/_dynamo/utils.py, 2.0 to 2.13)."""
    found: dict[str, Any] = {"frames": 0, "graphs": 0, "kernels": 0, "inductor": False}
    with contextlib.suppress(Exception):
        counters = sys.modules["torch._dynamo.utils"].counters
        found["frames"] = int(counters["frames"].get("ok", 0))
        found["graphs"] = int(counters["stats"].get("unique_graphs", 0))
    metrics = sys.modules.get("torch._inductor.metrics")
    with contextlib.suppress(Exception):
        found["kernels"] = int(getattr(metrics, "generated_kernel_count", 0))
    found["inductor"] = found["kernels"] > 0 or "torch._inductor.compile_fx" in sys.modules
    return found
