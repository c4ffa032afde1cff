"""The speed of runs relative to the first of them: processes take their rounds in
turns, as in a bench."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fusiondoc.captures.request import RunRequest
from fusiondoc.errors import FusiondocError
from fusiondoc.fusers import DYNAMO, choices, facts_of
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.model.bench import (
    FORWARD,
    LEAST_ROUNDS,
    TRAINING,
    Ratio,
    of_processes,
)
from fusiondoc.model.run_options import DEFAULTS
from fusiondoc.runner.bench_child import Died
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
"""Most seconds of a warm-up for which a second process is started: a fuser that
compiles for longer does it only once."""


class TimedAhead:
    """Processes of runs that will be timed, which load and warm up during other
    work.

    Args:
        most: number of concurrent processes; 0 for none.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._folder = tempfile.TemporaryDirectory(
            prefix="fusiondoc-ahead-", ignore_cleanup_errors=True
        )
        self._begun: list[tuple[RunRequest, VariantRun]] = []

    def begin(self, request: RunRequest, fuser: str | None) -> None:
        """Start the process of a run, if there is room and it can be timed. Not for
        torch.compile: it times kernels to choose among them."""
        if not facts_of(fuser).of_torchscript:
            return
        if len(self._begun) >= self._most or any(
            known is request for known, _ in self._begun
        ):
            return
        start = _start(request, fuser)
        if start is None:
            return
        with contextlib.suppress(FusiondocError, Died):
            run = start(self.new_folder())
            self._begun.append((request, run))
            run.child.begin_warm_up()

    def new_folder(self) -> Path:
        """The folder for a process that may live as long as this object; not
        created yet."""
        self._started += 1
        return Path(self._folder.name) / str(self._started)

    def take(self, request: RunRequest) -> VariantRun | None:
        """Return the process of a run, when it has warmed up, and leave it to the
        caller. None if it has died: it may have lacked memory beside others."""
        for number, (known, run) in enumerate(self._begun):
            if known is request:
                is_warm = (
                    run.child.has_warmed_up()
                )  # an interruption here leaves it to ``close``
                del self._begun[number]
                if is_warm:
                    return run
                run.child.kill()
                return None
        return None

    def give_back(self, request: RunRequest, run: VariantRun) -> None:
        """Keep a process after its timing: timing it again needs no warm-up."""
        self._begun.append((request, run))

    def end_others(self, wanted: Sequence[RunRequest] = ()) -> None:
        """End the processes that were not taken, except those of the given runs."""
        for known, run in self._begun:
            if not any(known is request for request in wanted):
                run.child.kill()
        self._begun = [
            one
            for one in self._begun
            if any(one[0] is request for request in wanted)
        ]

    def close(self) -> None:
        """End the processes that were not taken, and remove the files of all."""
        self.end_others()
        self._folder.cleanup()


def speeds_in_turns(
    requests: Sequence[tuple[RunRequest, str | None]],
    ahead: TimedAhead | None = None,
) -> list[Ratio | None]:
    """The speed of each request against the first, with its first inputs; None
    where it could not be timed.

    Args:
        requests: each with the fuser that its run had in effect.
        ahead: processes that have begun to warm up.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    if ahead is not None:
        ahead.end_others([request for request, _ in requests])
    starts = [
        _first_taken(_start(request, fuser), request, ahead)
        for request, fuser in requests
    ]
    present = [number for number, start in enumerate(starts) if start is not None]
    runs: dict[int, VariantRun] = {}
    with (
        tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as name,
        silent() as bar,
    ):
        first = requests[0][0]
        limits = BenchRequest(
            target=first.target,
            pythons=(first.python,),
            timeout=first.timeout,
            twice_within=_TWICE_WITHIN,
        )
        started, interrupted = run_in_turns(
            [start for start in starts if start is not None],
            limits,
            Path(name) / "runs",
            bar,
            "",
            only_times=True,
            keeps=ahead is not None,
        )
        runs = dict(zip(present, started))
        if ahead is not None:
            for number, run in runs.items():
                if run.child.is_alive:
                    ahead.give_back(requests[number][0], run)
    if interrupted:
        raise KeyboardInterrupt
    first_times = _times(runs.get(0))
    others = (
        _against(first_times, _times(runs.get(number)))
        for number in range(1, len(requests))
    )
    return [None, *others]


def _first_taken(
    start: Start | None, request: RunRequest, ahead: TimedAhead | None
) -> Start | None:
    """Return a function that first returns the process already started, if it is
    alive, and then starts new ones, whose files live as long as ``ahead``."""
    if start is None or ahead is None:
        return start

    def started(folder: Path) -> VariantRun:
        return ahead.take(request) or start(ahead.new_folder())

    return started


def _start(request: RunRequest, fuser: str | None) -> Start | None:
    """Return a function that starts a process of a run; None if it cannot be
    timed."""
    timed_here = ("auto", TORCHSCRIPT.name, DYNAMO.name)
    if (
        fuser not in choices()
        or request.script
        or request.frontend not in timed_here
    ):
        return None
    if (
        request.dynamic or request.mode != DEFAULTS["mode"]
    ):  # the variant of a bench has neither
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
    return lambda folder: start_variant(
        wanted, str(fuser), interpreter, phase, folder
    )


def _times(run: VariantRun | None) -> list[list[float]]:
    """Rounds of each process; empty for a run that stopped: its rounds are not from
    the same turns as those of the first run."""
    if run is not None and run.why is None:
        return run.processes(0)
    return []


def _against(
    first_times: Sequence[Sequence[float]], times: Sequence[Sequence[float]]
) -> Ratio | None:
    pairs = 0
    for first, other in zip(first_times, times):
        pairs += min(len(first), len(other))
    if pairs >= LEAST_ROUNDS:
        return of_processes(first_times, times)
    return None
