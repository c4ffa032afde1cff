"""The engines that read the files of a survey: processes of this machine, or an
existing Dask or Ray cluster.

An engine gives an outcome for each chunk of files, also if the worker died. It
never waits for ever: it waits both for results and for the end of the workers.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model import count, dataclass
from fusiondoc.workflows.survey_listing import ListedRun
from fusiondoc.workflows.worker_processes import WorkerProcess

Chunk = Sequence[ListedRun]
Job = Callable[[Chunk], Any]

_IN_FLIGHT = 3
"""Most chunks in progress for each worker of a cluster: more would only wait, and
take memory."""
MOST_WAIT = 300.0
"""Most seconds that a cluster may have no worker: one that grows on demand takes
minutes to start one."""
_MOST_FETCH = 10.0
"""Seconds for an answer to come from a worker of Dask; more at each try."""
_LOOK = 2.0
"""Seconds between two looks at the workers of a cluster that sends no results."""


@dataclass(frozen=True)
class ChunkResult:
    """The result of a chunk; ``made`` None: its worker died."""

    chunk: Chunk
    made: Any


class NoWorkers(Exception):
    """A cluster has lost all its workers, and no other came; the message is a
    clause."""


class Engine(Protocol):
    """Runs the same function over chunks."""

    name: str

    @property
    def workers(self) -> int:
        """Number of workers that it has, or that have worked."""

    @property
    def lost(self) -> int:
        """Workers that died so far."""

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        """Yield an outcome for each chunk. Raises: NoWorkers: no worker is left for
        the others.
        """

    def close(self) -> None:
        """Leave the cluster in its former state."""


class Inline:
    """This process alone, for a few files."""

    name = "local"
    workers = 1
    lost = 0

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        for chunk in chunks:
            yield ChunkResult(chunk, work(chunk))

    def close(self) -> None:
        """Do nothing."""


class Local:
    """Processes of this machine."""

    name = "local"

    def __init__(self, workers: int | None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self.lost = 0

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        from multiprocessing.connection import wait

        waiting = deque(chunks)
        busy: dict[Any, WorkerProcess] = {}
        # Files that a killed worker has unpacked are removed with this folder.
        with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
            try:
                while waiting or busy:
                    while waiting and len(busy) < self.workers:
                        worker = WorkerProcess(work, folder, tuple(busy))
                        busy[worker.pipe] = worker
                        worker.give(waiting.popleft())
                    for pipe in wait(list(busy)):
                        worker = busy.pop(pipe)
                        outcome = ChunkResult(worker.given, worker.result())
                        if outcome.made is None:
                            self.lost += 1
                        elif waiting:
                            worker.give(
                                waiting.popleft()
                            )  # before the outcome is looked at
                            busy[pipe] = worker
                        if pipe not in busy:
                            worker.end()
                        yield outcome
            finally:
                for worker in busy.values():
                    worker.end()

    def close(self) -> None:
        """Do nothing: the processes have ended."""


class _Presence:
    """Whether a cluster has workers, and since when it has none."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._last = time.monotonic()

    def seen(self, workers: int) -> None:
        """Note the current number of workers. Raises: NoWorkers: there has been
        none for ``MOST_WAIT`` seconds."""
        now = time.monotonic()
        if workers:
            self._last = now
        elif now - self._last > MOST_WAIT:
            raise NoWorkers(
                f"the {self._engine} cluster has had no workers for {MOST_WAIT:g} s"
            )


_HAS_FUSIONDOC = (
    "__import__('importlib.util').util.find_spec('fusiondoc') is not None"
)
"""Evaluated in a worker without any function of fusiondoc, as fusiondoc may be
missing there."""


def _by_whom(work: Job, chunk: Chunk) -> tuple[str, Any]:
    """Do the work in a worker of Dask; return the worker's address and the
    result."""
    worker: Any = importlib.import_module("distributed").get_worker()
    return worker.address, work(chunk)


class Dask:
    """A cluster of dask.distributed. Its scheduler gives the work of a dead worker
    to another one."""

    name = "dask"

    def __init__(self, address: str | None) -> None:
        try:
            self._package: Any = importlib.import_module("distributed")
        except ImportError:
            raise _missing("dask", "distributed") from None
        address = address or os.environ.get("DASK_SCHEDULER_ADDRESS")
        if not address:
            raise UsageError(
                "--engine dask needs the address of a scheduler",
                "For example: --address tcp://10.0.0.1:8786; dask scheduler and dask worker start one.",
            )
        try:
            self._client: Any = self._package.Client(address, timeout=20)
        except (OSError, ValueError) as error:
            raise CannotRun(
                f"no Dask scheduler at {address}: {error}", "Check --address."
            ) from None
        self._seen: set[str] = set(self._now())
        """Addresses of all workers that were present, or have worked."""
        self._worked: set[str] = set()
        self._presence = _Presence("Dask")
        # A worker that cannot load a task ends silently, and the survey would wait
        # for ever.
        found = self._client.run(eval, _HAS_FUSIONDOC, on_error="return")
        lacking = sorted(worker for worker, has in found.items() if has is False)
        if lacking:
            self.close()
            raise _not_there(
                f"{count(len(lacking), 'worker')} of that cluster, first {lacking[0]},"
            )

    @property
    def workers(self) -> int:
        """Number of workers that have read something; before that, of the present
        ones."""
        return len(self._worked or self._seen)

    @property
    def lost(self) -> int:
        """Number of workers that were seen and are gone."""
        return len(self._seen - set(self._now()))

    def _now(self) -> list[str]:
        """Addresses of the present workers; empty if the scheduler is gone."""
        try:
            return list(self._client.nthreads())
        except (OSError, RuntimeError, self._package.TimeoutError):
            return []

    def _look(self) -> int:
        """Return the number of present workers."""
        now = self._now()
        self._seen.update(now)
        self._presence.seen(len(now))
        return len(now)

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        package = self._package
        died = (package.scheduler.KilledWorker, package.client.FutureCancelledError)
        waiting = deque(chunks)
        going: dict[Any, Chunk] = {}
        patience = _MOST_FETCH
        try:
            while waiting or going:
                most = _IN_FLIGHT * max(1, self._look())
                while waiting and len(going) < most:
                    chunk = waiting.popleft()
                    going[
                        self._client.submit(_by_whom, work, chunk, pure=False)
                    ] = chunk
                try:
                    done = package.wait(
                        list(going), timeout=_LOOK, return_when="FIRST_COMPLETED"
                    ).done
                except package.TimeoutError:
                    continue
                for future in done:
                    made = None
                    try:
                        worker, made = future.result(timeout=patience)
                        self._worked.add(worker)
                        self._seen.add(worker)
                    except (
                        package.TimeoutError
                    ):  # its worker died since, so that it is made again
                        patience *= 2
                        continue
                    except died:
                        pass
                    future.release()
                    yield ChunkResult(going.pop(future), made)
        except (OSError, package.client.CancelledError):
            raise NoWorkers(
                "the connection to the Dask scheduler is lost"
            ) from None

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class Ray:
    """A Ray cluster. A task whose worker died has no outcome here, and is
    counted."""

    name = "ray"

    def __init__(self, address: str | None) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise _missing("ray", "ray") from None
        self._ray = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                ray.init(
                    address=address or "auto",
                    log_to_driver=False,
                    logging_level="ERROR",
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise CannotRun(
                    f"no Ray cluster at {address or 'auto'}: {' '.join(str(error).split())[:200]}",
                    "Start one with ray start --head, and name it: --address HOST:6379",
                ) from None
        # Ray's threads report on workers to the standard output, which is for the
        # answer.
        self._prints = contextlib.redirect_stdout(sys.stderr)
        self._prints.__enter__()
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.lost = 0
        self._presence = _Presence("Ray")

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        ray = self._ray
        task = ray.remote(max_retries=0)(work)
        kinds = ray.exceptions
        lost = (
            "WorkerCrashedError",
            "NodeDiedError",
            "OutOfMemoryError",
            "ObjectLostError",
        )
        died = tuple(getattr(kinds, name) for name in lost if hasattr(kinds, name))
        waiting = deque(chunks)
        going: dict[Any, Chunk] = {}
        while waiting or going:
            while waiting and len(going) < _IN_FLIGHT * self.workers:
                chunk = waiting.popleft()
                going[task.remote(chunk)] = chunk
            done, _ = ray.wait(list(going), num_returns=1, timeout=_LOOK)
            if not done:
                self._presence.seen(int(ray.cluster_resources().get("CPU", 0)))
                continue
            chunk = going.pop(done[0])
            try:
                made = ray.get(done[0])
            except died:
                self.lost += 1
                made = None
            except kinds.RayError as error:
                if "No module named 'fusiondoc" in str(error):
                    raise _not_there("The workers of that cluster") from None
                if type(error).__name__ != "LocalRayletDiedError":
                    raise
                raise NoWorkers(
                    "the node of the Ray cluster on this machine died"
                ) from None
            yield ChunkResult(chunk, made)

    def close(self) -> None:
        """Disconnect."""
        if self._ours:
            self._ray.shutdown()
        self._prints.__exit__(None, None, None)


def engine_of(
    name: str, address: str | None, workers: int | None, files: int
) -> Engine:
    """The engine of that name.

    Raises:
        UsageError, CannotRun: its package is missing, or there is no such cluster.
    """
    if name == "dask":
        return Dask(address)
    if name == "ray":
        return Ray(address)
    if address is not None:
        raise UsageError(
            "--address is for --engine dask and --engine ray", "Leave it out."
        )
    if files < 16 or workers == 1:
        return Inline()
    return Local(workers)


def _not_there(who: str) -> CannotRun:
    return CannotRun(
        f"{who} cannot import fusiondoc",
        "Install the same version there: pip install fusiondoc",
    )


def _missing(extra: str, package: str) -> CannotRun:
    return CannotRun(
        f"--engine {extra} needs the package {package}, which is not installed",
        f"pip install 'fusiondoc[{extra}]', here and on the workers.",
    )
