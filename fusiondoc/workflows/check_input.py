"""Telling a TARGET from a LOG, and the report of either."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

import click

from fusiondoc.captures.target import ARCHIVE_ENDINGS
from fusiondoc.errors import UsageError
from fusiondoc.model.report import Report

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
_ENDINGS = "|".join(map(re.escape, ARCHIVE_ENDINGS))
_FILE = re.compile(rf"(\.py|{_ENDINGS})(:[^/\\]*)?\Z", re.IGNORECASE)


def is_target(argument: str) -> bool:
    """Whether the argument of ``check`` is a model to run, by its form alone but for one case.

    ``FILE.py``, ``FILE.py:NAME``, ``FILE.pt`` and ``package.module:NAME`` are; all else is a log. An existing
    file or folder of the form ``module:NAME`` is a log, and so is a folder of any name.
    """
    path = Path(argument)
    if path.is_dir():
        return False
    if _FILE.search(argument):
        return True
    if _MODULE.match(argument) is None:
        return False
    if path.exists():
        click.echo(
            f"note: '{argument}' is read as a log, because there is such a file; for the module, run from"
            " another folder",
            err=True,
        )
        return False
    return True


def report_of_logs(arguments: Sequence[str], given: Sequence[str], peak: float | None) -> Report:
    """The report of logs, captures, or the newest capture; ``given`` are run options, which fit none."""
    from fusiondoc.workflows.load import report_from

    if given:
        what = f"'{arguments[0]}' is a log" if arguments else "without a TARGET the newest capture is read"
        raise UsageError(
            f"{given[0]} says how to run a model, but {what}",
            "A TARGET is FILE.py, FILE.py:NAME, package.module:NAME or FILE.pt.",
        )
    try:
        return report_from(arguments, peak)
    except UsageError as error:
        if arguments and not any(Path(one).exists() for one in arguments if one != "-"):
            raise UsageError(
                f"'{arguments[0]}' is neither a log that exists nor a target (FILE.py, FILE.py:NAME,"
                " package.module:NAME, FILE.pt)",
                error.hint,
            ) from None
        raise
