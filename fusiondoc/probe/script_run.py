"""Running a file as ``python FILE.py ARGS`` would, or a module as ``python -m NAME ARGS`` would; and
processes that it spawns get the fuser and the knobs of the run: by itself torch has its own there.

A process of the start methods "spawn" and "forkserver" is sent its ``Process`` object as a pickle, which it
reads when its main module has been imported (multiprocessing/spawn.py, ``_main``, 3.7 to 3.13). An attribute
of that object, in being unpickled, does the rest there. A forked process has it all already.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.machinery
import importlib.util
import multiprocessing.process
import multiprocessing.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, Mapping

from . import fusers
from .failures import MODEL_FAILED, WRONG_USAGE, Refused, UserError
from .program_watch import ProgramWatch
from .records import Clock, Records
from .script_steps import ScriptSteps

Changed = Callable[[ast.Module], ast.Module]
"""What is done to the source before it runs."""


class Script:
    """A program, found and not run yet. ``path`` is its file."""

    def __init__(self, path: str, spec: Any = None) -> None:
        self.path = path
        self._spec = spec

    @classmethod
    def of_module(cls, name: str) -> Script:
        """What ``python -m NAME`` runs: the module, or ``__main__`` of the package.

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
            if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
                raise UserError("import") from error
            spec = None
        except Exception as error:
            raise UserError("import") from error
        path = getattr(spec, "origin", None)
        if spec is None or path is None or not path.endswith(".py"):
            hint = "Start from the folder that python -m %s is run in, or name a file: --script FILE.py."
            package = name.endswith(".__main__")
            what = "the package %s cannot be run: it has no __main__.py" % name[: -len(".__main__")]
            raise Refused(
                "target",
                what if package else "there is no module %s that Python could run" % name,
                hint % (name[: -len(".__main__")] if package else name),
                WRONG_USAGE,
            )
        return cls(path, spec)

    def run(self, change: Changed | None = None) -> None:
        """Execute it as ``__main__``. Unlike ``runpy`` the module stays in place afterwards, so that
        threads, ``atexit`` functions and pickling find its globals as they do in a run by hand.

        Raises:
            UserError: what it raised.
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
        if self._spec is not None:  # processes that the program spawns import it by this name
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
                said = "status %s" % error.code if isinstance(error.code, int) else str(error.code)
                raise Refused("script_run", "the script exited with " + said, None, MODEL_FAILED) from None
        except Exception as error:
            raise UserError("script_run") from error


def run_as_script(torch: Any, spec: dict[str, Any], records: Records, clock: Clock, fuser: str) -> None:
    """Run the program of a spec, and record what it scripts and how many steps it takes. Processes that it
    spawns get the fuser too.

    Raises:
        Refused, UserError: as ``Script``.
    """
    target = spec["target"]
    module = target["module"] if target["kind"] == "module" else None
    label = str(module) if module is not None else os.path.basename(target["path"])
    records.write("target", how="script", label=label, signature=None)
    quiet = bool(spec.get("timing") or spec.get("profile"))
    # Of several ranks the slowest step is told, so each takes its times.
    timed = bool(spec.get("timing") or spec.get("launcher"))
    steps = ScriptSteps(torch, records, spec.get("step_function"), timed)
    watch = ProgramWatch(torch, records)
    steps.start()
    if not quiet:
        watch.start()
    follow_spawned(fuser, spec["knobs"], None if quiet else records.path)
    try:
        with clock.users_work():
            script = Script.of_module(module) if module is not None else Script(target["path"])
            sys.argv[0] = script.path
            if spec.get("profile"):
                from .step_profile import profile_script

                profile_script(torch, lambda: script.run(steps.change), records, spec["folder"])
            else:
                script.run(steps.change)
    finally:
        steps.finish()
        if not quiet:
            watch.finish()


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
        importlib.import_module({package!r} + ".script_run").begin_spawned({fuser!r}, {knobs!r}, {records!r})
    except Exception:
        pass
"""


class _Begin:
    """What runs code where it is unpickled."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> Any:
        return exec, (self._code,)


def follow_spawned(fuser: str, knobs: Mapping[str, str], records: str | None) -> None:
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


def begin_spawned(fuser: str, knobs: Mapping[str, str], records: str | None) -> None:
    """In the new process, before its function runs."""
    torch = sys.modules["torch"]
    fusers.switch_on(torch, fuser)
    follow_spawned(fuser, knobs, records)  # it may spawn others
    if knobs:
        from . import knobs as all_knobs

        for name, value in knobs.items():
            with contextlib.suppress(Exception):
                all_knobs.apply(torch, name, value)
    if records is not None:
        watch = ProgramWatch(torch, Records(records))
        watch.start()
        multiprocessing.util.Finalize(None, watch.tell_models, exitpriority=10)
