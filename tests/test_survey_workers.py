"""Workers of ``survey`` that are ended in the middle: the survey ends, with its
answer and a note."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command_line import ROOT

from fusiondoc.workflows import survey as workflow
from fusiondoc.workflows import survey_engines
from fusiondoc.workflows.survey import survey
from fusiondoc.workflows.survey_engines import Chunk, Dask, Local, NoWorkers
from fusiondoc.workflows.survey_listing import ListedRun
from fusiondoc.workflows.survey_tallies import read_chunk

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="workers are forks, and found in /proc"
    ),
    pytest.mark.xdist_group("survey workers"),
]


def _script(folder: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, ROOT / folder / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # its named tuples are looked up there
    spec.loader.exec_module(made)
    return made


fleet, ended = (
    _script("benchmarks", "survey_fleet"),
    _script("fuzz", "survey_workers"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("workers")
    (made / "fleet").mkdir()
    fleet.make(made / "fleet", 400)
    return made


@pytest.mark.nightly
def test_a_worker_of_the_command_line_that_is_ended(folder: Path) -> None:
    """By SIGKILL and SIGTERM, at any time; fuzz/survey_workers.py does it more
    often."""
    done = ended.rounds("local", folder, ROOT, 4)
    assert {one.outcome for one in done} == {"the same answer"}, done
    assert sum(one.killed for one in done) == 4
    assert any(one.lost and one.noted for one in done)


@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_worker_of_a_cluster_that_is_ended(engine: str, folder: Path) -> None:
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    done = ended.rounds(engine, folder, ROOT, 3)
    assert {one.outcome for one in done} == {"the same answer"}, done
    assert sum(one.killed for one in done) == 3


def chunks(number: int) -> list[Chunk]:
    return [(ListedRun(str(one), 1),) for one in range(number)]


def gone_at(chunk: Chunk, name: str, how: int) -> str:
    if chunk[0].name == name:
        os.kill(os.getpid(), how)
        time.sleep(60)
    return chunk[0].name


def test_handlers_of_the_first_process_are_not_those_of_its_workers() -> None:
    """One that raises, as the command line has: in a worker it made an error of the
    work, and it went on."""

    def raises(number: int, frame: object) -> None:
        raise RuntimeError("a signal of the first process")

    before = {
        number: signal.signal(number, raises)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        for how in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            engine = Local(2)
            began = time.monotonic()
            found = {
                one.chunk[0].name: one.made
                for one in engine.outcomes(
                    lambda chunk, how=how: gone_at(chunk, "3", how), chunks(9)
                )
            }
            assert time.monotonic() - began < 30 and engine.lost == 1
            assert found == {
                str(one): None if one == 3 else str(one) for one in range(9)
            }
            assert signal.getsignal(signal.SIGTERM) is raises
            assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _killed_while_it_answers(chunk: Chunk) -> bytes:
    if chunk[0].name != "1":
        return b""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return b"x" * (64 << 20)


def test_half_an_answer_is_not_waited_for() -> None:
    """It is larger than a pipe holds, and the first process reads it only when its
    writer is dead."""
    engine = Local(3)
    made = []
    for outcome in engine.outcomes(_killed_while_it_answers, chunks(6)):
        if not made:
            time.sleep(1)
        made.append((outcome.chunk[0].name, outcome.made))
    assert sorted(made) == [
        (str(one), None if one == 1 else b"") for one in range(6)
    ]
    assert engine.lost == 1


def test_an_error_of_the_work_is_that_of_the_survey() -> None:
    def fails(chunk: Chunk) -> None:
        raise ValueError(chunk[0].name)

    with pytest.raises(ValueError, match="0"):
        list(Local(1).outcomes(fails, chunks(2)))


def test_what_a_worker_has_unpacked_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def unpacks(chunk: Chunk) -> str:
        made = tempfile.mkdtemp()
        Path(made, "large").write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
        return made

    (outcome,) = Local(1).outcomes(unpacks, chunks(1))
    assert outcome.made is None and not list(tmp_path.iterdir())


def test_an_interrupted_survey_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pids: list[int] = []
    for outcome in Local(2).outcomes(lambda chunk: os.getpid(), chunks(20)):
        pids.append(outcome.made)
        if len(set(pids)) == 2:
            break
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return
        time.sleep(0.05)
    raise AssertionError(pids)


class _Future:
    """Of a cluster in which no worker is left."""


class _Empty:
    """Stands for a Dask client whose workers come late, or never: what the engine
    does with it is real."""

    def __init__(self, later: int | None) -> None:
        self._looks = 0
        self._later = later
        self.status = "running"

    def nthreads(self) -> dict[str, int]:
        self._looks += 1
        there = self._later is not None and self._looks > self._later
        return {"tcp://a:1": 1, "tcp://b:2": 1} if there else {}

    def submit(self, call: Any, work: Any, chunk: Chunk, **_: Any) -> Any:
        future = _Future()
        future.result = lambda timeout: (
            "tcp://a:1" if len(chunk) % 2 else "tcp://b:2",
            work(chunk),
        )  # type: ignore[attr-defined]
        future.release = lambda: None  # type: ignore[attr-defined]
        return future

    def run(self, *_: Any, **__: Any) -> dict[str, bool]:
        return {}

    def close(self) -> None:
        return None


class _Package(ModuleType):
    """What of ``distributed`` the engine uses."""

    TimeoutError = TimeoutError

    def __init__(self, client: _Empty) -> None:
        super().__init__("distributed")
        self._client = client
        errors = {
            "FutureCancelledError": type("F", (Exception,), {}),
            "CancelledError": type("C", (Exception,), {}),
        }
        self.client = type("client", (), errors)
        self.scheduler = type(
            "scheduler", (), {"KilledWorker": type("K", (Exception,), {})}
        )

    def Client(self, *_: Any, **__: Any) -> _Empty:
        return self._client

    def wait(self, futures: list[_Future], **_: Any) -> Any:
        if not self._client.nthreads():
            raise TimeoutError
        return type("Done", (), {"done": set(futures)})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def made(later: int | None) -> None:
        monkeypatch.setitem(sys.modules, "distributed", _Package(_Empty(later)))

    return made  # type: ignore[return-value]


def test_workers_that_come_after_the_survey_are_counted(
    folder: Path, cluster: Any
) -> None:
    """``work.workers`` was the number at the start: 0 for a run that two did."""
    cluster(later=6)
    notes: list[str] = []
    made = survey(
        folder / "fleet", engine="dask", address="tcp://x", notify=notes.append
    )
    assert (
        made.work.workers == 2
        and made.work.lost_workers == 0
        and len(made.runs) > 300
    )
    assert notes == ["note: the Dask cluster has no workers now; waiting for one"]


def test_a_cluster_without_workers_is_not_waited_for_ever(
    folder: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_engines, "MOST_WAIT", 0.2)
    cluster(later=None)
    notes: list[str] = []
    made = survey(
        folder / "fleet", engine="dask", address="tcp://x", notify=notes.append
    )
    assert not made.runs and len(made.unreadable) > 300
    assert all(
        "no worker was there to read it" in one.why for one in made.unreadable
    )
    assert any(
        "has had no workers for 0.2 s" in note and "files not read" in note
        for note in notes
    )
    with pytest.raises(NoWorkers):
        list(Dask("tcp://x").outcomes(read_chunk, chunks(1)))


def test_the_last_files_of_a_worker_are_named_if_they_kill_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(chunk: Chunk) -> Any:
        if any(item.name.endswith("run-000010.json") for item in chunk):
            os.kill(os.getpid(), signal.SIGKILL)
        return read_chunk(chunk)

    monkeypatch.setattr(workflow, "read_chunk", deadly)
    notes: list[str] = []
    made = survey(folder / "fleet", workers=2, notify=notes.append)
    died = [one for one in made.unreadable if "the worker died" in one.why]
    assert [Path(one.run).name for one in died] == ["run-000010.json"]
    assert notes[0].startswith("note: a worker died; its ") and notes[1].endswith(
        "its 1 file is read again"
    )
