"""``check`` without a target: every section of a file, its models run in workers
side by side.

Each worker is a process that runs one model after the other; the models' own
processes are forks of one that has imported torch, where nothing that a program
sees differs (``runner/fork_servers.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

from fusiondoc import captures
from fusiondoc.captures.commit import commit_of
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import (
    FINDINGS_FOUND,
    INTERRUPTED,
    OWN_FAULT,
    CannotRun,
    FusiondocError,
)
from fusiondoc.expectations import Expectations, ExpectationSection
from fusiondoc.expectations.applies import why_not
from fusiondoc.expectations.policy import gate_with_policy, notes_on_exceptions
from fusiondoc.model import dataclass
from fusiondoc.model.checked_models import (
    SCHEMA,
    CheckedModel,
    CheckedModels,
    CheckOutcome,
)
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Expectation
from fusiondoc.runner.fork_servers import start_from_forks
from fusiondoc.workflows.changed_sections import ChangedSections, Standing
from fusiondoc.workflows.check_cache import CachedReport, CheckCache, why_not_kept
from fusiondoc.workflows.check_jobs import Job, NoJob, jobs_of, target_of
from fusiondoc.workflows.lines_of_runs import now
from fusiondoc.workflows.run import FollowUps, Notify, diagnose_target, silent
from fusiondoc.workflows.survey_engines import Local


@dataclass(frozen=True)
class RunResult:
    """The result of a job: a report, or the error that prevented one."""

    report: Report | None = None
    exit_status: int = 0
    why: str | None = None
    hint: str | None = None
    seconds: float | None = None
    cached_from: str | None = None
    not_cached: str | None = None


Suppress = Callable[[Report], Report]
"""Removes the findings that the configuration and comments suppress."""


def check_models(
    expectations: Expectations,
    sections: Sequence[ExpectationSection],
    *,
    python: str,
    workers: int,
    cache: CheckCache | None = None,
    since: ChangedSections | None = None,
    suppress: Suppress = lambda report: report,
    notify: Notify = silent,
) -> CheckedModels:
    """Run the models of some sections of a file and compare the results with the
    sections.

    Args: python: the interpreter of sections that name none. workers: how many
        models run at a time. cache: where results are kept; None disables the
        cache. since: the changes since a commit; unaffected runs are skipped. None
        skips none.
    """
    began, started = time.perf_counter(), now()
    today = date.fromisoformat(started[:10])
    planned = jobs_of(expectations, sections, python)
    rows: dict[str, CheckedModel] = {}
    needed: list[tuple[Job, Standing]] = []
    for job in planned:
        if isinstance(job, NoJob):
            rows[_key(job.section)] = _without_run(job)
            continue
        standing = since.standing(job) if since is not None else _ALWAYS
        if standing.needed:
            needed.append((job, standing))
        else:
            for section in job.sections:
                rows[_key(section)] = _left_out(section, standing)
    captures.set_by_option(
        captures.LAST, str(max(captures.number_kept(), len(needed)))
    )
    workers = max(1, min(workers, len(needed)))
    for number, result in _results([job for job, _ in needed], workers, cache):
        job, standing = needed[number]
        if result.report is not None:
            result = replace(result, report=suppress(result.report))
        for section in job.sections:
            row = _checked(section, job, result, expectations, today)
            row = replace(row, changed=standing.why)
            rows[_key(section)] = row
            notify(_progress(row, len(rows), len(sections)))
    return CheckedModels(
        schema=SCHEMA,
        file=expectations.file,
        date=started,
        commit=commit_of(Path.cwd()),
        seconds=round(time.perf_counter() - began, 3),
        workers=workers,
        changed_since=since.commit if since is not None else None,
        models=tuple(rows[_key(section)] for section in sections),
        notes=tuple(notes_on_exceptions(expectations, today)),
    )


_ALWAYS = Standing(True, None)
"""Without ``since`` every run is needed."""


def _left_out(section: ExpectationSection, standing: Standing) -> CheckedModel:
    return CheckedModel(
        section.name,
        target_of(section),
        CheckOutcome.UNCHANGED,
        0,
        why=standing.why,
    )


def _key(section: ExpectationSection) -> str:
    """Return a key that is unique for each section of a file."""
    return repr(section.path)


def _progress(row: CheckedModel, number: int, total: int) -> str:
    return f"[{number}/{total}] {row.section}: {row.outcome.value}"


def _results(
    jobs: Sequence[Job], workers: int, cache: CheckCache | None
) -> Iterable[tuple[int, RunResult]]:
    """Yield the index and the result of each job as soon as it is finished."""
    by_number = dict(enumerate(jobs))
    engine = Local(workers)
    chunks = [[number] for number in by_number]
    for outcome in engine.outcomes(partial(_run_some, by_number, cache), chunks):  # type: ignore[arg-type]
        (number,) = outcome.chunk
        assert isinstance(number, int)
        if outcome.made is None:
            yield (
                number,
                RunResult(
                    exit_status=OWN_FAULT, why="the process that ran it was ended"
                ),
            )
        else:
            yield number, outcome.made[0]


def _run_some(
    jobs: dict[int, Job], cache: CheckCache | None, numbers: Sequence[int]
) -> list[RunResult]:
    """The results of some jobs, in a worker."""
    start_from_forks()
    return [run_job(jobs[number], cache) for number in numbers]


def run_job(job: Job, cache: CheckCache | None = None) -> RunResult:
    """Return the kept result of a model, or run it; the result of a run is kept if
    everything that it depends on is known."""
    try:
        kept = None
        if cache is not None and not job.profile:
            kept = cache.get(job.request, job.files)
        if kept is not None:
            return RunResult(kept.report, cached_from=kept.date)
        return _run_now(job, cache)
    except FusiondocError as error:
        return _failed(error, job)


def _run_now(job: Job, cache: CheckCache | None) -> RunResult:
    began, date = time.time(), now()
    follow_ups = FollowUps(rerun=True, profile=job.profile)
    request = replace(job.request, record_inputs=cache is not None)
    done = diagnose_target(request, CaptureStore(), follow_ups=follow_ups)
    if done.interrupted:
        return RunResult(exit_status=INTERRUPTED, why="interrupted")
    if done.failed is not None:
        return replace(_failed(done.failed, job), report=done.report)
    seconds = round(time.time() - began, 3)
    if cache is None:
        return RunResult(done.report, seconds=seconds)
    inputs = done.capture.records.inputs
    why_not = _TIMES if job.profile else why_not_kept(inputs)
    if why_not is None and inputs is not None:
        cache.put(
            job.request, job.files, inputs, CachedReport(done.report, date), began
        )
    return RunResult(done.report, seconds=seconds, not_cached=why_not)


_TIMES = "its step is timed"


def _failed(error: FusiondocError, job: Job) -> RunResult:
    status = error.exit_code
    if isinstance(error, CannotRun) and job.optional:
        status = 0  # its section is for machines that have the fuser
    return RunResult(exit_status=status, why=error.message, hint=error.hint)


def _without_run(job: NoJob) -> CheckedModel:
    """The row of a section that has no run."""
    section, error = job.section, job.error
    if error is None:
        return CheckedModel(
            section.name, target_of(section), CheckOutcome.NOT_RUN, 0, why=job.why
        )
    return CheckedModel(
        section.name,
        target_of(section),
        CheckOutcome.FAILED,
        error.exit_code,
        why=job.why,
        hint=error.hint,
    )


def _checked(
    section: ExpectationSection,
    job: Job,
    result: RunResult,
    expectations: Expectations,
    today: date,
) -> CheckedModel:
    """The row of a section whose model was run."""
    name, target = section.name, job.request.target.text
    report = result.report
    if result.why is not None or report is None:
        if result.exit_status:
            outcome = CheckOutcome.FAILED
        else:
            outcome = CheckOutcome.NOT_RUN
        return CheckedModel(
            name,
            target,
            outcome,
            result.exit_status,
            why=result.why,
            hint=result.hint,
        )
    other = why_not(replace(section.when, target=()), report)
    if other is not None:
        return CheckedModel(name, target, CheckOutcome.NOT_RUN, 0, why=other)
    return _held(
        section,
        target,
        result,
        gate_with_policy(section, expectations, report, today),
    )


def _held(
    section: ExpectationSection,
    target: str,
    result: RunResult,
    rows: Sequence[Expectation],
) -> CheckedModel:
    """The row of a section that was compared with a report."""
    report = result.report
    assert report is not None
    lost = sum(not row.holds for row in rows)
    return CheckedModel(
        section=section.name,
        target=target,
        outcome=CheckOutcome.BROKEN if lost else CheckOutcome.HOLDS,
        exit_status=FINDINGS_FOUND if lost else 0,
        held=len(rows) - lost,
        lost=lost,
        groups=sum(
            group.count for group in report.groups if group.respecialises is None
        ),
        coverage=report.coverage.fraction,
        fallbacks=report.times_fallen_back,
        step_ms=report.steps.ms if report.steps is not None else None,
        fuser=report.fuser.effective,
        torch=report.environment.get("torch"),
        seconds=result.seconds,
        cached_from=result.cached_from,
        not_cached=result.not_cached,
        capture=report.target.capture,
        expectations=tuple(rows),
        report=replace(report, expectations=tuple(rows)),
    )
