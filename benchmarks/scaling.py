"""How processor time and memory of reading grow with the size of a log: for each
input of ``scaling_inputs.py`` the seconds and the peak memory at each size, and the
exponent from the size before; as the rows of a table (docs/evidence/ has one by its
date). All of it takes four minutes on an idle machine.

    python benchmarks/scaling.py                    # all, in order
    python benchmarks/scaling.py --only caches --format text --seconds 60

Each measurement is a process of its own (``fusiondoc parse`` or ``compare``), with
at most --memory of address space and --seconds of processor time.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scaling_inputs import CASES, Case

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Used:
    seconds: float
    """Of processor time, of user and system."""
    megabytes: float
    """Peak of resident memory."""
    printed: int
    """Bytes of output."""
    failed: str | None = None


def measure(command: list[str], folder: Path, memory: int, seconds: int) -> Used:
    """Run a command of fusiondoc in a process of its own."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    out, errors = folder / "out", folder / "errors"
    with out.open("wb") as stdout, errors.open("wb") as stderr:
        child = subprocess.Popen(
            [sys.executable, "-m", "fusiondoc", *command],
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=limit,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    failed = None
    if child.returncode not in (0, 1) or b"Traceback" in errors.read_bytes():
        last = (
            errors.read_text(errors="replace").strip()
            or f"status {child.returncode}"
        ).split("\n")[-1]
        failed = last[:70]
    printed = out.stat().st_size
    return Used(
        used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, printed, failed
    )


def write(case: Case, size: int, path: Path, changed: bool = False) -> None:
    """The log of a case; ``changed``: with other lines of source in every second
    place."""
    with path.open("w") as log:
        for text in case.make(size):
            log.write(
                re.sub(r"model\.py:(\d*[02468]):", r"model.py:1\1:", text)
                if changed
                else text
            )


def of_case(case: Case, options: argparse.Namespace, start: Used) -> None:
    title = case.title
    before: tuple[int, float] | None = None
    for size in case.sizes:
        if options.most and size > options.most:
            break
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / "big.log"
            write(case, size, path)
            command = ["parse", str(path), "--format", options.format]
            if case.compare:
                other = folder / "other.log"
                write(case, size, other, changed=True)
                command = [
                    "compare",
                    str(path),
                    str(other),
                    "--format",
                    options.format,
                ]
            length = path.stat().st_size
            runs = []
            for _ in range(options.repeat):
                runs.append(
                    measure(command, folder, options.memory, options.seconds)
                )
                if runs[-1].failed:
                    break
        failed = next((run.failed for run in runs if run.failed), None)
        seconds = statistics.median(run.seconds for run in runs)
        own = max(1e-3, seconds - start.seconds)
        growth = ""
        if (
            before is not None
            and not failed
            and min(own, before[1]) > LEAST_SECONDS
        ):
            growth = f"{math.log(own / before[1]) / math.log(size / before[0]):.2f}"
        peak = max(run.megabytes for run in runs)
        goal = case.goal if size == case.sizes[-1] else ""
        print(
            f"| {title} | {size:,} | {length / 1e6:.1f} MB | {seconds:.1f} s | {peak:.0f} MB"
            f" | {runs[-1].printed / 1e6:.1f} MB | {failed or growth} | {goal} |",
            flush=True,
        )
        title = ""
        if failed:
            break
        before = size, own


LEAST_SECONDS = 0.2
"""Beyond those of a log of one line: of less, no exponent is told."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--only", action="append", help="the name of a case; may be given again"
    )
    parser.add_argument("--format", default="json")
    parser.add_argument("--most", type=int, help="the largest size")
    parser.add_argument(
        "--repeat", type=int, default=1, help="the median of so many"
    )
    parser.add_argument(
        "--memory", type=int, default=4000, help="MiB of address space"
    )
    parser.add_argument(
        "--seconds", type=int, default=120, help="of processor time"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        small = Path(name) / "small.log"
        small.write_text("nothing\n")
        command = ["parse", str(small), "--format", options.format]
        start = min(
            (measure(command, Path(name), 4000, 60) for _ in range(3)),
            key=lambda one: one.seconds,
        )
    print(
        f"Python {sys.version.split()[0]}; a log of one line: {start.seconds:.2f} s {start.megabytes:.0f} MB"
        "\n\n| input | size | log | time | memory | printed | exponent | goal |\n"
        "|---|--:|--:|--:|--:|--:|--:|---|"
    )
    for case in CASES:
        if not options.only or case.name in options.only:
            of_case(case, options, start)


if __name__ == "__main__":
    main()
