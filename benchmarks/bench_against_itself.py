"""How often ``fusiondoc bench`` says "no difference" of a program against itself.

    python benchmarks/bench_against_itself.py [TARGET] [TIMES]

TARGET is examples/bias_gelu.py and TIMES 30 unless given. Each time two processes
run TARGET eagerly and take rounds in turns. Prints each ratio with its interval,
and how many hold 1. On a loaded machine it should be 28 of 30 at least.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from fusiondoc.captures.request import parse_target
from fusiondoc.workflows.bench import run_bench
from fusiondoc.workflows.bench_turns import BenchProgress, BenchRequest


class Quiet:
    """Shows nothing."""

    def say(self, doing: str, done: int, total: int) -> None: ...


@contextlib.contextmanager
def quiet() -> Iterator[BenchProgress]:
    yield Quiet()


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else "examples/bias_gelu.py"
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    same = 0
    for number in range(times):
        request = BenchRequest(
            parse_target(target),
            (Path(sys.executable),),
            variants=("eager", "eager"),
        )
        ratio = run_bench(request, quiet).variants[1].phases[0].ratio
        assert ratio is not None
        same += not ratio.differs
        print(
            f"{number + 1}: {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})",
            flush=True,
        )
    print(f"no difference: {same} of {times}")


if __name__ == "__main__":
    main()
