"""Many reports, made by varying real ones (fixtures/golden), surveyed by each
engine: the same answer, the time beside it, and with a worker killed in the middle.

    python benchmarks/survey_fleet.py --reports 10000                     # the
    local engine pip install 'distributed' 'ray' python benchmarks/survey_fleet.py
    --reports 10000 --engine local --engine dask --engine ray --kill

Of the reports, groups are missing from one torch release on, some kernels are slow,
some files are copies, some are damaged; ``make`` says which. Clusters are started
here, two workers each, and stopped at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fusiondoc.reports.json_format import plain  # noqa: E402
from fusiondoc.workflows.survey import survey  # noqa: E402

TORCH = ("1.13.1+cu117", "2.0.1+cu118", "2.1.2+cu121")
DRIVERS = ("525.147.05", "535.104.05", "550.54.15")
GPUS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200")
_PLACE = re.compile(r"(\.py:)(\d+)")
MODELS = 40
WORKERS = 2


def make(folder: Path, count: int) -> None:
    """Reports of ``count`` runs: of every 100, two are copies, one is damaged and
    one is no report; of every third model the last group is gone in torch 2.1.2,
    and one run of 199 has slow kernels."""
    real = [
        json.loads(one.read_text("utf-8"))
        for one in sorted((ROOT / "fixtures" / "golden").glob("*.json"))
    ]
    choose = random.Random(20261122)
    for number in range(count):
        model = number % MODELS
        base = real[model % len(real)]
        # Days go on, and with them the releases of torch.
        day = number * 300 // count
        torch = TORCH[min(day // 100, 2)]
        text = json.dumps(base)
        text = _PLACE.sub(
            lambda found, by=model: f"{found[1]}{int(found[2]) + by}", text
        )
        data: dict[str, Any] = json.loads(text)
        data["environment"] = {
            "torch": torch,
            "cuda": "12.1",
            "gpu": choose.choice(GPUS),
            "driver": DRIVERS[min((day + choose.randrange(40)) // 110, 2)],
        }
        when = time.strftime(
            "%Y%m%d-%H%M%S", time.gmtime(1735689600 + day * 86400 + number % 86400)
        )
        data["target"] = {
            "name": f"models/block{model}.py",
            "options": {},
            "capture": f".fusiondoc/{when}-block{model}",
        }
        slow = 4.0 if number % 199 == 7 else 1.0
        for kernel in data["kernels"]:
            if kernel["ms"] is not None:
                factor = slow * choose.uniform(0.97, 1.03)
                kernel["ms"] = {
                    name: value * factor for name, value in kernel["ms"].items()
                }
        if torch == TORCH[2] and model % 3 == 0 and len(data["groups"]) > 1:
            data["groups"] = data["groups"][:-1]
        written = json.dumps(data)
        if number % 100 == 41:
            written = written[: len(written) // 2]
        if number % 100 == 42:
            written = '{"schema": "fusiondoc.bench/1"}'
        place = folder / f"node{number % 8}" / f"run-{number:06}.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(written, "utf-8")
        if number % 100 in (3, 4):
            (place.parent / f"copy-{number:06}.json").write_text(written, "utf-8")


@contextlib.contextmanager
def cluster(name: str) -> Iterator[str | None]:
    """The address of a cluster of that kind with two workers; None for the local
    engine."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    beside = Path(sys.executable).parent
    if name == "local":
        yield None
    elif name == "dask":
        address = "tcp://127.0.0.1:18786"
        commands = [
            [
                str(beside / "dask"),
                "scheduler",
                "--port",
                "18786",
                "--no-dashboard",
                "--host",
                "127.0.0.1",
            ]
        ]
        worker = [
            str(beside / "dask"),
            "worker",
            address,
            "--nworkers",
            str(WORKERS),
            "--nthreads",
            "1",
        ]
        commands.append([*worker, "--no-dashboard"])
        with tempfile.TemporaryDirectory() as folder:
            started = [
                subprocess.Popen(
                    one,
                    env=environment,
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for one in commands
            ]
            try:
                from distributed import Client

                with Client(address, timeout=120) as client:
                    client.wait_for_workers(WORKERS, timeout=120)
                yield address
            finally:
                for one in reversed(started):
                    one.terminate()
                    one.wait()
    else:
        import ray

        ray.init(
            num_cpus=WORKERS,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
        )
        try:
            yield "local"
        finally:
            ray.shutdown()


def workers_of(name: str) -> list[int]:
    """Process numbers of the workers that this machine runs for an engine."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            line = (place / "cmdline").read_bytes()
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if name == "ray" and line.startswith(b"ray::read_chunk"):
                found.append(int(place.name))
            if (
                name == "dask"
                and b"multiprocessing" in line
                and b"spawn_main" in line
            ):
                found.append(int(place.name))
            if (
                name == "local"
                and parent == os.getpid()
                and b"survey_fleet" in line
            ):
                found.append(int(place.name))
    return sorted(found)


def kill_one(name: str, after: float, killed: list[int]) -> None:
    """End a worker of the engine, as a machine that runs out of memory would."""
    time.sleep(after)
    for _ in range(100):
        workers = workers_of(name)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[-1], signal.SIGKILL)
                killed.append(workers[-1])
                return
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=10_000)
    parser.add_argument(
        "--engine", action="append", choices=("local", "dask", "ray")
    )
    parser.add_argument(
        "--kill",
        action="store_true",
        help="each engine once more, a worker killed in the middle",
    )
    parser.add_argument(
        "--folder", type=Path, help="where the reports are made, or are already"
    )
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="survey-fleet-"))
    if not any(folder.glob("node*")):
        folder.mkdir(exist_ok=True)
        make(folder, asked.reports)
    size = sum(one.stat().st_size for one in folder.rglob("*.json"))
    print(
        f"{sum(1 for _ in folder.rglob('*.json')):,} files, {size / 1e6:.0f} MB in {folder}",
        flush=True,
    )
    first: Any = None
    for name in asked.engine or ["local"]:
        with cluster(name) as address:
            took = None
            for kill in (False, True) if asked.kill else (False,):
                killed: list[int] = []
                if kill:
                    assert took is not None
                    threading.Thread(
                        target=kill_one,
                        args=(name, took * 0.4, killed),
                        daemon=True,
                    ).start()
                told = "" if kill is False else ", a worker killed"
                workers = WORKERS if name == "local" else None
                found = survey(
                    [str(folder)], engine=name, address=address, workers=workers
                )
                took = found.work.seconds
                answer = {
                    key: value
                    for key, value in plain(found).items()
                    if key != "work"
                }
                first = answer if first is None else first
                said = (
                    "the first answer"
                    if answer is first
                    else "the same answer"
                    if answer == first
                    else "OTHER ANSWER"
                )
                left = f"{len(found.duplicates)} copies, {len(found.unreadable)} unreadable"
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                dead = f"{memory} MB here, killed {len(killed)}, lost workers {found.work.lost_workers}"
                print(
                    f"{name}{told}: {took:.1f} s, {len(found.runs):,} runs, {len(found.groups)} groups,"
                    f" {len(found.gone)} gone, {len(found.outliers)} outliers, {left}, {dead}:"
                    f" {said}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
