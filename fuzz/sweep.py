"""Many damaged inputs from a seed, and how many of them went wrong.

``python fuzz/sweep.py KIND [FILE or FOLDER ...] --seed 1 --seconds 600``: an input
that raises, takes longer than --slow seconds or breaks a rule of targets.py is
written to ``sweep-*`` in the current folder, once a place, and counted. The same
seed, files and --count give the same inputs. Results:
docs/evidence/2026-11-24-reliability.md.
"""

from __future__ import annotations

import argparse
import lzma
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NoReturn

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from changes import changed, changed_json, damaged_log  # noqa: E402
from targets import TARGETS, read  # noqa: E402

from fusiondoc.reports import REPORT_FORMATS, render_report  # noqa: E402

_MEMORY = 3 << 30
_LONGEST_READ = 200_000


class TooSlow(BaseException):
    """Of the alarm; nothing of fusiondoc's may catch it."""


def logs_in(places: Sequence[str]) -> list[bytes]:
    """The logs in files and folders, unpacked; of each its first part."""
    found = []
    for place in map(Path, places):
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.name.endswith((".log", ".log.xz", ".txt")) and path.is_file():
                data = path.read_bytes()
                found.append(
                    (lzma.decompress(data) if path.suffix == ".xz" else data)[
                        :_LONGEST_READ
                    ]
                )
    return [one for one in found if one]


def parsed(data: bytes, number: int) -> None:
    """The log as a report, which adds up, in one of the formats."""
    with read(data) as report:
        render_report(
            report, list(REPORT_FORMATS)[number % len(REPORT_FORMATS)]
        ).encode("utf-8")


def inputs(kind: str, files: Sequence[str], draw: Random) -> Iterator[bytes]:
    """Damaged logs, or damaged files of the corpus of a target."""
    if kind in ("parse", "log"):
        logs = logs_in(files or [str(HERE.parent / "fixtures")])
        while True:
            yield damaged_log(logs, draw)
    corpus = [
        path.read_bytes() for path in sorted((HERE / "corpus" / kind).iterdir())
    ]
    corpus += [Path(one).read_bytes() for one in files]
    as_json = kind in ("bench", "trace", "records", "saved_report", "capture")
    while True:
        data = draw.choice(corpus)
        for _ in range(draw.choice((1, 1, 2, 4))):
            data = (
                changed_json(data, draw)
                if as_json and draw.random() < 0.7
                else changed(data, draw)
            )
        yield data


def _too_slow(*_: Any) -> NoReturn:
    raise TooSlow


def tried(check: Callable[[bytes], None], data: bytes, slow: float) -> str | None:
    """Where it went wrong; None if it did not."""
    signal.setitimer(signal.ITIMER_VIRTUAL, slow)
    try:
        check(data)
    except (Exception, TooSlow) as error:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        frames = [
            one
            for one in traceback.extract_tb(error.__traceback__)
            if "fusiondoc" in one.filename
        ]
        place = (
            f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
            if frames
            else "?"
        )
        return f"{type(error).__name__} at {place}: {str(error)[:80]}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def main() -> int:
    """Status 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "kind",
        choices=["parse", *TARGETS],
        help="parse: a log in one format; else a target",
    )
    parser.add_argument(
        "files",
        nargs="*",
        help="logs, folders of logs, or more files for the corpus",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1 << 40)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument(
        "--slow", type=float, default=10.0, help="seconds that an input may take"
    )
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGVTALRM, _too_slow)
    wrong: Counter[str] = Counter()
    slowest = 0.0
    began = time.perf_counter()
    done = 0
    for number, data in enumerate(
        inputs(asked.kind, asked.files, Random(asked.seed))
    ):
        if number >= asked.count or time.perf_counter() - began >= asked.seconds:
            break
        start = time.perf_counter()
        check = (
            (lambda one, at=number: parsed(one, at))
            if asked.kind == "parse"
            else TARGETS[asked.kind]
        )
        place = tried(check, data, asked.slow)
        slowest = max(slowest, time.perf_counter() - start)
        done += 1
        if place is not None:
            wrong[place] += 1
            if wrong[place] == 1:
                Path(f"sweep-{asked.kind}-{asked.seed}-{number}").write_bytes(data)
                print(f"{number}: {place}", flush=True)
    taken = time.perf_counter() - began
    print(
        f"{asked.kind}, seed {asked.seed}: {done} inputs in {taken:.0f} s, {sum(wrong.values())} went wrong"
        f" at {len(wrong)} places; the slowest took {slowest:.1f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
