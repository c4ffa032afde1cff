"""Telling when a module has been imported, whoever imports it."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from typing import Any, Callable


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when that has been imported."""

    def __init__(self, wanted: dict[str, Callable[[Any], None]]) -> None:
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
