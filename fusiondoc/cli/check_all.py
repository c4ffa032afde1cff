"""``fusiondoc check`` without a target: every section of the file, one table and
one exit status."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from fusiondoc.cli.output import (
    annotate_github,
    format_of,
    in_colour,
    in_github,
    notify,
    write,
)
from fusiondoc.errors import FINDINGS_FOUND, UsageError
from fusiondoc.model import count

if TYPE_CHECKING:
    from fusiondoc.expectations import Expectations, ExpectationSection
    from fusiondoc.model.checked_models import CheckedModels


def check_all(
    expectations: Expectations,
    sections: Sequence[ExpectationSection],
    *,
    python: Path | str | None,
    workers: int | None,
    cache: Path | None,
    changed_since: str | None,
    format_: str | None,
    output: Path | None,
    history: Path | None,
) -> int:
    """Check the sections, print the result, and return the exit status of the
    worst.

    Args:
        cache: the folder of kept results; None for a check without them.
        changed_since: a commit; runs unaffected by changes since then are skipped.
    """
    from fusiondoc.cli.config import without_suppressed
    from fusiondoc.reports.checked_models_documents import FORMATS, render
    from fusiondoc.workflows.changed_sections import ChangedSections
    from fusiondoc.workflows.check_cache import CheckCache
    from fusiondoc.workflows.check_models import check_models
    from fusiondoc.workflows.lines_of_runs import append_lines, lines_of_check

    wanted = format_of(format_, output)
    if wanted not in FORMATS:
        raise UsageError(
            f"there is no format '{wanted}' of a check of many models",
            f"Known: {', '.join(FORMATS)}.",
        )
    results = CheckCache(cache, dict(os.environ)) if cache is not None else None
    since = None
    if changed_since is not None:
        today = datetime.now(timezone.utc).date()
        since = ChangedSections(changed_since, expectations, results, today)
    checked = check_models(
        expectations,
        sections,
        python=str(python or sys.executable),
        workers=workers or os.cpu_count() or 1,
        cache=results,
        since=since,
        suppress=without_suppressed,
        notify=notify,
    )
    width = shutil.get_terminal_size((80, 24)).columns
    write(render(checked, wanted, width=width, colour=in_colour(output)), output)
    _summarise(checked, output)
    if history is not None:
        append_lines(history, lines_of_check(checked))
    if not checked.ran_any:
        raise UsageError(
            f"no section of {expectations.file} is for this machine",
            "The table has the reason for each; run.target of a section names its model.",
        )
    return checked.exit_status


def check_file(
    expectations: Expectations, sections: Sequence[ExpectationSection]
) -> int:
    """Check everything that needs no run, print the errors, and return the exit
    status."""
    from fusiondoc.expectations.policy import notes_on_exceptions
    from fusiondoc.workflows.expectations_without_run import problems_without_run

    for note in notes_on_exceptions(
        expectations, datetime.now(timezone.utc).date()
    ):
        notify(f"note: {note}")
    problems = problems_without_run(expectations, sections)
    for problem in problems:
        notify(problem)
    if not problems:
        notify(
            f"{expectations.file}: {count(len(sections), 'section')}, nothing wrong; no model was run"
        )
    if problems:
        return FINDINGS_FOUND
    return 0


def _summarise(checked: CheckedModels, output: Path | None) -> None:
    """Print the result for the log of a CI job if the full result goes to a file,
    and write the summary of GitHub Actions."""
    from fusiondoc.reports.checked_models_documents import as_markdown
    from fusiondoc.views.checked_models_sections import verdict
    from fusiondoc.views.losses_in_sentences import expected_and_found

    if output is not None:
        for model in checked.models:
            for row in model.expectations:
                if not row.holds:
                    notify(f"BROKEN {model.section}: {expected_and_found(row)}")
        notify(verdict(checked))
    if in_github():
        from fusiondoc.reports.code_annotations import github_of_models

        reports = []
        for model in checked.models:
            if model.report is not None:
                reports.append(model.report)
        annotate_github(github_of_models(reports), as_markdown(checked))


def folder_of_results(named: Path | None, without: bool) -> Path | None:
    """The folder for results of unchanged models: that of --cache, else one beside
    the captures; None for --no-cache."""
    from fusiondoc.captures.store import CaptureStore

    if without:
        return None
    return named or CaptureStore().folder / "checked"


def chosen_sections(
    expectations: Expectations, names: Sequence[str], patterns: Sequence[str]
) -> tuple[ExpectationSection, ...]:
    """The sections selected by ``--section NAME`` and ``--only PATTERN``; all
    without these options.

    Raises:
        UsageError: a pattern matches no section.
    """
    sections = expectations.sections
    if names:
        sections = tuple(section for section in sections if section.name in names)
    for pattern in patterns:
        if not any(fnmatchcase(section.name, pattern) for section in sections):
            known = ", ".join(section.name for section in sections[:10])
            raise UsageError(
                f"--only {pattern}: no section has such a name",
                f"There are: {known}",
            )
    if patterns:
        fits = []
        for section in sections:
            fits.append(
                any(fnmatchcase(section.name, pattern) for pattern in patterns)
            )
        sections = tuple(section for section, does in zip(sections, fits) if does)
    return sections
