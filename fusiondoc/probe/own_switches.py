"""The fuser that a process uses on its own: by torch's defaults, its environment
variables and the program's settings, without fusiondoc's settings for a run."""

from __future__ import annotations

from typing import Any

from .fusers import fuser_by, switches_of
from .log_and_records import Records

DEVICES = ("cpu", "cuda")


class OwnSwitches:
    """The switches that a program sets, while fusiondoc has set others for the run
    (``switch_watch.py`` sees the calls).

    Made before fusiondoc sets any. A program may set switches for a while (``with
    torch.jit.fuser(...)``), so a fuser that was on once counts as on.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._llvm = bool(torch._C._llvm_enabled())
        self._switches = switches_of(torch)
        self._fusers = self._now()

    def _now(self) -> dict[str, str]:
        fusers = {}
        for device in DEVICES:
            fusers[device] = fuser_by(self._switches, device, self._llvm)
        return fusers

    def note(self, setter: str, value: Any) -> None:
        """The program called ``torch._C.SETTER(value)``."""
        if setter not in self._switches:
            return
        self._switches[setter] = bool(value)
        for device, fuser in self._now().items():
            if fuser != "none" or self._fusers[device] != "none":
                self._fusers[device] = fuser

    def write(self, records: Records) -> None:
        """Write a record ``by_itself`` {"fusers": of each device, "switches": by
        the functions that set them}."""
        records.write("by_itself", fusers=self._fusers, switches=self._switches)
