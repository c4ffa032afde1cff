"""The environment variables of a run: what each fuser needs to talk, merged with what the user has set; and
what a run by hand needs to say the same (shell variables, lines for the launcher)."""

from __future__ import annotations

import re
import shlex
from types import SimpleNamespace
from typing import Any, Mapping, Sequence

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.fuser_knobs import catalogue, checks
from fusiondoc.fuser_knobs.checks import (
    DISABLE,
    DUMP,
    ENABLE,
    JIT_LOG,
    KERNEL_DUMPS,
    LOG_LEVELS,
    check_log_level,
    merge_log_levels,
)
from fusiondoc.masking import masked
from fusiondoc.model import dataclass
from fusiondoc.probe import knobs as probe_knobs
from fusiondoc.probe.environment import switch_on
from fusiondoc.probe.knobs import KNOBS, Blind, Readable, Skipped
from fusiondoc.runner.interpreter import TorchFound, Tried

_VERBOSITY = "PYTORCH_JIT_TYPE_VERBOSITY"


@dataclass(frozen=True)
class RunEnvironment:
    """``set``: the variables that fusiondoc sets. ``user``: what the user had set that bears on a run.
    ``merged``: those of ``set`` that the user had set too; the user's values are part of the new ones.
    ``notes``: sentences on what was added to them. ``dropped``: variables of the user that the run is to be
    without."""

    set: Mapping[str, str]
    user: Mapping[str, str]
    merged: tuple[str, ...]
    notes: tuple[str, ...]
    dropped: tuple[str, ...] = ()

    def child(self, user: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the run."""
        kept = {name: value for name, value in user.items() if name not in self.dropped}
        return {**kept, **self.set}


_SLOWS = (
    JIT_LOG,
    DUMP,
    "NVFUSER_DUMP",
    "NVFUSER_PROF",
    "ONEDNN_VERBOSE",
    "DNNL_VERBOSE",
    "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_FUSION_DEBUG",
)
"""Variables that make a fuser print, or wait for the device after each kernel."""


def quiet_environment(user: Mapping[str, str]) -> RunEnvironment:
    """For a run that is timed: fusiondoc sets nothing, and what the user has set that prints or waits is
    dropped."""
    if user.get("PYTORCH_JIT") == "0":
        raise UsageError("PYTORCH_JIT=0 is set: it switches TorchScript off", "Unset it: unset PYTORCH_JIT")
    of_interest = {name: value for name, value in sorted(user.items()) if catalogue.is_kept(name)}
    dropped = tuple(name for name in _SLOWS if user.get(name))
    return RunEnvironment({}, of_interest, (), (), dropped)


def has_nvfuser(torch: str, cuda: str | None) -> bool:
    """Whether TorchScript of this torch version and build holds nvFuser (1.10 to 2.1, CUDA builds)."""
    return cuda is not None and (1, 10) <= release(torch) < (2, 2)


def release(torch: str) -> tuple[int, int]:
    """(major, minor) of a torch version."""
    match = re.match(r"(\d+)\.(\d+)", torch)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def run_environment(
    torch: str, cuda: str | None, fuser: str, dumps: Sequence[str], user: Mapping[str, str]
) -> RunEnvironment:
    """The variables for a run.

    Args:
        torch: version of the torch that will run; ``cuda`` its CUDA version or None.
        fuser: as requested; "auto" means nvFuser or NNC, which only the run itself can tell, so it gets the
            variables of both where this torch has both.
        dumps: names of dumps to add: options of PYTORCH_NVFUSER_DUMP, or those of NNC and oneDNN Graph.
        user: the user's environment.

    Raises:
        UsageError: a dump option or log level that this torch does not know. nvFuser would take the fallback
            path everywhere for an unknown dump option, silently.
    """
    nvfuser = has_nvfuser(torch, cuda) and fuser in ("auto", "nvfuser")
    if user.get("PYTORCH_JIT") == "0":
        raise UsageError("PYTORCH_JIT=0 is set: it switches TorchScript off", "Unset it: unset PYTORCH_JIT")
    checks.check_dumps(dumps, fuser, torch, (1, 10) <= release(torch) < (2, 2))
    wanted = {JIT_LOG: _log_level(fuser, nvfuser)}
    options = checks.nvfuser_options(dumps)
    if nvfuser or options:
        known = catalogue.dump_options(torch)
        usual = checks.without_hidden([name for name in KERNEL_DUMPS if name in known], options)
        wanted[DUMP] = ",".join(dict.fromkeys([*usual, *options]))
    # Without it a log of oneDNN Graph tells neither what its partitions became nor how long they take.
    usual_of_fuser = checks.USUAL["onednn"] if fuser == "onednn" else ()
    _add_needs(wanted, (*dumps, *usual_of_fuser), user)
    merged: list[str] = []
    notes: list[str] = []
    if user.get(JIT_LOG):
        check_log_level(user[JIT_LOG], torch)
        wanted[JIT_LOG], said = merge_log_levels(user[JIT_LOG], wanted[JIT_LOG])
        merged.append(JIT_LOG)
        notes.extend(f"{JIT_LOG}: {sentence}" for sentence in said)
    if nvfuser:
        for variable in (DUMP, ENABLE, DISABLE):
            checks.check_option_list(variable, user.get(variable, ""), torch)
        if user.get(DUMP):
            wanted[DUMP], added = checks.merge_option_lists(user[DUMP], wanted[DUMP])
            merged.append(DUMP)
            notes.extend(f"{DUMP}: added '{name}'." for name in added)
    if user.get(_VERBOSITY, "3") in ("0", "1", "2"):
        # Below 3 strides, devices or all types are missing from the printed graphs.
        wanted[_VERBOSITY] = "3"
        notes.append(f"{_VERBOSITY}: raised from {user[_VERBOSITY]} to 3, else the log lacks types.")
    of_interest = {name: value for name, value in sorted(user.items()) if catalogue.is_kept(name)}
    return RunEnvironment(wanted, of_interest, tuple(merged), tuple(notes))


def _add_needs(wanted: dict[str, str], dumps: Sequence[str], user: Mapping[str, str]) -> None:
    """What the dumps of NNC and oneDNN Graph need; a level that the user has set already is left alone."""
    for name in dumps:
        dump = catalogue.fuser_dump(name)
        for variable, value in dump.needs if dump is not None else ():
            if variable == JIT_LOG:
                wanted[JIT_LOG] = merge_log_levels(wanted[JIT_LOG], value)[0]
            elif user.get(variable, "0") in ("", "0", "none", "error"):
                wanted[variable] = value


def _log_level(fuser: str, nvfuser: bool) -> str:
    if fuser != "auto":
        return LOG_LEVELS[fuser]
    if not nvfuser:
        return LOG_LEVELS["nnc"]
    return merge_log_levels(LOG_LEVELS["nvfuser"], LOG_LEVELS["nnc"])[0]


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
    python = (*_ORDER, "import torch", *_switches(fuser, tried.environment), *knob_lines(knobs))
    return Export(shell, python)


def _switches(fuser: str, found: TorchFound) -> list[str]:
    """The calls that the probe makes, by letting it make them on something that writes them down."""
    calls = _Calls(found.llvm)
    torch = SimpleNamespace(__version__=found.torch, version=SimpleNamespace(cuda=found.cuda), _C=calls)
    switch_on(torch, fuser)
    return calls.lines


def knob_lines(knobs: Mapping[str, str]) -> list[str]:
    """The lines of Python that set these knobs."""
    calls = _Calls(False)
    torch = SimpleNamespace(_C=calls)
    for name, text in knobs.items():
        knob = KNOBS[name]
        value = probe_knobs.parse(knob.kind, text)
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
