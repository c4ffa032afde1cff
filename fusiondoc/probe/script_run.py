"""A program run as ``python FILE.py ARGS`` or ``python -m NAME ARGS`` would run it,
and the processes that it starts: they get the fuser and the knobs of the run, and
write records.

A process of the start methods "spawn" and "forkserver" is sent two pickles
(multiprocessing/spawn.py, ``_main``, 3.7 to 3.14): a dictionary, before it imports
the program's main module, and behind that its ``Process`` object. An object in the
first begins the watch when that process imports torch, as in the run's own process;
an object in the second looks for the step function in the main module. A forked
process has the fuser already, and goes on with the watches of its parent.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.machinery
import importlib.util
import multiprocessing.process
import multiprocessing.spawn
import multiprocessing.util
import os
import sys
import zlib
from types import ModuleType
from typing import Any, Callable, NamedTuple, Sequence

from . import (
    MODEL_FAILED,
    RUNNING,
    WRONG_USAGE,
    Refused,
    UserError,
    fusers,
    log_and_records,
)
from .aot_watch import Watch
from .frontends import FusedModules
from .live_capture import LateWatch
from .log_and_records import Clock, Records
from .program_watch import ProgramWatch, ScriptSteps
from .replaced import AfterImport
from .switch_watch import SwitchWatch

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
        importlib.import_module({package!r} + ".script_run").arrived(*{settings!r})
    except Exception:
        pass
"""
_MAIN_IS_THERE = """
import sys
try:
    sys.modules[{package!r} + ".script_run"].main_is_there()
except Exception:
    pass
"""


class _Executed:
    """Runs its code when it is unpickled."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> Any:
        return exec, (self._code,)


class ProcessSettings(NamedTuple):
    """Settings of a process that the program starts."""

    fuser: str
    knobs: dict[str, str]
    records: str | None
    """Path of the file; None: write no records."""
    watched: bool
    """Whether to record its models and switches, and not only its steps."""
    aot: bool
    """Whether to record AOTAutograd too."""
    step_function: str | None
    timed: bool


def follow(
    settings: ProcessSettings, records: Records, watching: Sequence[Any]
) -> None:
    """Give ``settings`` to processes that are started from now on. ``watching``:
    the watches of this process, which continue in a fork; each has ``forget`` and
    ``finish``."""
    package, folder = (
        __name__.rpartition(".")[0],
        os.path.dirname(os.path.abspath(__file__)),
    )
    arrived = _Executed(
        _ARRIVED.format(package=package, folder=folder, settings=tuple(settings))
    )
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
    _of_this_process.append(_Watched(records, watching))


class _Watched:
    """The watches of a process; they write their last records at its end."""

    def __init__(self, records: Records, watching: Sequence[Any]) -> None:
        self._records = records
        self._watching = watching
        # A fork of multiprocessing calls it, and up to 3.9 a spawned process, both
        # after they have forgotten all finalizers (``_bootstrap`` in
        # multiprocessing/process.py).
        multiprocessing.util.register_after_fork(self, _Watched._began)

    def _began(self) -> None:
        if self._records.process != os.getpid():
            self._records.process = os.getpid()
            for watch in self._watching:
                watch.forget()
            home = sys.modules.get("torch.fx.graph_module")
            if home is not None:
                with contextlib.suppress(Exception):
                    name_by_content(home)
        self.finish_at_exit()

    def finish_at_exit(self) -> None:
        multiprocessing.util.Finalize(None, self._finish, exitpriority=10)

    def _finish(self) -> None:
        watching, self._watching = self._watching, ()
        for watch in watching:
            with contextlib.suppress(Exception):
                watch.finish()

    def main_is_there(self) -> None:
        for watch in self._watching:
            if isinstance(watch, ScriptSteps):
                watch.look_in(sys.modules["__main__"])


_of_this_process: list[_Watched] = []
"""Kept alive here: ``register_after_fork`` holds only weak references."""


def arrived(*fields: Any) -> None:
    """In a new process that has not imported the program yet: begin as soon as
    torch is imported. ``fields`` are those of ``ProcessSettings``."""
    settings = ProcessSettings(*fields)
    torch = sys.modules.get("torch")
    if torch is not None:  # a server of forks has imported the program
        _begin(torch, settings, late=True)
        return
    sys.meta_path.insert(
        0, AfterImport({"torch": lambda torch: _begin(torch, settings, late=False)})
    )


def main_is_there() -> None:
    """Called in a new process once it has imported the program's main module."""
    for watched in _of_this_process:
        watched.main_is_there()


def _begin(torch: Any, settings: ProcessSettings, late: bool) -> None:
    log_and_records.line_buffer()
    fusers.switch_on(torch, settings.fuser)
    if settings.knobs:
        from . import knobs

        for name, value in settings.knobs.items():
            with contextlib.suppress(Exception):
                knobs.apply(torch, name, value)
    records = Records(settings.records or os.devnull, process=os.getpid())
    switches = SwitchWatch(torch, records, settings.fuser, settings.knobs)
    switches.stage = RUNNING
    switches.start()
    watching: list[Any] = [switches]
    if settings.records is not None:
        steps = ScriptSteps(torch, records, settings.step_function, settings.timed)
        watching.append(steps)
        if settings.watched:
            watching.append(ProgramWatch(torch, records))
        for watch in watching:
            watch.start()
    if settings.aot and settings.watched:
        watch = (LateWatch if late else Watch)(torch, records)
        modules = FusedModules(torch, records, watch)
        watch.after_import["torch.fx.graph_module"] = name_by_content
        watch.start()
        modules.start(defined=late)
        watching += [watch, modules]
    follow(settings, records, watching)  # it may start others
    _of_this_process[-1].finish_at_exit()


def name_by_content(home: Any) -> None:
    """Generated code of FX graphs (torch/fx/graph_module.py, ``_EvalCacheLoader``,
    1.12 to 2.13) is named ``<eval_with_key>.7`` by its number in the process. All
    processes of a program are in one log: with numbers made of the code equal
    graphs have equal names there, and others have other names."""
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


Changed = Callable[[ast.Module], ast.Module]
"""Changes the source before it runs."""


class Script:
    """A program, found and not run yet. ``path`` is its file."""

    def __init__(self, path: str, spec: Any = None) -> None:
        self.path = path
        self._spec = spec

    @classmethod
    def of_module(cls, name: str) -> Script:
        """The program of ``python -m NAME``: the module, or ``__main__`` of the
        package.

        Raises:
            Refused: there is none.
            UserError: a package above it failed to import.
        """
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations is not None:
                name += ".__main__"
                spec = importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (
                name == error.name or name.startswith(error.name + ".")
            ):
                raise UserError("import") from error
            spec = None
        except Exception as error:
            raise UserError("import") from error
        path = getattr(spec, "origin", None)
        if spec is None or path is None or not path.endswith(".py"):
            hint = "Start from the folder that python -m %s is run in, or name a file: --script FILE.py."
            package = name.endswith(".__main__")
            what = (
                "the package %s cannot be run: it has no __main__.py"
                % name[: -len(".__main__")]
            )
            raise Refused(
                "target",
                what
                if package
                else "there is no module %s that Python could run" % name,
                hint % (name[: -len(".__main__")] if package else name),
                WRONG_USAGE,
            )
        return cls(path, spec)

    def run(self, change: Changed | None = None) -> None:
        """Execute it as ``__main__``. Unlike with ``runpy`` the module stays in
        ``sys.modules`` afterwards, so that threads, ``atexit`` functions and
        pickling find its globals as they do in a run by hand.

        Raises:
            UserError: it raised an exception, the cause.
            Refused: it exited with a status other than 0.
        """
        main = ModuleType("__main__")
        main.__dict__.update(
            __file__=self.path,
            __builtins__=builtins,
            __loader__=importlib.machinery.SourceFileLoader("__main__", self.path),
            __cached__=None,
            __annotations__={},
        )
        if (
            self._spec is not None
        ):  # processes that the program spawns import it by this name
            main.__spec__ = self._spec
            main.__package__ = self._spec.parent
        sys.modules["__main__"] = main
        try:
            with open(self.path, "rb") as file:
                source: Any = file.read()
            if change is not None:
                source = change(ast.parse(source, self.path))
            code = compile(source, self.path, "exec", dont_inherit=True)
            exec(code, main.__dict__)
        except SystemExit as error:
            if error.code not in (None, 0):
                if isinstance(error.code, int):
                    ending = "status %s" % error.code
                else:
                    ending = str(error.code)
                raise Refused(
                    "script_run",
                    "the script exited with " + ending,
                    None,
                    MODEL_FAILED,
                ) from None
        except Exception as error:
            raise UserError("script_run") from error


def run_as_script(
    torch: Any,
    spec: dict[str, Any],
    records: Records,
    clock: Clock,
    fuser: str,
    watching: Sequence[Any],
    switches: SwitchWatch,
) -> None:
    """Run the program of a spec, and record the models that it scripts and its
    number of steps. Processes that it starts get the fuser too, and write the same
    records. ``watching``: the watches of AOTAutograd, if there are any;
    ``switches``: the watch of switches that the program turns off.

    Raises:
        Refused, UserError: as ``Script``.
    """
    target = spec["target"]
    module = target["module"] if target["kind"] == "module" else None
    label = str(module) if module is not None else os.path.basename(target["path"])
    records.write("target", how="script", label=label, signature=None)
    quiet = bool(spec.get("timing") or spec.get("profile"))
    # The report shows the slowest step of several ranks, so each measures its
    # times.
    timed = bool(spec.get("timing") or spec.get("launcher"))
    steps = ScriptSteps(torch, records, spec.get("step_function"), timed)
    watch = ProgramWatch(torch, records)
    switches.stage = RUNNING
    steps.start()
    if not quiet:
        watch.start()
    settings = ProcessSettings(
        fuser,
        spec["knobs"],
        None if spec.get("profile") else records.path,
        not quiet,
        bool(watching),
        spec.get("step_function"),
        timed,
    )
    follow(
        settings, records, [steps] if quiet else [steps, watch, switches, *watching]
    )
    try:
        with clock.users_work():
            if module is not None:
                script = Script.of_module(module)
            else:
                script = Script(target["path"])
            sys.argv[0] = script.path
            if spec.get("profile"):
                from .step_profile import profile_script

                profile_script(
                    torch, lambda: script.run(steps.change), records, spec["folder"]
                )
            else:
                script.run(steps.change)
    finally:
        steps.finish()
        if not quiet:
            watch.finish()
            switches.finish()
