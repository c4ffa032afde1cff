"""Input and result of the code that starts a supervisor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class SupervisorOrder:
    """The program for a supervisor to run, and the descriptors of its two pipes."""

    command: Sequence[str]
    environment: Mapping[str, str]
    records: Path | None
    control: int
    reports: int


class SupervisorProcess(Protocol):
    """The part of ``subprocess.Popen`` that is used of a supervisor's process."""

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class OtherStart(Protocol):
    """Starts the supervisor in another way, as the child of ``parent``; returns
    None if it cannot."""

    def __call__(
        self, order: SupervisorOrder
    ) -> tuple[SupervisorProcess, int] | None: ...
