"""The memory traffic of operators in no group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class _Outside(Protocol):
    """Operators in no group, of a report in memory or a saved one."""

    @property
    def ran(self) -> bool | None: ...
    @property
    def bytes_moved(self) -> int | None: ...


def unfused_bytes(rows: Iterable[_Outside]) -> int | None:
    """Return the memory traffic that fusing the operators outside groups can save
    in a run, as far as their sizes are known; None if no size is known. Operators
    that never ran move nothing."""
    ran = []
    for row in rows:
        if row.ran is not False:
            ran.append(row.bytes_moved)
    known = [moved for moved in ran if moved is not None]
    if known or not ran:
        return sum(known)
    return None
