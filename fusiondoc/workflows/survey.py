"""Many runs at once: listed, read by an engine, summed up (``fusiondoc survey``)."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterator, Protocol, Sequence

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model import count, dataclass
from fusiondoc.model.survey_answers import Survey, Unreadable, Work
from fusiondoc.workflows.survey_copies import Contents, digests_of, may_be_equal, once, read_apart
from fusiondoc.workflows.survey_listing import Item, listed
from fusiondoc.workflows.survey_tallies import Part, read_chunk, survey_of

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor


_MOST_FILES = 50
_MOST_BYTES = 16 << 20
"""Of a chunk; a larger file is one alone."""
_ATTEMPTS = 3
"""How often the worker may die over one file; then it is named and left out."""


def survey(
    places: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    model_from: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Survey:
    """Read all runs below some paths and addresses.

    Args:
        places: one or more files, folders, and addresses that fsspec knows (``s3://bucket/folder``).
        engine: "local" (processes of this machine), "dask" or "ray" (a cluster that is there).
        address: of that cluster.
        workers: processes of the local engine; by default one for each core.
        model_from: a regular expression whose groups name the model in the path of a run (``runs/([^/]+)/``),
            before what the run itself tells.
        tell: is called with notes.

    Raises:
        UsageError: there is no such place, or nothing to read in it.
        CannotRun: a package is missing, or there is no such cluster.
    """
    began = time.perf_counter()
    several = [places] if isinstance(places, (str, os.PathLike)) else list(places)
    names = [os.fspath(one) for one in several]
    listing = listed(names, model_from)
    if not listing.items:
        raise UsageError(
            f"No reports, logs or captures in {', '.join(names)}",
            "Reports end in .json, logs in .log, .txt, .out or .err (also compressed).",
        )
    used = engine_of(engine, address, workers, len(listing.items))
    if not used.workers and tell is not None:
        tell(f"note: the {engine.capitalize()} cluster has no workers now; waiting for one")
    try:
        plain = [item for item in listing.items if not item.compressed]
        unique, duplicates = once(plain, _digests(used, may_be_equal(plain), tell))
        part = Part()
        part.unreadable += listing.closed
        for made in _all(used, read_chunk, unique, part.unreadable, tell):
            part.merge(made)
        contents = Contents(part, duplicates)
        compressed = [item for item in listing.items if item.compressed]
        for made in _all(used, read_apart, compressed, part.unreadable, tell):
            contents.take(made)
        work = Work(used.name, used.workers, round(time.perf_counter() - began, 3), used.lost)
    finally:
        used.close()
    return survey_of(part, contents.duplicates, listing.ignored, work)


def _digests(engine: Engine, items: Sequence[Item], tell: Callable[[str], None] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for made in _all(engine, digests_of, items, [], tell):
        found.update(made)
    return found


def chunks_of(items: Sequence[Item], most: int = _MOST_FILES) -> list[Chunk]:
    """The items in order, in chunks of bounded number and size."""
    made: list[list[Item]] = []
    size = 0
    for item in items:
        if not made or len(made[-1]) >= most or size + item.size > _MOST_BYTES:
            made.append([])
            size = 0
        made[-1].append(item)
        size += max(0, item.size)
    return [tuple(one) for one in made]


def _all(
    engine: Engine,
    work: Callable[[Chunk], Any],
    items: Sequence[Item],
    left: list[Unreadable],
    tell: Callable[[str], None] | None,
) -> Any:
    """What the work makes of all items. What a dead worker had is asked for again, in smaller pieces; a file
    over which workers die each time goes to ``left``."""
    chunks = chunks_of(items)
    for attempt in range(_ATTEMPTS):
        again: list[Item] = []
        for outcome in engine.outcomes(work, chunks):
            if outcome.made is None:
                again += outcome.chunk
            else:
                yield outcome.made
        if not again:
            return
        again.sort(key=lambda item: item.name)
        if tell is not None and attempt + 1 < _ATTEMPTS:
            tell(f"note: a worker died; its {len(again)} files are read again")
        chunks = [(item,) for item in again]
    # One after the other: only now is it certain whose worker dies.
    for chunk in chunks:
        for outcome in engine.outcomes(work, [chunk]):
            if outcome.made is None:
                left.append(Unreadable(chunk[0].name, "the worker died while it read this file"))
            else:
                yield outcome.made


Chunk = Sequence[Item]
Job = Callable[[Chunk], Any]

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

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        """One for each chunk."""

    def close(self) -> None:
        """Leave the cluster as it was."""


class Inline:
    """This process alone, for a few files."""

    name = "local"
    workers = 1
    lost = 0

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
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

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        # Only here: to import it takes longer than to read a few reports.
        from concurrent.futures import ProcessPoolExecutor

        waiting = deque(chunks)
        while waiting:
            with ProcessPoolExecutor(min(self.workers, len(waiting))) as pool:
                yield from self._until_broken(pool, work, waiting)

    def _until_broken(self, pool: ProcessPoolExecutor, work: Job, waiting: deque[Chunk]) -> Iterator[Outcome]:
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


_HAS_FUSIONDOC = "__import__('importlib.util').util.find_spec('fusiondoc') is not None"
"""Asked of a worker by itself: functions of ours need fusiondoc there."""


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
        # A worker that cannot load a task ends without a word, and the survey would wait for ever.
        found = self._client.run(eval, _HAS_FUSIONDOC, on_error="return")
        lacking = sorted(one for one, has in found.items() if has is False)
        if lacking:
            self.close()
            raise _not_there(f"{count(len(lacking), 'worker')} of that cluster, first {lacking[0]},")

    @property
    def lost(self) -> int:
        """Workers that were seen and are gone."""
        return len(self._seen - set(self._now()))

    def _now(self) -> list[str]:
        return list(self._client.nthreads())

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
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

    def _submit(self, work: Job, chunks: Sequence[Chunk], going: dict[str, Chunk], completed: Any) -> None:
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
        # Its threads print what happens to workers to the standard output, where the answer goes.
        self._prints = contextlib.redirect_stdout(sys.stderr)
        self._prints.__enter__()
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.lost = 0

    def outcomes(self, work: Job, chunks: Sequence[Chunk]) -> Iterator[Outcome]:
        ray = self._ray
        task = ray.remote(max_retries=0)(work)
        kinds = ray.exceptions
        died = (kinds.WorkerCrashedError, kinds.NodeDiedError, kinds.OutOfMemoryError)
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
            except died:
                self.lost += 1
                made = None
            except ray.exceptions.RayError as error:
                if "No module named 'fusiondoc" not in str(error):
                    raise
                raise _not_there("The workers of that cluster") from None
            yield Outcome(chunk, made)

    def close(self) -> None:
        """Disconnect."""
        if self._ours:
            self._ray.shutdown()
        self._prints.__exit__(None, None, None)


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


def _not_there(who: str) -> CannotRun:
    return CannotRun(
        f"{who} cannot import fusiondoc", "Install the same version there: pip install fusiondoc"
    )


def _missing(extra: str, package: str) -> CannotRun:
    return CannotRun(
        f"--engine {extra} needs the package {package}, which is not installed",
        f"pip install 'fusiondoc[{extra}]', here and on the workers.",
    )
