"""``fusiondoc history`` over many runs: lines of 40 models, each with one loss;
time and memory by format.

python benchmarks/history_lines.py --runs 10000 --runs 100000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fusiondoc.model.run_lines import HOLDS, SCHEMA, GroupLine, OutsideLine, RunLine  # noqa: E402
from fusiondoc.workflows.lines_of_runs import append_lines  # noqa: E402

MODELS = 40
GROUPS = 20
FORMATS = ("text", "markdown", "html", "json")


def lines(count: int) -> Iterator[RunLine]:
    """Runs of 40 models in turn. In the second half of the runs of each model one
    group is gone."""
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    groups = tuple(
        GroupLine(
            "forward",
            ("aten::mul",) * (number + 1) + ("aten::add",),
            (f"model.py:{number}",),
            1,
        )
        for number in range(GROUPS)
    )
    for number in range(count):
        is_late = number * 2 >= count
        yield RunLine(
            schema=SCHEMA,
            model=f"models/block{number % MODELS}.py",
            date=(begin + timedelta(seconds=60 * number)).isoformat(
                timespec="seconds"
            ),
            commit=f"{number // MODELS:012x}",
            status=HOLDS,
            groups=groups[:-1] if is_late else groups,
            coverage=0.8 if is_late else 0.9,
            ms=5.0 + number % 7 / 100,
            outside=(OutsideLine("forward", "aten::add", "FD201", 1),)
            if is_late
            else (),
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, action="append")
    given = parser.parse_args()
    for count in given.runs or [10_000]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "history.jsonl"
            # In small parts: the peak of a child holds that of this process.
            made = lines(count)
            while part := list(islice(made, 1000)):
                append_lines(file, part)
            print(f"{count:,} runs, {file.stat().st_size / 1e6:.0f} MB", flush=True)
            for format_ in FORMATS:
                _measure(file, format_)


def _measure(file: Path, format_: str) -> None:
    command = [
        sys.executable,
        "-m",
        "fusiondoc",
        "history",
        "--from",
        str(file),
        "--format",
        format_,
    ]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    size, memory = len(done.stdout) / 1e6, after.ru_maxrss // 1024
    print(
        f"  {format_}: {processor:.1f} s of processor time, {seconds:.1f} s in all, up to {memory} MB,"
        f" {size:.1f} MB written",
        flush=True,
    )


if __name__ == "__main__":
    main()
