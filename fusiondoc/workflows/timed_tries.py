"""``--try``: how fast the run is with each change, in turns and without logs, as ``fusiondoc bench``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Sequence

from fusiondoc.captures.request import RunRequest
from fusiondoc.errors import FusiondocError
from fusiondoc.model.bench import FORWARD, TRAINING, Ratio
from fusiondoc.runner.bench_child import Died
from fusiondoc.runner.interpreter import find_python, inspect
from fusiondoc.workflows.bench_statistics import LEAST_ROUNDS, ratio
from fusiondoc.workflows.bench_turns import BenchRequest, VariantRun, start_variant, take_turns

ROUND_SECONDS = 0.1
ROUNDS = 15
_VARIANTS = ("nvfuser", "nnc", "onednn", "none")
"""Fusers that a bench can run; the legacy fuser is none of them."""


def speeds_in_turns(requests: Sequence[tuple[RunRequest, str | None]]) -> list[Ratio | None]:
    """The speed of each request against the first, with its first inputs; None where it could not be timed.

    Args:
        requests: each with the fuser that its run had in effect.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    runs: list[VariantRun | None] = []
    with tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as folder:
        try:
            for number, (request, fuser) in enumerate(requests):
                runs.append(_started(request, fuser, Path(folder) / str(number)))
            for run in runs:
                _warm_up(run)
            for number in range(ROUNDS):
                take_turns([run for run in runs if run is not None and 0 in run.ms], number, 0)
        finally:
            for run in runs:
                if run is not None:
                    run.child.kill()
    asked = _times(runs[0])
    return [_against(asked, _times(run)) for run in runs]


def _started(request: RunRequest, fuser: str | None, folder: Path) -> VariantRun | None:
    if fuser not in _VARIANTS or request.script or request.frontend not in ("auto", "torchscript"):
        return None
    wanted = BenchRequest(
        target=request.target,
        pythons=(request.python,),
        inputs=request.inputs,
        backward=request.backward,
        trace=request.trace,
        eval=request.eval,
        freeze=request.freeze,
        in_place_off=request.in_place_off,
        device=request.device,
        seed=request.seed or 0,
        knobs=request.knobs,
        round_seconds=ROUND_SECONDS,
        timeout=request.timeout,
        cwd=request.cwd,
        overlay=request.overlay,
    )
    try:
        interpreter = inspect(find_python(request.python))
        phase = TRAINING if request.backward else FORWARD
        return start_variant(wanted, str(fuser), interpreter, phase, folder)
    except FusiondocError:
        return None


def _warm_up(run: VariantRun | None) -> None:
    if run is None:
        return
    try:
        run.child.warm_up()
        run.ms[0] = []
    except Died as died:
        run.why = str(died)


def _times(run: VariantRun | None) -> list[float]:
    """None of a run that stopped: its rounds are of other turns than those of the first."""
    return run.ms.get(0, []) if run is not None and run.why is None else []


def _against(asked: Sequence[float], times: Sequence[float]) -> Ratio | None:
    if len(asked) != len(times) or len(times) < LEAST_ROUNDS or asked is times:
        return None
    return ratio(asked, times)
