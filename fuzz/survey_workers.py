"""A worker of ``survey`` ended in the middle, many times, on each engine: the
survey ends, with the answer that it has without that, and says what happened.

    python fuzz/survey_workers.py                                   # the local
    engine, 20 times pip install distributed ray python fuzz/survey_workers.py
    --engine local --engine dask --engine ray --rounds 20 python
    fuzz/survey_workers.py --checkout ../before              # the same of another
    version

Each round starts ``fusiondoc survey`` as a process of its own, waits for a random
part of the time that it takes, and sends SIGKILL or SIGTERM, in turns, to one of
its workers. Clusters are started here, with two workers, on this machine. Exit
status 1 if a survey did not end, failed, or had another answer.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
SIGNALS = (signal.SIGKILL, signal.SIGTERM)


class Cluster(NamedTuple):
    """Its address, and the process whose descendants are its workers; neither of
    the local engine."""

    address: str | None = None
    process: int | None = None


class Round(NamedTuple):
    """How a survey went of which a worker was ended."""

    outcome: str
    """"the same answer", or what was wrong."""
    killed: bool
    lost: int
    """Workers that the survey says it lost."""
    noted: bool
    seconds: float


def descendants(process: int) -> list[int]:
    """All below a process, from /proc."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.name))
    found, waiting = [], [process]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def workers_of(engine: str, survey: int, cluster: Cluster) -> list[int]:
    """Process numbers of the workers."""
    marks = {
        "local": (b"",),
        "dask": (b"spawn_main",),
        "ray": (b"ray::read_", b"ray::digests_"),
    }
    found = []
    for one in descendants(survey if cluster.process is None else cluster.process):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{one}/cmdline").read_bytes()
            if (
                any(mark in line for mark in marks[engine])
                and b"resource_tracker" not in line
            ):
                found.append(one)
    return sorted(found)


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextlib.contextmanager
def cluster(engine: str, checkout: Path) -> Iterator[Cluster]:
    """One with two workers that can import that version."""
    if engine == "local":
        yield Cluster()
        return
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    port = _free_port()
    address = f"tcp://127.0.0.1:{port}" if engine == "dask" else f"127.0.0.1:{port}"
    if engine == "dask":
        dask = [sys.executable, "-m", "dask"]
        commands = [
            [
                *dask,
                "scheduler",
                "--port",
                str(port),
                "--host",
                "127.0.0.1",
                "--no-dashboard",
            ],
            [
                *dask,
                "worker",
                address,
                "--nworkers",
                str(WORKERS),
                "--nthreads",
                "1",
                "--no-dashboard",
            ],
        ]
    else:
        ray = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
        ]
        commands = [
            [
                *ray,
                f"--port={port}",
                f"--num-cpus={WORKERS}",
                "--include-dashboard=false",
                "--disable-usage-stats",
            ]
        ]
    with tempfile.TemporaryDirectory() as folder:
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [
            subprocess.Popen(one, env=environment, cwd=folder, **quiet)
            for one in commands
        ]
        try:
            _wait_for(port)
            yield Cluster(address, started[-1].pid)
        finally:
            for one in reversed(started):
                one.terminate()
            for one in started:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    one.wait(30)


def _wait_for(port: int) -> None:
    for _ in range(600):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 1),
        ):
            return
        time.sleep(0.2)
    raise SystemExit(f"nothing listens on port {port}")


class Started(NamedTuple):
    """A survey, and where its answer goes: a file, so that it never waits for a
    reader."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def end(self, seconds: float) -> tuple[str, str]:
        """What it printed.

        Raises:
            subprocess.TimeoutExpired: it did not end; it is ended with its workers.
        """
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise
        return self.out.read_text(), self.err.read_text()


def start(folder: Path, engine: str, at: Cluster, checkout: Path) -> Started:
    command = [
        sys.executable,
        "-m",
        "fusiondoc",
        "survey",
        str(folder / "fleet"),
        "--format",
        "json",
    ]
    command += ["--engine", engine]
    command += (
        ["--workers", str(WORKERS)]
        if at.address is None
        else ["--address", at.address]
    )
    out, err = folder / "out", folder / "err"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
        )
    return Started(process, out, err)


def answer_of(text: str) -> dict[str, Any]:
    return {
        name: value for name, value in json.loads(text).items() if name != "work"
    }


def one_round(
    engine: str,
    at: Cluster,
    folder: Path,
    checkout: Path,
    expected: dict[str, Any],
    took: float,
    number: int,
) -> Round:
    """A survey of which a worker is ended somewhere between its start and its
    end."""
    choose = random.Random(number)
    began = time.monotonic()
    started = start(folder, engine, at, checkout)
    time.sleep(took * choose.uniform(0.2, 0.7))
    killed = False
    while not killed and started.process.poll() is None:
        workers = workers_of(engine, started.process.pid, at)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(choose.choice(workers), SIGNALS[number % len(SIGNALS)])
                killed = True
        time.sleep(0.01)
    try:
        out, err = started.end(5 * took + 60)
    except subprocess.TimeoutExpired:
        return Round("did not end", killed, 0, False, time.monotonic() - began)
    seconds = time.monotonic() - began
    status = started.process.returncode
    if status != 0:
        return Round(f"status {status}: {err[-300:]}", killed, 0, False, seconds)
    work = json.loads(out)["work"]
    same = answer_of(out) == expected
    strange = "Traceback" in err
    outcome = (
        "the same answer"
        if same and not strange
        else "a traceback"
        if strange
        else "another answer"
    )
    return Round(outcome, killed, work["lost_workers"], "died" in err, seconds)


def rounds(engine: str, folder: Path, checkout: Path, count: int) -> list[Round]:
    """Of an engine, until in so many a worker was ended; the answer to hold them
    against is of a survey that nothing happens to."""
    with cluster(engine, checkout) as at:
        took = 0.0
        for _ in range(2):  # a cluster starts its workers in the first
            began = time.monotonic()
            out, err = start(folder, engine, at, checkout).end(600)
            took = time.monotonic() - began
        if not out:
            raise SystemExit(f"{engine}: no survey without any worker ended: {err}")
        expected = answer_of(out)
        done: list[Round] = []
        number = 0
        while sum(one.killed for one in done) < count and number < 3 * count:
            done.append(
                one_round(engine, at, folder, checkout, expected, took, number)
            )
            number += 1
        return done


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--engine", action="append", choices=("local", "dask", "ray")
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--reports", type=int, default=2_000)
    parser.add_argument(
        "--checkout", type=Path, default=ROOT, help="the version that is tried"
    )
    asked = parser.parse_args()
    spec = importlib.util.spec_from_file_location(
        "survey_fleet", ROOT / "benchmarks" / "survey_fleet.py"
    )
    assert spec is not None and spec.loader is not None
    fleet = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fleet)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="survey-workers-") as name:
        (Path(name) / "fleet").mkdir()
        fleet.make(Path(name) / "fleet", asked.reports)
        for engine in asked.engine or ["local"]:
            done = rounds(
                engine, Path(name), asked.checkout.resolve(), asked.rounds
            )
            outcomes = Counter(one.outcome for one in done)
            wrong += len(done) - outcomes["the same answer"]
            killed, lost = (
                sum(one.killed for one in done),
                sum(one.lost > 0 for one in done),
            )
            noted, slowest = (
                sum(one.noted for one in done),
                max(one.seconds for one in done),
            )
            print(
                f"{engine}: {len(done)} rounds, {killed} with a worker ended: "
                + "; ".join(
                    f"{number} x {outcome}" for outcome, number in outcomes.items()
                )
                + f"; {lost} name the lost worker, {noted} with a note; the slowest took {slowest:.1f} s",
                flush=True,
            )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
