"""How long the user's own work took, so that the rest can be counted as fusiondoc's overhead."""

from __future__ import annotations

import contextlib
import time
from typing import Iterator


class Clock:
    """``users_seconds``: inside ``users_work()``, which is what a run by hand needs too (importing torch
    and the program, scripting, the passes). All other time since ``started`` is the probe's own."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.users_seconds = 0.0
        self._depth = 0

    @contextlib.contextmanager
    def users_work(self) -> Iterator[None]:
        began = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.users_seconds += time.perf_counter() - began

    def seconds(self) -> float:
        """Since the first line of the probe."""
        return time.perf_counter() - self.started

    def own_seconds(self) -> float:
        """What the probe needed for itself."""
        return self.seconds() - self.users_seconds
