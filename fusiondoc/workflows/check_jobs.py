"""The runs that the sections of a file of expectations need: sections with the same
run share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.request import RunRequest, TargetSpec, parse_target
from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.expectations import Expectations, ExpectationSection, StepLimits
from fusiondoc.expectations.applies import version_fits
from fusiondoc.fusers import requests
from fusiondoc.model import dataclass
from fusiondoc.runner.interpreter import find_python, inspect


@dataclass(frozen=True)
class Job:
    """A run and the sections that it is for."""

    request: RunRequest
    profile: bool
    """True if a section limits times of a step: then a profiled run follows."""
    sections: tuple[ExpectationSection, ...]
    files: tuple[str, ...] = ()
    """Patterns of further files that its result depends on, as the sections name
    them."""
    optional: bool = False
    """The fuser is a condition of the section: if it is not available, the section
    is for other machines."""


@dataclass(frozen=True)
class NoJob:
    """A section without a run: it is for another machine, or cannot be run as
    written (``error``)."""

    section: ExpectationSection
    why: str
    error: FusiondocError | None = None


def target_of(section: ExpectationSection) -> str | None:
    """The target of a section: that of ``run``, else that of ``when``."""
    if section.run.target is not None:
        return section.run.target
    if section.when.target:
        return section.when.target[0]
    return None


def jobs_of(
    expectations: Expectations, sections: Sequence[ExpectationSection], python: str
) -> list[Job | NoJob]:
    """The runs for some sections of a file, in their order, and the sections
    without one.

    Args:
        python: the interpreter of sections that name none.
    """
    jobs: dict[int, Job] = {}
    found: list[Job | NoJob] = []
    for section in sections:
        job = _job(section, expectations, python)
        if isinstance(job, NoJob):
            found.append(job)
            continue
        same = None
        for number, other in jobs.items():
            if _is_same_run(job, other):
                same = number
                break
        if same is None:
            jobs[len(found)] = job
            found.append(job)
        else:
            found[same] = jobs[same] = _joined(jobs[same], job)
    return found


def _job(
    section: ExpectationSection, expectations: Expectations, python: str
) -> Job | NoJob:
    text = target_of(section)
    if text is None:
        return NoJob(section, "it names no target")
    try:
        interpreter = find_python(section.run.python or python)
        torch = inspect(interpreter).torch
        wanted = section.when.torch
        if wanted is not None and (
            torch is None or not version_fits(torch, wanted)
        ):
            return NoJob(
                section,
                f"it is for torch {wanted}, and torch is {torch or 'missing'}",
            )
        target = parsed_target(text, Path(expectations.file))
        fuser, optional = _fuser(section)
        options = dict(section.run.options)
        if fuser is not None:
            options["fuser"] = fuser
        request = RunRequest(target=target, python=interpreter, **options)
        request.check()
    except FusiondocError as error:
        return NoJob(section, error.in_one_line, error)
    policy = expectations.policy
    limits_times = policy is not None and policy.limits_times
    profile = limits_times or section.steps != StepLimits()
    return Job(request, profile, (section,), section.run.files, optional)


def parsed_target(text: str, file: Path) -> TargetSpec:
    """Parse a target, relative to the current folder, else to the folder of the
    file of expectations.

    Raises:
        UsageError: it is no target, or its file does not exist.
    """
    try:
        return parse_target(text)
    except UsageError:
        folder = file.resolve().parent
        if folder == Path.cwd():
            raise
        return parse_target(text, folder)


def _fuser(section: ExpectationSection) -> tuple[str | None, bool]:
    """Return the fuser that a section requests, and whether it is only a condition
    (``when``)."""
    if "fuser" in section.run.options:
        return None, False
    named = section.when.fuser
    if len(named) == 1 and named[0] in requests():
        return named[0], True
    return None, False


def _is_same_run(first: Job, second: Job) -> bool:
    return (first.request, first.optional) == (second.request, second.optional)


def _joined(first: Job, second: Job) -> Job:
    """Return one run for the sections of both."""
    return replace(
        first,
        profile=first.profile or second.profile,
        sections=(*first.sections, *second.sections),
        files=tuple(dict.fromkeys((*first.files, *second.files))),
    )
