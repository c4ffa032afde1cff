"""Running a file as ``python FILE.py ARGS`` would, or a module as ``python -m NAME ARGS`` would."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, Sequence

from .failures import MODEL_FAILED, WRONG_USAGE, Refused, UserError
from .program_watch import ProgramWatch
from .records import Clock, Records
from .script_steps import ScriptSteps
from .spawned import Asked, follow

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


def run_as_script(
    torch: Any,
    spec: dict[str, Any],
    records: Records,
    clock: Clock,
    fuser: str,
    watching: Sequence[Any],
) -> None:
    """Run the program of a spec, and record what it scripts and how many steps it takes. Processes that it
    starts get the fuser too, and tell the same. ``watching`` what AOTAutograd does, if anything does.

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
    asked = Asked(
        fuser,
        spec["knobs"],
        None if spec.get("profile") else records.path,
        not quiet,
        bool(watching),
        spec.get("step_function"),
        timed,
    )
    follow(asked, records, [steps] if quiet else [steps, watch, *watching])
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
