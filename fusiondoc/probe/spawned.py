"""Processes that a program spawns get the fuser and the knobs of the run; by itself torch has its own there.

A process of the start methods "spawn" and "forkserver" is sent its ``Process`` object as a pickle, which it
reads when its main module has been imported (multiprocessing/spawn.py, ``_main``, 3.7 to 3.13). An attribute
of that object, in being unpickled, does the rest there. A forked process has it all already.
"""

from __future__ import annotations

import contextlib
import multiprocessing.process
import multiprocessing.util
import os
import sys
from typing import Any, Mapping

from . import fusers
from .program_watch import ProgramWatch
from .records import Records

_CODE = """
import sys
if "torch" in sys.modules and {package!r} not in sys.modules:
    try:
        import importlib.util
        spec = importlib.util.spec_from_file_location(
            {package!r}, {folder!r} + "/__init__.py", submodule_search_locations=[{folder!r}]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules[{package!r}] = package
        spec.loader.exec_module(package)
        importlib.import_module({package!r} + ".spawned").begin({fuser!r}, {knobs!r}, {records!r})
    except Exception:
        pass
"""


class _Begin:
    """What runs code where it is unpickled."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> Any:
        return exec, (self._code,)


def follow(fuser: str, knobs: Mapping[str, str], records: str | None) -> None:
    """From now on processes that are started get the fuser and the knobs; with ``records``, a file, they tell
    there which models they script."""
    code = _CODE.format(
        package=__name__.rpartition(".")[0],
        folder=os.path.dirname(os.path.abspath(__file__)),
        fuser=fuser,
        knobs=dict(knobs),
        records=records,
    )
    kind = multiprocessing.process.BaseProcess
    start = kind.start

    def start_following(self: Any) -> None:
        with contextlib.suppress(Exception):  # a class with slots
            self._fusiondoc = _Begin(code)
        try:
            start(self)
        finally:
            with contextlib.suppress(Exception):
                del self._fusiondoc

    kind.start = start_following  # type: ignore[method-assign]


def begin(fuser: str, knobs: Mapping[str, str], records: str | None) -> None:
    """In the new process, before its function runs."""
    torch = sys.modules["torch"]
    fusers.switch_on(torch, fuser)
    follow(fuser, knobs, records)  # it may spawn others
    if knobs:
        from . import knobs as all_knobs

        for name, value in knobs.items():
            with contextlib.suppress(Exception):
                all_knobs.apply(torch, name, value)
    if records is not None:
        watch = ProgramWatch(torch, Records(records))
        watch.start()
        multiprocessing.util.Finalize(None, watch.tell_models, exitpriority=10)
