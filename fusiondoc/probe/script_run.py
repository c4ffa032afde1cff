"""Running a file as ``python FILE.py ARGS`` would."""

from __future__ import annotations

import builtins
import importlib.machinery
import sys
from types import ModuleType

from .failures import MODEL_FAILED, Refused, UserError


def run_script(path: str) -> None:
    """Execute the file as ``__main__``. Unlike ``runpy`` the module stays in place afterwards, so that
    threads, ``atexit`` functions and pickling find its globals as they do in a run by hand.

    Raises:
        UserError: what it raised.
        Refused: it exited with a status other than 0.
    """
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
        __cached__=None,
        __annotations__={},
    )
    sys.modules["__main__"] = main
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, main.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0):
            said = "status %s" % error.code if isinstance(error.code, int) else str(error.code)
            raise Refused("script_run", "the script exited with " + said, None, MODEL_FAILED) from None
    except Exception as error:
        raise UserError("script_run") from error
