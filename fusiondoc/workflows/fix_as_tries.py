"""``diagnose --try-fixes``: what ``fix`` tries of a run, as rows of the table of tries."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.errors import FusiondocError
from fusiondoc.model.fixes import Fixes, TriedFix, Version
from fusiondoc.model.runs import Try
from fusiondoc.runner.progress import ShowProgress, no_progress
from fusiondoc.workflows.fix import fix_target
from fusiondoc.workflows.fix_runs import FOLDER
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.run import Finished, Tell, tell_nobody
from fusiondoc.workflows.tries import ASKED, measured

MOST = 8
"""Changed programs that are run."""


def with_fixes(
    request: RunRequest, done: Finished, tell: Tell = tell_nobody, progress: ShowProgress = no_progress
) -> Finished:
    """The finished run with the changes to its program among its tries; its capture keeps them.

    A target that ``fix`` cannot change, such as a script, is told and left as it is.
    """
    if done.failed is not None or done.interrupted:
        return done
    try:
        place = Within(done.capture.path, f"{FOLDER}/unchanged")
        fixes = fix_target(request, place, most_tries=MOST, tell=tell, progress=progress).fixes
    except FusiondocError as error:
        tell(f"note: --try-fixes: {error.message}")
        return done
    rows = done.report.tries or (measured(ASKED, (), done.report, done.capture, done.failed),)
    done.capture.keep_tries((*rows, *as_tries(fixes)))
    if fixes.diff:
        tell(f"the changes as a diff: fusiondoc fix {request.target.text}")
    report = report_of(done.capture)
    return replace(done, report=report, interrupted=done.interrupted or fixes.interrupted)


def as_tries(fixes: Fixes) -> list[Try]:
    """A row for each change, made on top of those kept before it, which is the order of the rows."""
    return [_row(one) for one in fixes.tried]


def _row(one: TriedFix) -> Try:
    after: Version = one.after
    return Try(
        change=f"fix: {one.change}",
        codes=(),
        groups=after.groups,
        ops_fused=after.ops_fused,
        unfused=after.outside,
        fallbacks=after.fallbacks,
        gb_per_s=None,
        steady_seconds=None,
        exit=0 if after.problem is None else 3,
        problem=after.problem,
        wrong=len(after.wrong),
        speed=one.speed,
    )
