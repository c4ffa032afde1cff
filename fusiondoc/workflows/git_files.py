"""A file's content and state in git, read without running anything that the
repository names.

A repository's ``.git/config`` and ``.gitattributes`` name commands: filters,
``textconv`` and external diff drivers, hooks, ``core.fsmonitor``, and remotes from
which missing objects are fetched. Git has no switch that leaves all of that
configuration out, so only commands that read objects and the index are used:
``rev-parse``, ``ls-files``, ``check-ignore``, ``cat-file``. None of them looks at
the content of the working tree, which is where filters and drivers run. The
comparison with the working tree is made here. ``changing_git`` is the exception,
for ``history --bisect``, which checks out commits and runs their programs.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fusiondoc.whole_files import read_within

_SECONDS = 30

_READ_ONLY = (
    *("git", "--no-pager", "--no-optional-locks", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
)
_NO_TRANSPORT = {
    # git would fetch a missing object from a remote, with a command that the
    # remote's configuration may name.
    "GIT_ALLOW_PROTOCOL": "",  # none, whatever the configuration allows (git(1), GIT_ALLOW_PROTOCOL)
    "GIT_NO_LAZY_FETCH": "1",  # git versions that know it do not even try
    "GIT_TERMINAL_PROMPT": "0",
}


def git(folder: Path, *arguments: str) -> bytes | None:
    """The output of git in a folder; None if it fails or is not installed. Nothing
    else starts git.

    Args: arguments: a command that does not read the content of the working tree
        (see above).
    """
    try:
        done = subprocess.run(
            [*_READ_ONLY, *arguments],
            cwd=str(folder),
            env={**os.environ, **_NO_TRANSPORT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return done.stdout
    return None


def changing_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a git command that checks out files, in English and without hooks.

    Only for a command with which the user requests it: filters of the repository
    run, as in every checkout.
    """
    return subprocess.run(
        ["git", "--no-pager", "-c", f"core.hooksPath={os.devnull}", *arguments],
        cwd=str(folder),
        env={**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def uncommitted(path: Path) -> set[int]:
    """Lines of a file, from 1, that differ from its last committed version.

    None where there is no git or no repository, or where git ignores the file. All
    lines where git has no committed version. A filter that changes a file on its
    way into git (such as ``filter=lfs``) is not run, so lines that it would change
    count as not committed; ends of lines do not count.
    """
    folder = path.parent
    if git(folder, "rev-parse", "--is-inside-work-tree") is None:
        return set()
    now = _lines(read_within(path))
    if git(folder, "ls-files", "--error-unmatch", "--", path.name) is None:
        ignored = git(folder, "check-ignore", "-q", "--", path.name) is not None
        if ignored:
            return set()
        return set(range(1, len(now) + 2))
    committed = git(folder, "cat-file", "blob", f"HEAD:./{path.name}")
    if committed is None:
        return set(range(1, len(now) + 2))
    return _changed_lines(_lines(committed), now)


def _lines(data: bytes) -> list[bytes]:
    """Without their ends, which git may change on checkout (``core.autocrlf``)."""
    return [line.rstrip(b"\r") for line in data.split(b"\n")]


_MOST_LINES_EXACT = 5000
"""Most lines for an exact diff; above, repeated lines are not compared singly,
which takes quadratic time."""


def _changed_lines(before: Sequence[bytes], after: Sequence[bytes]) -> set[int]:
    """Lines of ``after``, from 1, that are new or changed."""
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while (
        last < min(len(before), len(after)) - first
        and before[-1 - last] == after[-1 - last]
    ):
        last += 1
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    many = max(len(old), len(new)) > _MOST_LINES_EXACT
    changed: set[int] = set()
    for kind, _, _, start, end in difflib.SequenceMatcher(
        None, old, new, autojunk=many
    ).get_opcodes():
        if kind != "equal":
            changed |= set(range(first + start + 1, first + end + 1))
    return changed
