"""Switches needed for fusion that the program itself turned off
(probe/switch_watch.py): one row each, with the call and its line if they are
known."""

from __future__ import annotations

from fusiondoc.captures.raw_records import RawRecords
from fusiondoc.model import dataclass
from fusiondoc.probe import BEFORE, CALLER, FUSER, LOADING, RUNNING, TRACED

__all__ = [
    "BEFORE", "CALLER", "FUSER", "LOADING", "RUNNING", "TRACED", "SwitchedOff", "Switches", "read_switches",
]  # fmt: skip


@dataclass(frozen=True)
class SwitchedOff:
    """A switch needed for fusion that the program itself turned off."""

    what: str
    """The fuser of the run (``FUSER``), or a knob of the executor."""
    when: str
    """``LOADING`` (the probe then restored the fuser, but not the executor),
    ``TRACED``, ``RUNNING``, ``BEFORE`` or ``CALLER``."""
    left: bool = True
    """Whether it was never switched on again."""
    call: str | None = None
    """The call, such as ``torch._C._jit_set_texpr_fuser_enabled(False)``."""
    at: str | None = None
    """``file:line`` of the call."""
    instead: str | None = None
    """For a fuser: the fuser that is on without fusiondoc."""


@dataclass(frozen=True)
class Switches:
    """The switches that the program itself turned off, without duplicates."""

    rows: tuple[SwitchedOff, ...] = ()

    @property
    def executor_off(self) -> bool:
        """Whether anything in the executor that every fusion pass needs was off."""
        return any(row.what != FUSER for row in self.rows)

    @property
    def fuser_off_in_run(self) -> bool:
        """Whether the fuser was off while plans may have been made."""
        return any(
            row.what == FUSER and row.when in (RUNNING, BEFORE) for row in self.rows
        )

    @property
    def fuser_off_before(self) -> bool:
        """Whether the process had the fuser off before its block began."""
        return any(row.what == FUSER and row.when == BEFORE for row in self.rows)

    @property
    def any_switched_off(self) -> bool:
        """Whether anything was off in a pass."""
        return self.executor_off or self.fuser_off_in_run


def read_switches(records: RawRecords) -> Switches:
    """Return the switches that any process of the program turned off; older
    captures have no call (``switches``)."""
    rows = list(records.read_all("switched_off", SwitchedOff))
    for old in records.all_of("switches"):
        if old.get("fuser_off") is True:
            rows.append(SwitchedOff(FUSER, LOADING))
        if old.get("fuser_off_later") is True:
            rows.append(SwitchedOff(FUSER, RUNNING))
        names = old.get("executor_off")
        for name in names if isinstance(names, list) else ():
            rows.append(SwitchedOff(str(name), LOADING))
    return Switches(tuple(dict.fromkeys(rows)))
