"""Replacements in this process: functions of torch by wrappers that watch their
calls, now or after the import of their module; and source files of the user by
changed texts. Nothing on disk changes.

Modules with a changed text are imported under their own paths, so that relative
imports, ``__file__`` and files beside it work as always; readers of source lines
(tracebacks, ``torch.jit.script``) see the changed text.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import inspect
import io
import linecache
import os
import sys
import tokenize
from typing import Any, Callable, Mapping

_ABSENT = object()


class Replaced:
    """Attributes that are replaced for as long as something is watched."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name = value``, and remember the old value."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._done.append((owner, name, before, vars(owner).get(name)))

    def take_back(self) -> None:
        """Undo all replacements, except those of attributes that somebody else has
        replaced since."""
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
    """True if a function looks up names of a class in its caller's frame, as
    ``torch.jit.script`` does (1.10 to 2.13, torch/jit/_script.py): a wrapper
    between the two adds 1 to ``_frames_up``."""
    try:
        return "_frames_up" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module after its import, whoever imports it."""

    def __init__(self, wanted: dict[str, Callable[[Any], object]]) -> None:
        self._wanted = wanted

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The spec of the other finders, with a loader that calls back when it is
        done."""
        if name not in self._wanted:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None
            if find is not None and finder is not self:
                spec = find(name, path, target)
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


def replace_sources(replaced: Mapping[str, str]) -> None:
    """Replace sources; call it before the target is imported. Args: replaced: path
    of a source file -> file with the text to run instead.
    """
    texts = {}
    for path, copy in replaced.items():
        with open(copy, "rb") as file:
            texts[os.path.realpath(path)] = file.read()
    if texts:
        _import_from(texts)
        _show_lines_of(texts)


def _import_from(texts: Mapping[str, bytes]) -> None:
    """Import modules from the changed texts. They are compiled at every import: a
    cached ``.pyc`` is for the file on disk, and none is written for the text."""
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = texts.get(os.path.realpath(path))
        if data is None:
            return original(self, fullname)
        return self.source_to_code(data, path)

    loader.get_code = get_code


def _show_lines_of(texts: Mapping[str, bytes]) -> None:
    """Make ``inspect`` show the changed texts: it reads ``linecache``, which keeps
    entries without a modification time (``checkcache``)."""
    original: Any = linecache.updatecache

    def updatecache(filename: str, module_globals: Any = None) -> list[str]:
        data = texts.get(os.path.realpath(filename))
        if data is None:
            found: list[str] = original(filename, module_globals)
            return found
        lines = _lines(data)
        linecache.cache[filename] = (len(data), None, lines, filename)
        return lines

    linecache.updatecache = updatecache


def _lines(data: bytes) -> list[str]:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    with io.TextIOWrapper(io.BytesIO(data), encoding, line_buffering=True) as text:
        lines = text.readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines
