"""``survey --since``: the first day that the answers of a survey cover, as a date
or a commit."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.workflows.git_files import git

_DAY = re.compile(r"\d{4}-?\d\d-?\d\d\Z")
_COMMITTER = re.compile(rb"^committer .*> (\d{1,11}) [+-]\d{4}$", re.MULTILINE)


def day_of(text: str, folder: Path) -> str:
    """Return ``YYYY-MM-DD`` for a date, or the day (UTC) on which a commit was
    made.

    Args: text: a date, or a commit in any form that git accepts: a branch, a tag,
        ``HEAD~3``, digits. folder: a folder of the repository.

    Raises:
        UsageError: it is neither.
    """
    if _DAY.match(text):
        digits = text.replace("-", "")
        try:
            return date(
                int(digits[:4]), int(digits[4:6]), int(digits[6:])
            ).isoformat()
        except ValueError:
            raise UsageError(
                f"--since {text}: there is no such day", _EXAMPLES
            ) from None
    commit = None
    if not text.startswith("-"):
        commit = git(folder, "cat-file", "commit", text)
    found = _COMMITTER.search(commit) if commit is not None else None
    if found is None:
        raise UsageError(
            f"--since {text}: it is neither a date nor a commit of this repository",
            _EXAMPLES,
        )
    return datetime.fromtimestamp(int(found[1]), timezone.utc).date().isoformat()


_EXAMPLES = "For example: --since 2026-11-01, --since v1.2 or --since origin/main."
