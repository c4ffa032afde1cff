"""How fast secrets and names are looked for in logs: ``python
benchmarks/masking_speed.py [ROUNDS]``.

The text is all logs under ``fixtures/``, unpacked. Prints the best of the rounds,
in megabytes a second: for ``mask`` by parts of half a megabyte, as ``bundle`` reads
a log; for all that ``bundle`` does to a text, with the rules of detect-secrets and
without; and microseconds a line for lines one by one, as a report has them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fusiondoc.masking import mask
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.workflows import more_secrets
from fusiondoc.workflows.names_replaced import names_in

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
_PART = 1 << 19
_LINES = 100_000


def text_of_logs() -> str:
    """All of them in one."""
    parts = []
    for path in sorted(FIXTURES.glob("**/*.log*")):
        parts += [
            chunk.decode("utf-8", "replace")
            for chunk in read_chunks(LogInput(path.name, path))
        ]
    return "".join(parts)


def best(work: Callable[[], None], rounds: int) -> float:
    """Seconds of the quickest round."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    text = text_of_logs()
    parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
    lines = text.split("\n")[:_LINES]
    megabytes = len(text) / 1e6
    ways: dict[str, Callable[[str], object]] = {"mask": mask}
    own, more = names_in([], []), more_secrets.finder()
    ways["bundle"] = lambda part: own.text(part, Counter())
    if more is not None:
        both = names_in([], [], more)
        ways["bundle, with detect-secrets"] = lambda part: both.text(
            part, Counter()
        )
    for name, way in ways.items():
        seconds = best(
            lambda way=way: [way(part) for part in parts] and None, rounds
        )  # type: ignore[misc]
        print(f"{name}: {megabytes / seconds:.1f} MB/s of {megabytes:.1f} MB")
    seconds = best(lambda: [mask(line) for line in lines] and None, rounds)
    print(f"a line: {seconds / len(lines) * 1e6:.2f} us")


if __name__ == "__main__":
    main()
