"""The commit that lost a group, or broke an expectation: ``git bisect`` between the
last run before it and the first one after it, with ``fusiondoc check`` at each
commit.

The commits are checked out in a worktree of their own, so that the user's stays as
it is. The file of expectations is that of the user's worktree at each commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.history_answers import History
from fusiondoc.model.run_lines import BROKEN, HOLDS
from fusiondoc.workflows.git_files import changing_git, git

_OWN_COMMAND = "import sys; sys.path[:1] == [''] and sys.path.pop(0); from fusiondoc.cli import main; main()"
"""The command, without the current folder in ``sys.path``: a click.py of the
program must not be imported."""
_HOLDS, _BROKEN = 0, 1
"""Exit statuses of check; any other tells nothing about a commit."""
_FOUND = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit$", re.MULTILINE)


@dataclass(frozen=True)
class FoundCommit:
    """The commit that lost a group, or broke an expectation."""

    commit: str
    subject: str
    author: str
    day: str
    tried: int
    """Commits at which check was run."""

    @property
    def text(self) -> str:
        """A line for the user."""
        return f"{self.commit[:12]} {self.subject} ({self.author}, {self.day})\n"


def bisected(
    history: History,
    arguments: Sequence[str],
    notify: Callable[[str], None],
    folder: Path | None = None,
) -> FoundCommit:
    """Find the commit that caused the newest loss that still stands; without a
    loss, the newest broken expectation.

    Args:
        arguments: of ``fusiondoc check``: a target and ``--expect FILE``.
        notify: called with a line for each commit that was checked.
        folder: where check runs, in the repository; the current one by default.

    Raises: UsageError: there is neither, its commits are not known, or check has
        the same result at both. CannotRun: git fails.
    """
    folder = folder or Path.cwd()
    good, bad = _ends(history, folder)
    command = [
        sys.executable,
        "-c",
        _OWN_COMMAND,
        "check",
        *_at_any_commit(arguments, folder),
    ]
    below = (git(folder, "rev-parse", "--show-prefix") or b"").decode().strip()
    tried = 0

    def check(tree: Path) -> int:
        nonlocal tried
        tried += 1
        status = subprocess.run(
            command,
            cwd=tree / below,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        ).returncode
        here = (git(tree, "rev-parse", "HEAD") or b"").decode().strip()
        notify(
            f"{here[:12]} {_subject(tree, here)}: {_WORDS.get(status, f'status {status}, skipped')}"
        )
        _clean(tree)
        return status

    with _worktree(folder, bad) as tree:
        for commit, wanted in ((bad, _BROKEN), (good, _HOLDS)):
            _git(tree, "checkout", "--quiet", "--detach", commit)
            status = check(tree)
            if status != wanted:
                raise UsageError(
                    f"check ends with status {status} at {commit[:12]}, and {wanted} is needed to bisect",
                    "The expectations must hold before the loss and be broken after it: try check at both.",
                )
        output = _git(tree, "bisect", "start", bad, good)
        while (found := _FOUND.search(output)) is None:
            word = {_HOLDS: "good", _BROKEN: "bad"}.get(check(tree), "skip")
            output = _git(tree, "bisect", word)
        return _described(tree, found[1], tried)


def _clean(tree: Path) -> None:
    """Undo what the program wrote in the worktree: a tracked file that it changed
    (``__pycache__``, say) would block the next checkout."""
    _git(tree, "reset", "--quiet", "--hard")
    _git(tree, "clean", "-ffdxq")


_WORDS = {_HOLDS: "holds", _BROKEN: "broken"}


def _ends(history: History, folder: Path) -> tuple[str, str]:
    """The commits before and after the loss, or the first broken expectation."""
    lost = [(one.date, one.last_commit, one.commit) for one in history.still_lost]
    changes = sorted(lost or first_broken(history), key=lambda one: one[0])
    if not changes:
        raise UsageError(
            "no group is lost, and no model is broken that held before: there is nothing to bisect",
            "fusiondoc history lists all.",
        )
    _, good, bad = changes[-1]
    if good is None or bad is None or good == bad:
        raise UsageError(
            "the runs before and after the loss are not of two known commits",
            "Runs know their commit where the program is in a git repository.",
        )
    for commit in (good, bad):
        if git(folder, "cat-file", "commit", commit) is None:
            raise UsageError(
                f"this repository has no commit {commit}",
                "Run it in the program's, with its whole history.",
            )
    return good, bad


def first_broken(history: History) -> Iterator[tuple[str, str | None, str | None]]:
    """For each model that is broken now: date of its first broken run, commit of
    the last run before that in which all held, and commit of the broken run."""
    for model in history.models:
        held = []
        for number, run in enumerate(model.runs):
            if run.status == HOLDS:
                held.append(number)
        if held and model.runs[-1].status == BROKEN:
            broken = next(
                run for run in model.runs[held[-1] :] if run.status == BROKEN
            )
            yield broken.date, model.runs[held[-1]].commit, broken.commit


def _at_any_commit(arguments: Sequence[str], folder: Path) -> list[str]:
    """The arguments with the absolute path of the file of expectations, so that it
    is the same at each commit."""
    made = list(arguments)
    for number, argument in enumerate(made):
        name, sign, value = argument.partition("=")
        if name == "--expect" and sign:
            made[number] = f"--expect={folder / value}"
        elif name == "--expect" and number + 1 < len(made):
            made[number + 1] = str(folder / made[number + 1])
    return made


@contextmanager
def _worktree(folder: Path, commit: str) -> Iterator[Path]:
    """Context manager: a temporary worktree of the repository."""
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as above:
        tree = Path(above) / "tree"
        _git(folder, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git(folder, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str) -> str:
    done = changing_git(folder, *arguments)
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())[:300]
        raise CannotRun(
            f"the command git {arguments[0]} failed: {why}",
            "Run git bisect by hand with fusiondoc check.",
        )
    return done.stdout


def _subject(folder: Path, commit: str) -> str:
    text = (git(folder, "cat-file", "commit", commit) or b"").decode(
        "utf-8", "replace"
    )
    return text.partition("\n\n")[2].partition("\n")[0]


def _described(folder: Path, commit: str, tried: int) -> FoundCommit:
    text = (git(folder, "cat-file", "commit", commit) or b"").decode(
        "utf-8", "replace"
    )
    author = re.search(r"^author (.*) <.*> (\d{1,11}) ", text, re.MULTILINE)
    name, day = ("", "") if author is None else (author[1], _day(int(author[2])))
    return FoundCommit(commit, _subject(folder, commit), name, day, tried)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()
