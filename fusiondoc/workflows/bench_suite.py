"""``fusiondoc bench --suite``: each case of a suite as a bench of its own, one
after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.request import parse_target
from fusiondoc.errors import CannotRun, FusiondocError, ModelFailed
from fusiondoc.model import dataclass
from fusiondoc.model.bench import Suite, SuiteCase
from fusiondoc.runner.interpreter import find_python, inspect
from fusiondoc.suites import Case, SuitePlan
from fusiondoc.workflows.bench import run_bench
from fusiondoc.workflows.bench_turns import BenchProgress, BenchRequest

ROUND_SECONDS = 0.05
"""Seconds of a round: shorter than in a single bench, as there are many cases."""


@dataclass(frozen=True)
class SuiteRequest:
    """The cases to run and how.

    Attributes: patterns: which cases, all if empty (``SuitePlan.chosen``). small:
        the small sizes; None: where no GPU is seen. bench: interpreters, variants,
        rounds and so on; target and inputs are those of each case.
    """

    plan: SuitePlan
    bench: BenchRequest
    patterns: tuple[str, ...] = ()
    small: bool | None = None


def run_suite(
    request: SuiteRequest,
    progress: Callable[[], AbstractContextManager[BenchProgress]],
) -> Suite:
    """Run the cases one after the other.

    A case that cannot run, or fails in every variant, is in the result with its
    reason. An interruption ends the suite; cases and rounds that were done until
    then are in the result.

    Raises:
        UsageError: wrong usage.
        KeyboardInterrupt: the user stopped it before anything was measured.
        CannotRun: no case can run, for the reason of the first.
    """
    if request.small is not None:
        small = request.small
    else:
        small = not _sees_gpu(request.bench)
    cases = request.plan.chosen(request.patterns, small)
    request.bench.check()
    done: list[SuiteCase] = []
    failures: list[FusiondocError] = []
    interrupted = False
    with progress() as bar:
        for number, case in enumerate(cases):
            progress_of_case = _CaseProgress(
                bar,
                f"{case.name} ({number + 1} of {len(cases)})",
                number,
                len(cases),
            )
            try:
                bench = run_bench(
                    _bench_of(case, request.bench), progress_of_case.itself
                )
            except KeyboardInterrupt:
                if not done:
                    raise
                interrupted = True
                break
            except (CannotRun, ModelFailed) as error:
                failures.append(error)
                done.append(SuiteCase(case.block, case.sizes, None, str(error)))
                continue
            done.append(SuiteCase(case.block, case.sizes, bench))
            interrupted = bench.interrupted
            if interrupted:
                break
    if failures and all(name.bench is None for name in done):
        raise failures[0]
    return Suite(
        request.plan.name,
        small,
        tuple(done),
        request.plan.published,
        request.plan.why_different,
        interrupted,
    )


def _sees_gpu(request: BenchRequest) -> bool:
    """True if the inputs will be on a GPU, found without importing torch."""
    if request.device is not None:
        return not request.device.startswith("cpu")
    builds = [inspect(find_python(path)).torch_cuda for path in request.pythons]
    return any(builds) and Path("/dev/nvidiactl").exists()


def _bench_of(case: Case, request: BenchRequest) -> BenchRequest:
    return replace(
        request,
        target=parse_target(case.target),
        inputs=case.inputs,
        random_sizes=case.random,
        round_seconds=ROUND_SECONDS,
        # There are many cases: a second process for each, with its own warm-up,
        # needs --processes.
        processes=1 if request.processes is None else request.processes,
    )


class _CaseProgress:
    """Shows the progress of a bench as a part of the suite's."""

    def __init__(
        self, bar: BenchProgress, name: str, before: int, cases: int
    ) -> None:
        self._bar = bar
        self._name = name
        self._before = before
        self._cases = cases

    @contextlib.contextmanager
    def itself(self) -> Iterator[BenchProgress]:
        yield self

    def say(self, doing: str, done: int, total: int) -> None:
        share = 100_000 // self._cases
        part = share * done // total if total else 0
        self._bar.say(
            f"{self._name}, {doing}",
            share * self._before + part,
            share * self._cases,
        )
