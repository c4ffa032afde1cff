"""Functions of torch replaced by watching ones: now, or when their module has been imported; and put back."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import inspect
import sys
from typing import Any, Callable

_ABSENT = object()


class Replaced:
    """Attributes that were given another value, for as long as something is watched."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name = value``, to be taken back."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._done.append((owner, name, before, vars(owner).get(name)))

    def take_back(self) -> None:
        """Everything as before, but for what somebody else has replaced since."""
        while self._done:
            owner, name, before, ours = self._done.pop()
            if vars(owner).get(name) is not ours:
                continue
            with contextlib.suppress(Exception):
                if before is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)


def takes_frames_up(function: Callable[..., Any]) -> bool:
    """Whether it looks names of a class up in a frame of its caller's, as ``torch.jit.script`` does (1.10 to
    2.13, torch/jit/_script.py): what calls it in the caller's place adds one to ``_frames_up``."""
    try:
        return "_frames_up" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when that has been imported, whoever imports it."""

    def __init__(self, wanted: dict[str, Callable[[Any], object]]) -> None:
        self._wanted = wanted

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The spec of the other finders, with a loader that tells when it is done."""
        if name not in self._wanted:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        loader: Any = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is not None:

            def exec_module(module: Any) -> None:
                execute(module)
                with contextlib.suppress(Exception):
                    self._wanted[name](module)

            with contextlib.suppress(AttributeError):
                loader.exec_module = exec_module
        return spec
