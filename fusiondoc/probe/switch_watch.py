"""Records which of torch's fusion switches the program sets itself, and where:
setters in ``torch._C`` are replaced by wrappers that note the caller.

A switch is noted if the fuser of the run needs it and the call sets it off, and
whether it was on again later. ``torch.jit.fuser`` and
``torch.jit.optimized_execution`` (torch/jit/_fuser.py, 1.12 to 2.13) set the same
switches and look them up in ``torch._C`` when they are called."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Any, Callable

from . import FUSER, LOADING, OWN_FOLDER, RUNNING, folder_of, fusers
from .fusers import SETTERS
from .log_and_records import Records
from .own_switches import OwnSwitches
from .replaced import Replaced


class SwitchWatch:
    """Watches the switches of one process.

    Args: fuser: the fuser of the run; None or "none" for a process that has none
        on. requested: knobs of the request; the switches that they set have records
        of their own. own: the switches as they would be without fusiondoc, which
        the program's calls change too.
    """

    def __init__(
        self,
        torch: Any,
        records: Records,
        fuser: str | None,
        requested: dict[str, str] | None = None,
        own: OwnSwitches | None = None,
    ) -> None:
        self.stage = LOADING
        self._torch = torch
        self._records = records
        self._fuser = fuser if fuser not in (None, "none") else None
        self._requested = requested or {}
        self._own_switches = own
        self._replaced = Replaced()
        self._torchs = folder_of(torch)
        self._was_off = self._off()
        self._on_gpu = torch.cuda.is_initialized()
        self._by: dict[str, tuple[str, str | None]] = {}
        """Switch that is off now -> the call that switched it off and the call's
        ``file:line``."""
        self._back: dict[tuple[str, str], tuple[str, str | None]] = {}
        """(switch that was off for a while, stage) -> the first call that switched
        it off."""
        self._written: set[str] = set()
        variable = fusers.variable_of(fuser)
        self._variable = os.environ.get(variable) if variable is not None else None

    def start(self) -> None:
        """Replace the setters."""
        home = self._torch._C
        for name in SETTERS:
            original = getattr(home, name, None)
            if original is not None:
                self._replaced.put(home, name, self._noting(name, original))

    def stop(self) -> None:
        """Restore the setters."""
        self._replaced.take_back()

    def forget(self) -> None:
        """In a fork: forget the switches that the parent process set, which records
        them itself."""
        self._was_off = self._off()
        self._by.clear()
        self._back.clear()

    def write_own_fuser(self) -> None:
        """Write a record of the fuser that the program uses on its own, with its
        settings so far."""
        if self._own_switches is not None:
            self._own_switches.write(self._records)
            self._own_switches = None

    def finish(self) -> None:
        """Record the switches that the program or its passes left off or had off
        for a while."""
        self.write_off(RUNNING)

    def write_off(self, when: str) -> None:
        """Write a record for each switch that is off now and was on at first; and
        for each that was off for a while, except during loading, when the program
        may have computed results for a comparison."""
        with contextlib.suppress(
            Exception
        ):  # the run goes on where torch cannot read a switch
            for what in sorted(self._off() - self._was_off - self._written):
                if (
                    what == FUSER
                    and what not in self._by
                    and self._on_gpu != self._torch.cuda.is_initialized()
                ):
                    continue  # it was never on for the device that the program has taken since
                self._written.add(what)
                call, at = self._by.get(what, (None, None))
                instead = fusers.fuser_on(self._torch) if what == FUSER else None
                self._write(what, when, True, call, at, instead)
            for (what, stage), (call, at) in self._back.items():
                if stage != LOADING and what not in self._written:
                    self._write(what, stage, False, call, at)
            self._back.clear()
            variable = fusers.variable_of(self._fuser)
            if (
                variable is not None
                and self._variable != "0"
                and os.environ.get(variable) == "0"
            ):
                self._variable = "0"
                self._write(
                    FUSER, LOADING, True, 'os.environ["%s"] = "0"' % variable
                )

    def _write(
        self,
        what: str,
        when: str,
        left: bool,
        call: str | None,
        at: str | None = None,
        instead: str | None = None,
    ) -> None:
        if what not in self._requested:
            row = {
                "what": what,
                "when": when,
                "left": left,
                "call": call,
                "at": at,
                "instead": instead,
            }
            self._records.write("switched_off", **row)

    def _off(self) -> set[str]:
        """The switches that the run's fuser needs and that are currently off."""
        off = set(fusers.executor_off(self._torch))
        if self._fuser is not None and not fusers.is_on(self._torch, self._fuser):
            off.add(FUSER)
        return off

    def _noting(
        self, name: str, original: Callable[..., Any]
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def set_it(*args: Any, **kwargs: Any) -> Any:
            own = sys._getframe(1).f_code.co_filename.startswith(OWN_FOLDER)
            if own or not (args or kwargs):
                return original(*args, **kwargs)
            before = self._off()
            try:
                return original(*args, **kwargs)
            finally:
                with contextlib.suppress(Exception):
                    self._note(before, self._off(), name, args)
                    if self._own_switches is not None and args:
                        self._own_switches.note(name, args[0])

        return set_it

    def _note(
        self, before: set[str], after: set[str], name: str, args: tuple[Any, ...]
    ) -> None:
        for what in after - before:
            self._by[what] = self._caller(name, args)
        for what in before - after:
            call = self._by.pop(what, None)
            if call is not None:
                self._back.setdefault((what, self.stage), call)

    def _caller(self, name: str, args: tuple[Any, ...]) -> tuple[str, str | None]:
        """The call as written in the program, as far as that can be seen, and its
        ``file:line``."""
        call = "torch._C.%s(%s)" % (name, ", ".join(map(repr, args)))
        frame: Any = sys._getframe(3)
        while frame is not None:
            file = frame.f_code.co_filename
            if (
                not file.startswith((OWN_FOLDER, self._torchs))
                and file != contextlib.__file__
            ):
                return call, "%s:%d" % (file, frame.f_lineno)
            if frame.f_code.co_name == "optimized_execution":
                call = "torch.jit.optimized_execution(False)"
            elif frame.f_code.co_name == "fuser" and "name" in frame.f_locals:
                call = 'torch.jit.fuser("%s")' % frame.f_locals["name"]
            frame = frame.f_back
        return call, None
