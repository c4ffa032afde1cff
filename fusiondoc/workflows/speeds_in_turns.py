"""The speed of runs against the first of them: processes that take their rounds in turns, as in a bench."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from fusiondoc.captures.request import RunRequest
from fusiondoc.errors import FusiondocError
from fusiondoc.fusers import DYNAMO, choices
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.model.bench import FORWARD, LEAST_ROUNDS, TRAINING, Ratio, of_processes
from fusiondoc.model.run_options import DEFAULTS
from fusiondoc.runner.interpreter import find_python, inspect
from fusiondoc.workflows.bench import silent
from fusiondoc.workflows.bench_turns import (
    AS_OF_A_RUN,
    BenchRequest,
    Start,
    VariantRun,
    run_in_turns,
    start_variant,
)

ROUND_SECONDS = 0.1
_TWICE_WITHIN = 20.0
"""Seconds of warming up: a fuser that compiles for longer is not made to do it again."""


def speeds_in_turns(requests: Sequence[tuple[RunRequest, str | None]]) -> list[Ratio | None]:
    """The speed of each request against the first, with its first inputs; None where it could not be timed.

    Args:
        requests: each with the fuser that its run had in effect.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    starts = [_start(request, fuser) for request, fuser in requests]
    present = [number for number, start in enumerate(starts) if start is not None]
    runs: dict[int, VariantRun] = {}
    with tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as name, silent() as bar:
        first = requests[0][0]
        limits = BenchRequest(
            target=first.target, pythons=(first.python,), timeout=first.timeout, twice_within=_TWICE_WITHIN
        )
        started, interrupted = run_in_turns(
            [start for start in starts if start is not None], limits, Path(name) / "runs", bar, "", True
        )
        runs = dict(zip(present, started))
    if interrupted:
        raise KeyboardInterrupt
    first_times = _times(runs.get(0))
    others = (_against(first_times, _times(runs.get(number))) for number in range(1, len(requests)))
    return [None, *others]


def _start(request: RunRequest, fuser: str | None) -> Start | None:
    """A function that starts a process of it; None if it cannot be timed."""
    timed_here = ("auto", TORCHSCRIPT.name, DYNAMO.name)
    if fuser not in choices() or request.script or request.frontend not in timed_here:
        return None
    if request.dynamic or request.mode != DEFAULTS["mode"]:  # the variant of a bench has neither
        return None
    wanted = BenchRequest(
        target=request.target,
        pythons=(request.python,),
        seed=request.seed or 0,
        round_seconds=ROUND_SECONDS,
        **{name: getattr(request, name) for name in AS_OF_A_RUN},
    )
    try:
        interpreter = inspect(find_python(request.python))
    except FusiondocError:
        return None
    phase = TRAINING if request.backward else FORWARD
    return lambda folder: start_variant(wanted, str(fuser), interpreter, phase, folder)


def _times(run: VariantRun | None) -> list[list[float]]:
    """Rounds of each process; none of a run that stopped: its rounds are of other turns than those of the
    first."""
    return run.processes(0) if run is not None and run.why is None else []


def _against(first_times: Sequence[Sequence[float]], times: Sequence[Sequence[float]]) -> Ratio | None:
    pairs = sum(min(len(first), len(other)) for first, other in zip(first_times, times))
    return of_processes(first_times, times) if pairs >= LEAST_ROUNDS else None
