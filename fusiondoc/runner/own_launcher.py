"""The lines to add to a run by hand: shell variables, and Python that switches a
fuser on.

The Python lines are recorded from the probe's own calls, made on a stand-in for
torch, so that they are defined only once.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from fusiondoc.errors import CannotRun
from fusiondoc.fuser_knobs.checks import INSTEAD, WITH_OPTIONS
from fusiondoc.masking import masked
from fusiondoc.model import dataclass
from fusiondoc.probe.fusers import switch_on
from fusiondoc.probe.knob_values import parse
from fusiondoc.probe.knobs import KNOBS, Blind, Configured, Readable, Skipped
from fusiondoc.runner.interpreter import Tried
from fusiondoc.runner.run_variables import RunEnvironment

_ORDER = (
    "import ctypes, sys",
    "libc = ctypes.CDLL(None)",
    'libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)',
    "sys.stdout.reconfigure(line_buffering=True)",
)
"""Makes C stdout line-buffered, as the probe does: otherwise kernel dumps appear
long after the JIT log around them."""


@dataclass(frozen=True)
class Export:
    """``shell``: lines to run before the launcher; ``python``: the first lines of
    the program."""

    shell: tuple[str, ...]
    python: tuple[str, ...]


def choose_fuser(requested: str, tried: Tried) -> tuple[str, str]:
    """Return the fuser for ``requested`` on the torch that was tried, and why;
    CannotRun if it cannot."""
    rows = {row.fuser: row for row in tried.fusers}
    if requested == "auto":
        first = rows[WITH_OPTIONS.name]
        return first.fuser if first.available else INSTEAD, f"auto: {first.why}"
    row = rows[requested]
    if not row.available:
        raise CannotRun(
            f"{requested} cannot work here: {row.why}",
            "fusiondoc env lists the fusers that can.",
        )
    return requested, str(row.why)


def export(
    fuser: str, knobs: Mapping[str, str], environment: RunEnvironment, tried: Tried
) -> Export:
    """The variables and lines for a fuser that works on the torch that was
    tried."""
    shell = []
    for name, value in environment.set.items():
        shell.append(f"export {name}={shlex.quote(masked(value))}")
    found = tried.environment
    calls = _switching(fuser, found.torch, found.cuda, found.llvm)
    python = (*_ORDER, "import torch", *calls.lines, *knob_lines(knobs))
    return Export(tuple(shell), python)


def missing_switches(
    fuser: str,
    device: str,
    switches: Mapping[str, bool],
    torch: str,
    cuda: str | None,
    llvm: bool,
) -> tuple[str, ...]:
    """Return the lines that switch a fuser on in a process: those that differ from
    the process's switches and apply to its device.

    Args: device: cpu or cuda; lines for the other alone are left out. switches:
        those of the process, by the function that sets each
        (``probe/own_switches.py``). torch: version of its torch; ``cuda``: version
        of CUDA of that build. llvm: whether it was built with LLVM.
    """
    calls = _switching(fuser, torch, cuda, llvm)
    of_other = "_gpu" if device == "cpu" else "_cpu"
    lines = []
    for line, (name, arguments) in zip(calls.lines, calls.made):
        if (
            of_other not in name
            and name in switches
            and arguments != (switches[name],)
        ):
            lines.append(line)
    return tuple(lines)


def _switching(fuser: str, torch: str, cuda: str | None, llvm: bool) -> _Calls:
    """The calls that the probe makes to switch a fuser on."""
    calls = _Calls(llvm)
    switch_on(
        SimpleNamespace(
            __version__=torch, version=SimpleNamespace(cuda=cuda), _C=calls
        ),
        fuser,
    )
    return calls


def knob_lines(knobs: Mapping[str, str]) -> list[str]:
    """The lines of Python that set these knobs."""
    calls = _Calls(False)
    torch = SimpleNamespace(_C=calls)
    for name, text in knobs.items():
        knob = KNOBS[name]
        value = parse(knob.kind, text)
        if isinstance(knob, Configured):
            calls.lines.append(f"{knob.owner}.{knob.setter} = {value!r}")
        elif isinstance(knob, Readable):
            knob.put(torch, value)
        elif isinstance(knob, Skipped):
            for operator in value:
                getattr(calls, knob.setter)(operator, True)
        elif isinstance(knob, Blind):
            getattr(calls, knob.setter)(value)
        else:
            calls.lines.append(
                f"# the knob {name} takes a Python function: torch._C.{knob.needs[0]}"
            )
    return calls.lines


class _Calls:
    """Stands in for ``torch._C`` and records the calls."""

    def __init__(self, llvm: bool) -> None:
        self.lines: list[str] = []
        self.made: list[tuple[str, tuple[Any, ...]]] = []
        """The function and arguments of each line."""
        self._llvm = llvm

    def _llvm_enabled(self) -> bool:
        return self._llvm

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> None:
            self.lines.append(f"torch._C.{name}({', '.join(map(repr, arguments))})")
            self.made.append((name, arguments))

        return call
