"""Modules that fuse themselves: xFormers' ``NVFused...``, and whether their calls came to AOTAutograd.

xformers/components/nvfuser (releases 0.0.12 to 0.0.21): ``forward`` runs the plain operators where its tensor
is not on a GPU, else it calls ``memory_efficient_fusion`` on its function, in every call. ``MLP``
(components/feedforward/mlp.py) is made of them only where ``xformers._is_functorch_available`` was set to
True before it was imported. A class is known by its name, whoever defines it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

from .aot_watch import Watch
from .records import Records
from .replaced import Replaced

NAMES = ("NVFusedBiasActivationDropout", "NVFusedBiasDropoutRes", "NVFusedBiasDropoutResLayerNorm")
_SWITCHED = ("xformers.components.feedforward.mlp", "MLP")


class _Kind:
    """A class of such modules."""

    def __init__(self) -> None:
        self.calls = 0
        self.fused = 0
        self.wraps = 0
        self.eager: list[str] = []
        self.modules: list[Any] = []


class FusedModules:
    """Watches these classes from their definition on; ``watch`` tells what AOTAutograd was asked for."""

    def __init__(self, torch: Any, records: Records, watch: Watch) -> None:
        self._torch = torch
        self._records = records
        self._watch = watch
        self._kinds: dict[str, _Kind] = {}
        self._seen: set[type] = set()
        self._names: dict[int, str] = {}
        self._replaced = Replaced()

    def start(self, defined: bool = False) -> None:
        """Every subclass of ``torch.nn.Module`` that is defined from now on is looked at; ``defined``: those
        that there are already too."""
        base = self._torch.nn.Module
        ahead = list(base.__subclasses__()) if defined else []
        seen: set[type] = set()
        while ahead:
            one = ahead.pop()
            if one not in seen:
                seen.add(one)
                ahead.extend(one.__subclasses__())
                with contextlib.suppress(Exception):
                    self.look_at(one)
        if "__init_subclass__" in vars(base):
            return

        def init_subclass(cls: Any, **kwargs: Any) -> None:
            super(base, cls).__init_subclass__(**kwargs)
            with contextlib.suppress(Exception):
                self.look_at(cls)

        made: Any = init_subclass
        self._replaced.put(base, "__init_subclass__", classmethod(made))

    def stop(self) -> None:
        """All classes as before."""
        self._replaced.take_back()

    def forget(self) -> None:
        """In a fork: calls before it are told by the process that made it."""
        for kind in self._kinds.values():
            kind.calls = kind.fused = kind.wraps = 0
            kind.eager = []

    def name_layers(self, model: Any) -> None:
        """Learn the paths of the modules in a model, whose classes may be older than this watch."""
        if isinstance(model, self._torch.nn.Module):
            for name, module in model.named_modules():
                self._names[id(module)] = name
                cls = type(module)
                self.look_at(cls)
                if (cls.__module__, cls.__name__) == _SWITCHED and not _switch_is_on():
                    # Scripted, it would never be called itself.
                    kind = self._kinds[cls.__name__]
                    kind.modules.append(module)
                    kind.eager = [self._why(module, ())]

    def look_at(self, cls: type) -> None:
        """Watch a class, if it is one of them."""
        switched = (cls.__module__, cls.__name__) == _SWITCHED
        if cls in self._seen or not (cls.__name__ in NAMES or switched) or "forward" not in vars(cls):
            return
        self._seen.add(cls)
        original = vars(cls)["forward"]
        kind = self._kinds.setdefault(cls.__name__, _Kind())
        watched = self

        @functools.wraps(original)
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if switched and _switch_is_on():
                return original(self, *args, **kwargs)  # the modules that it is made of tell it
            wraps, calls = watched._watch.wraps, watched._watch.calls
            result = original(self, *args, **kwargs)
            with contextlib.suppress(Exception):
                watched._note(kind, self, args, watched._watch.wraps - wraps, watched._watch.calls - calls)
            return result

        watched._replaced.put(cls, "forward", forward)

    def _note(self, kind: _Kind, module: Any, args: tuple[Any, ...], wraps: int, calls: int) -> None:
        kind.calls += 1
        kind.wraps += wraps
        if not any(one is module for one in kind.modules) and len(kind.modules) < 1000:
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
        if any(isinstance(one, self._torch.Tensor) and not one.is_cuda for one in args):
            return "its tensor is not on a GPU"
        if not module.training:
            return "the module is in eval mode"
        if "xformers" in sys.modules and not _switch_is_on():
            return "xformers._is_functorch_available is False"
        return "its forward did not call memory_efficient_fusion"

    def finish(self) -> None:
        """Write what was seen."""
        for name, kind in self._kinds.items():
            if kind.calls or kind.eager:
                layers = [self._names[id(one)] for one in kind.modules if id(one) in self._names]
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
    return bool(getattr(sys.modules.get("xformers"), "_is_functorch_available", False))
