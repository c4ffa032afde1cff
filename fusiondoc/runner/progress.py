"""The progress bar of a run, on stderr and only on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, Optional, Protocol

from fusiondoc.captures.probe_records import FuserSwitch, LiveRecord, Loaded


class Progress(Protocol):
    """Is told where the log of a run is, and what the probe tells of its progress while it goes on."""

    def record(self, record: LiveRecord) -> None: ...

    def logs_to(self, log: Path) -> None: ...


ShowProgress = Callable[[str], ContextManager[Optional[Progress]]]
"""Shows the progress of a run with the given label for as long as the block lasts."""


@contextmanager
def no_progress(label: str) -> Iterator[Progress | None]:
    """Shows nothing."""
    yield None


@contextmanager
def terminal_progress(label: str) -> Iterator[Progress | None]:
    """A bar for a run of ``label`` if stderr is a terminal, else None; gone when the block ends."""
    if not sys.stderr.isatty():
        yield None
        return
    # Only here: rich takes longer to import than the rest of the command line.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, bar.add_task(f"{label}: starting torch", total=None), label)


class _Bar:
    def __init__(self, bar: Any, task: Any, label: str) -> None:
        self._bar = bar
        self._task = task
        self._label = label
        self._fuser = ""

    def record(self, record: LiveRecord) -> None:
        if isinstance(record, FuserSwitch):
            self._fuser = f" under {record.effective}"
            self._say("loading")
        elif isinstance(record, Loaded):
            self._say("running" if record.how == "script" else "first pass")
        else:
            self._bar.update(self._task, total=record.runs, completed=record.index)
            self._say(record.phase)

    def logs_to(self, log: Path) -> None:
        """A bar shows nothing of the log."""

    def _say(self, doing: str) -> None:
        self._bar.update(self._task, description=f"{self._label}{self._fuser}: {doing}")
