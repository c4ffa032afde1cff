"""Who reads the chunks of a survey: processes of this machine, or a Dask or Ray cluster that the user has.

An engine gives an outcome for each chunk, in any order; a chunk whose worker died has none, and is asked for
again by whoever uses the engine.
"""

from __future__ import annotations

import importlib
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterator, Protocol, Sequence

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.workflows.survey_items import Item

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

Chunk = Sequence[Item]
Work = Callable[[Chunk], Any]

ENGINES = ("local", "dask", "ray")
_IN_FLIGHT = 3
"""Chunks for each worker that are under way: more would only wait, and take memory."""


@dataclass(frozen=True)
class Outcome:
    """What came of a chunk; ``made`` None: its worker died."""

    chunk: Chunk
    made: Any


class Engine(Protocol):
    """Runs the same function over chunks."""

    name: str
    workers: int

    @property
    def lost(self) -> int:
        """Workers that died so far."""

    def outcomes(self, work: Work, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        """One for each chunk."""

    def close(self) -> None:
        """Leave the cluster as it was."""


class Inline:
    """This process alone, for a few files."""

    name = "local"
    workers = 1
    lost = 0

    def outcomes(self, work: Work, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        for chunk in chunks:
            yield Outcome(chunk, work(chunk))

    def close(self) -> None:
        """Nothing to leave."""


class Local:
    """Processes of this machine. When one dies, Python ends all of them: the chunks that were under way have
    no outcome, and the others go on in new processes."""

    name = "local"

    def __init__(self, workers: int | None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self.lost = 0

    def outcomes(self, work: Work, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        # Only here: to import it takes longer than to read a few reports.
        from concurrent.futures import ProcessPoolExecutor

        waiting = deque(chunks)
        while waiting:
            with ProcessPoolExecutor(min(self.workers, len(waiting))) as pool:
                yield from self._until_broken(pool, work, waiting)

    def _until_broken(
        self, pool: ProcessPoolExecutor, work: Work, waiting: deque[Chunk]
    ) -> Iterator[Outcome]:
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        going: dict[Future[Any], Chunk] = {}
        broken = False
        while going or (waiting and not broken):
            while waiting and not broken and len(going) < _IN_FLIGHT * self.workers:
                try:
                    going[pool.submit(work, waiting[0])] = waiting[0]
                except BrokenProcessPool:
                    broken = True
                    break
                waiting.popleft()
            done, _ = wait(going, return_when=FIRST_COMPLETED)
            for future in done:
                chunk = going.pop(future)
                try:
                    made = future.result()
                except BrokenProcessPool:
                    self.lost += not broken
                    broken, made = True, None
                yield Outcome(chunk, made)

    def close(self) -> None:
        """The processes have ended."""


class Dask:
    """A cluster of dask.distributed. Its scheduler gives what a dead worker had to another one."""

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
                "Such as --address tcp://10.0.0.1:8786; dask scheduler and dask worker start one.",
            )
        try:
            self._client: Any = self._package.Client(address, timeout=20)
        except (OSError, ValueError) as error:
            raise CannotRun(f"No Dask scheduler at {address}: {error}", "Check --address.") from None
        self._seen: set[str] = set(self._now())
        self.workers = len(self._seen)

    @property
    def lost(self) -> int:
        """Workers that were seen and are gone."""
        return len(self._seen - set(self._now()))

    def _now(self) -> list[str]:
        return list(self._client.nthreads())

    def outcomes(self, work: Work, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        died = (self._package.scheduler.KilledWorker, self._package.client.FutureCancelledError)
        waiting = deque(chunks)
        going: dict[str, Chunk] = {}
        first = [waiting.popleft() for _ in range(min(len(waiting), _IN_FLIGHT * max(1, self.workers)))]
        completed = self._package.as_completed()
        self._submit(work, first, going, completed)
        for future in completed:
            chunk = going.pop(future.key)
            try:
                made = future.result()
            except died:
                made = None
            future.release()
            if waiting:
                self._submit(work, [waiting.popleft()], going, completed)
            self._seen.update(self._now() if not len(waiting) % 20 else ())
            yield Outcome(chunk, made)

    def _submit(self, work: Work, chunks: Sequence[Chunk], going: dict[str, Chunk], completed: Any) -> None:
        for chunk in chunks:
            future = self._client.submit(work, chunk, pure=False)
            going[future.key] = chunk
            completed.add(future)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class Ray:
    """A Ray cluster. A task whose worker died has no outcome here, and is counted."""

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
                ray.init(address=address or "auto", log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise CannotRun(
                    f"No Ray cluster at {address or 'auto'}: {' '.join(str(error).split())[:200]}",
                    "Start one with ray start --head, and name it: --address HOST:6379",
                ) from None
        self.workers = int(ray.cluster_resources().get("CPU", 1))
        self.lost = 0

    def outcomes(self, work: Work, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        ray = self._ray
        task = ray.remote(max_retries=0)(work)
        waiting = deque(chunks)
        going: dict[Any, Chunk] = {}
        while waiting or going:
            while waiting and len(going) < _IN_FLIGHT * self.workers:
                chunk = waiting.popleft()
                going[task.remote(chunk)] = chunk
            (done, *_), _ = ray.wait(list(going), num_returns=1)
            chunk = going.pop(done)
            try:
                made = ray.get(done)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError):
                self.lost += 1
                made = None
            yield Outcome(chunk, made)

    def close(self) -> None:
        """Disconnect."""
        if self._ours:
            self._ray.shutdown()


def engine_of(name: str, address: str | None, workers: int | None, files: int) -> Engine:
    """The engine of that name.

    Raises:
        UsageError, CannotRun: its package is missing, or there is no such cluster.
    """
    if name == "dask":
        return Dask(address)
    if name == "ray":
        return Ray(address)
    if address is not None:
        raise UsageError("--address is for --engine dask and --engine ray", "Leave it out.")
    return Inline() if files < 16 or workers == 1 else Local(workers)


def _missing(extra: str, package: str) -> CannotRun:
    return CannotRun(
        f"--engine {extra} needs the package {package}, which is not installed",
        f"pip install 'fusiondoc[{extra}]', here and on the workers.",
    )
