"""Changed texts in the place of source files of the user's, for one process: nothing on disk changes.

Modules are imported under their own paths, so that relative imports, ``__file__`` and whatever is read beside
it work as always; what shows or reads source lines (tracebacks, ``torch.jit.script``) sees the changed text.
"""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
import tokenize
from typing import Any, Mapping


def install(replaced: Mapping[str, str]) -> None:
    """To be called before the target is imported.

    Args:
        replaced: path of a source file -> file that holds the text to run instead.
    """
    texts = {}
    for path, copy in replaced.items():
        with open(copy, "rb") as file:
            texts[os.path.realpath(path)] = file.read()
    if texts:
        _import_from(texts)
        _show_lines_of(texts)


def _import_from(texts: Mapping[str, bytes]) -> None:
    """Compiled at every import: a cached ``.pyc`` is of the file on disk, and none is written of the text."""
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = texts.get(os.path.realpath(path))
        return original(self, fullname) if data is None else self.source_to_code(data, path)

    loader.get_code = get_code


def _show_lines_of(texts: Mapping[str, bytes]) -> None:
    """``inspect`` asks ``linecache``, which keeps an entry without a time of change (``checkcache``)."""
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
