"""Processes that a program starts get the fuser and the knobs of the run, and tell what they did: the models
that they script, what AOTAutograd made there, their steps.

A process of the start methods "spawn" and "forkserver" is sent two pickles (multiprocessing/spawn.py,
``_main``, 3.7 to 3.14): a dictionary, before it imports the program's main module, and behind that its
``Process`` object. What is unpickled with the first begins when that process imports torch, as fusiondoc does
in the run's own; what is unpickled with the second looks for the step function in the main module. A forked
process has the fuser already, and goes on with what watches its parent.
"""

from __future__ import annotations

import contextlib
import multiprocessing.process
import multiprocessing.spawn
import multiprocessing.util
import os
import sys
import zlib
from typing import Any, NamedTuple, Sequence

from . import fusers, stdio
from .aot_watch import Watch
from .fused_modules import FusedModules
from .live_capture import LateWatch
from .program_watch import ProgramWatch
from .records import Records
from .replaced import AfterImport
from .script_steps import ScriptSteps

_ARRIVED = """
import sys
if {package!r} not in sys.modules:
    try:
        import importlib.util
        spec = importlib.util.spec_from_file_location(
            {package!r}, {folder!r} + "/__init__.py", submodule_search_locations=[{folder!r}]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules[{package!r}] = package
        spec.loader.exec_module(package)
        importlib.import_module({package!r} + ".spawned").arrived(*{asked!r})
    except Exception:
        pass
"""
_MAIN_IS_THERE = """
import sys
try:
    sys.modules[{package!r} + ".spawned"].main_is_there()
except Exception:
    pass
"""


class _Executed:
    """What runs code where it is unpickled."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> Any:
        return exec, (self._code,)


class Asked(NamedTuple):
    """What a started process is to do."""

    fuser: str
    knobs: dict[str, str]
    records: str | None
    """The file; None: it tells nothing."""
    watched: bool
    """What it does is told, and not only its steps."""
    aot: bool
    """AOTAutograd too."""
    step_function: str | None
    timed: bool


def follow(asked: Asked, records: Records, watching: Sequence[Any]) -> None:
    """From now on processes that are started do what is asked for. ``watching``: what watches this process,
    and in a fork goes on to; each can ``forget`` and ``finish``."""
    package, folder = __name__.rpartition(".")[0], os.path.dirname(os.path.abspath(__file__))
    arrived = _Executed(_ARRIVED.format(package=package, folder=folder, asked=tuple(asked)))
    main_is_there = _Executed(_MAIN_IS_THERE.format(package=package))
    kind = multiprocessing.process.BaseProcess
    start, preparation = kind.start, multiprocessing.spawn.get_preparation_data

    def start_following(self: Any) -> None:
        with contextlib.suppress(Exception):  # a class with slots
            self._fusiondoc = main_is_there
        try:
            start(self)
        finally:
            with contextlib.suppress(Exception):
                del self._fusiondoc

    def preparation_data(name: str) -> Any:
        return dict({"fusiondoc": arrived}, **preparation(name))

    kind.start = start_following  # type: ignore[method-assign]
    multiprocessing.spawn.get_preparation_data = preparation_data
    _here.append(_Watched(records, watching))


class _Watched:
    """What watches a process, and is to tell at its end."""

    def __init__(self, records: Records, watching: Sequence[Any]) -> None:
        self._records = records
        self._watching = watching
        # A fork of multiprocessing calls it, and up to 3.9 a spawned process, both after they have forgotten
        # all finalizers (``_bootstrap`` in multiprocessing/process.py).
        multiprocessing.util.register_after_fork(self, _Watched._began)

    def _began(self) -> None:
        if self._records.process != os.getpid():
            self._records.process = os.getpid()
            for one in self._watching:
                one.forget()
            home = sys.modules.get("torch.fx.graph_module")
            if home is not None:
                with contextlib.suppress(Exception):
                    name_by_content(home)
        self.tell_at_the_end()

    def tell_at_the_end(self) -> None:
        multiprocessing.util.Finalize(None, self._tell, exitpriority=10)

    def _tell(self) -> None:
        watching, self._watching = self._watching, ()
        for one in watching:
            with contextlib.suppress(Exception):
                one.finish()

    def main_is_there(self) -> None:
        for one in self._watching:
            if isinstance(one, ScriptSteps):
                one.look_in(sys.modules["__main__"])


_here: list[_Watched] = []
"""Of this process; after_fork knows only what somebody holds."""


def arrived(*fields: Any) -> None:
    """In a new process, which has imported nothing of the program's: begin as soon as it has torch.
    ``fields`` are those of ``Asked``."""
    asked = Asked(*fields)
    torch = sys.modules.get("torch")
    if torch is not None:  # a server of forks has imported the program
        _begin(torch, asked, late=True)
        return
    sys.meta_path.insert(0, AfterImport({"torch": lambda torch: _begin(torch, asked, late=False)}))


def main_is_there() -> None:
    """In a new process, which has imported the program's main module."""
    for one in _here:
        one.main_is_there()


def _begin(torch: Any, asked: Asked, late: bool) -> None:
    stdio.line_buffer()
    fusers.switch_on(torch, asked.fuser)
    if asked.knobs:
        from . import knobs

        for name, value in asked.knobs.items():
            with contextlib.suppress(Exception):
                knobs.apply(torch, name, value)
    records = Records(asked.records or os.devnull, process=os.getpid())
    watching: list[Any] = []
    if asked.records is not None:
        steps = ScriptSteps(torch, records, asked.step_function, asked.timed)
        watching.append(steps)
        if asked.watched:
            watching.append(ProgramWatch(torch, records))
        for one in watching:
            one.start()
    if asked.aot and asked.watched:
        watch = (LateWatch if late else Watch)(torch, records)
        modules = FusedModules(torch, records, watch)
        watch.after_import["torch.fx.graph_module"] = name_by_content
        watch.start()
        modules.start(defined=late)
        watching += [watch, modules]
    follow(asked, records, watching)  # it may start others
    _here[-1].tell_at_the_end()


def name_by_content(home: Any) -> None:
    """Generated code of FX graphs (torch/fx/graph_module.py, ``_EvalCacheLoader``, 1.12 to 2.13) is named
    ``<eval_with_key>.7`` by its number in the process. All processes of a program are in one log: with
    numbers made of the code equal graphs have equal names there, and others have other names."""
    loader = home._loader
    original = loader.cache
    seen: dict[int, int] = {}

    def cache(source: str, *args: Any, **kwargs: Any) -> Any:
        number = zlib.crc32(source.encode("utf-8", "backslashreplace")) % _NUMBERS
        loader.next_id = _NUMBERS + number + seen.get(number, 0)
        seen[number] = seen.get(number, 0) + 1
        return original(source, *args, **kwargs)

    loader.cache = cache


_NUMBERS = 10_000_000
