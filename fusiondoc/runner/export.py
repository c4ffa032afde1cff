"""What a run by hand needs to say the same as ``diagnose``: shell variables and lines for the launcher."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Mapping

from fusiondoc.errors import CannotRun
from fusiondoc.masking import masked
from fusiondoc.probe import fusers, knob_values
from fusiondoc.probe.knob_access import Blind, Readable, Skipped
from fusiondoc.probe.knobs import KNOBS
from fusiondoc.runner.interpreter import Tried
from fusiondoc.runner.variables import RunEnvironment

_ORDER = (
    "import ctypes, sys",
    "libc = ctypes.CDLL(None)",
    'libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)',
    "sys.stdout.reconfigure(line_buffering=True)",
)
"""C stdout by lines, as the probe makes it: else kernel dumps come out long after the JIT log around them."""


@dataclass(frozen=True)
class Export:
    """``shell`` before the launcher starts; ``python`` as its first lines."""

    shell: tuple[str, ...]
    python: tuple[str, ...]


def choose_fuser(requested: str, tried: Tried) -> tuple[str, str]:
    """The fuser that ``requested`` means on the torch that was tried, and why; CannotRun if it cannot."""
    rows = {row.fuser: row for row in tried.fusers}
    if requested == "auto":
        nvfuser = rows["nvfuser"]
        return "nvfuser" if nvfuser.available else "nnc", f"auto: {nvfuser.why}"
    row = rows[requested]
    if not row.available:
        raise CannotRun(f"{requested} cannot work here: {row.why}", "fusiondoc env says which fusers can.")
    return requested, str(row.why)


def export(fuser: str, knobs: Mapping[str, str], environment: RunEnvironment, tried: Tried) -> Export:
    """The variables and lines for a fuser that works on the torch that was tried."""
    shell = tuple(f"export {name}={shlex.quote(masked(value))}" for name, value in environment.set.items())
    python = (*_ORDER, "import torch", *_switches(fuser, tried.environment), *_knob_lines(knobs))
    return Export(shell, python)


def _switches(fuser: str, environment: Mapping[str, Any]) -> list[str]:
    """The calls that the probe makes, by letting it make them on something that writes them down."""
    calls = _Calls(bool(environment.get("llvm")))
    torch = SimpleNamespace(
        __version__=environment["torch"], version=SimpleNamespace(cuda=environment.get("cuda")), _C=calls
    )
    fusers.switch_on(torch, fuser)
    return calls.lines


def _knob_lines(knobs: Mapping[str, str]) -> list[str]:
    calls = _Calls(False)
    torch = SimpleNamespace(_C=calls)
    for name, text in knobs.items():
        knob = KNOBS[name]
        value = knob_values.parse(knob.kind, text)
        if isinstance(knob, Readable):
            knob.put(torch, value)
        elif isinstance(knob, Skipped):
            for operator in value:
                getattr(calls, knob.setter)(operator, True)
        elif isinstance(knob, Blind):
            getattr(calls, knob.setter)(value)
        else:
            calls.lines.append(f"# the knob {name} takes a Python function: torch._C.{knob.needs[0]}")
    return calls.lines


class _Calls:
    """Stands for ``torch._C`` and writes down what is called."""

    def __init__(self, llvm: bool) -> None:
        self.lines: list[str] = []
        self._llvm = llvm

    def _llvm_enabled(self) -> bool:
        return self._llvm

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> None:
            self.lines.append(f"torch._C.{name}({', '.join(map(repr, arguments))})")

        return call
