"""Runs whose results will probably be needed, made concurrently: each by a worker
process, which ends its program when it is ended itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from fusiondoc.workflows.worker_processes import WorkerProcess

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")

_CORES_OF_A_RUN = 2
"""Cores for each run: it compiles, and its eager side computes. With fewer cores
concurrent runs only slow each other down."""
_MOST = 6


def beside_each_other() -> int:
    """The number of runs that this machine makes concurrently in reasonable time;
    below 2 it is better to make one after the other."""
    return min(_cores() // _CORES_OF_A_RUN, _MOST)


def threads_of_a_run() -> int:
    """Number of threads of a run's CPU work: with one for each core, concurrent
    runs would wait for each other's threads."""
    return max(1, _cores() // _MOST)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class RunsAhead(Generic[Key, Made]):
    """Runs that began before their results are needed, each a function that can be
    pickled.

    Args:
        most: number of concurrent runs; below 2 none begins.
    """

    def __init__(self, most: int) -> None:
        self._most = most if most > 1 else 0
        self._workers: dict[Key, WorkerProcess] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="fusiondoc-ahead-")

    @property
    def makes_any(self) -> bool:
        """Whether runs begin before their results are needed."""
        return self._most > 0

    @property
    def room(self) -> int:
        """How many more processes this machine has cores for."""
        return _cores() // _CORES_OF_A_RUN - len(self._workers)

    def begin(self, expected: Sequence[tuple[Key, Callable[[], Made]]]) -> None:
        """Begin the expected runs in this order, as far as there is room; end those
        that are no longer expected."""
        keys = {key for key, _ in expected}
        for key in [key for key in self._workers if key not in keys]:
            self._workers.pop(key).end()
        for key, make in expected:
            if key not in self._workers and len(self._workers) < self._most:
                self._workers[key] = self._begun(make)

    def _begun(self, make: Callable[[], Made]) -> WorkerProcess:
        pipes = [worker.pipe for worker in self._workers.values()]
        worker = WorkerProcess(_result_of, self._folder.name, pipes)
        worker.give(make)
        return worker

    def take(self, key: Key) -> Made | None:
        """Wait for the result of a run; None if it has not begun, or ended without
        a result.

        Raises:
            Exception: the exception that the run raised.
        """
        worker = self._workers.pop(key, None)
        if worker is None:
            return None
        try:
            made: Made | None = worker.result()
        finally:
            worker.end()
        return made

    def end_all(self) -> None:
        """End all running ones; they can begin again."""
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()

    def close(self) -> None:
        """End all running ones, and remove their files."""
        self.end_all()
        self._folder.cleanup()


def _result_of(make: Callable[[], Made]) -> Made:
    return make()
