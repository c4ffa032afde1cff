"""``fix --apply``: the changed files written, with a backup beside each.

Nothing is written unless everything can be: files inside the project only, unchanged since they were read,
without uncommitted changes of the user's on the lines that change.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterable, Sequence

from fusiondoc.captures.kept_files import project_root
from fusiondoc.errors import UsageError
from fusiondoc.fixes.edits import Edit, read_text
from fusiondoc.whole_files import write_whole
from fusiondoc.workflows.fix import ChangedFile

_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.M)
_GIT = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks", "--literal-pathspecs")
"""No command that the repository's configuration names is run."""


def apply(files: Sequence[ChangedFile], cwd: Path, force: bool) -> list[tuple[Path, Path]]:
    """Write the files; returns (file, backup) of each.

    Raises:
        UsageError: a file is outside the project, has changed meanwhile, has uncommitted changes on these
            lines (``force`` writes all the same), or cannot be written.
    """
    root = project_root(cwd)
    for one in files:
        _check(one, root, force)
    written: list[tuple[Path, Path]] = []
    path = root
    try:
        for one in files:
            path = one.source.path
            written.append((path, _backup(path)))
            write_whole(path, one.source.bytes_of(one.text))
    except BaseException as error:  # a signal too: all files or none
        for changed, backup in written:
            _put_back(changed, backup)
        if isinstance(error, (OSError, UnicodeEncodeError)):
            raise UsageError(
                f"{path} cannot be written: {error}; no file was changed",
                "The diff on stdout can be applied by hand: patch -p1",
            ) from None
        raise
    return written


def _put_back(path: Path, backup: Path) -> None:
    with contextlib.suppress(OSError):
        data = backup.read_bytes()
        if path.read_bytes() != data:
            write_whole(path, data)
        backup.unlink()


def _check(one: ChangedFile, root: Path, force: bool) -> None:
    path = one.source.path
    if root not in path.resolve().parents:
        raise UsageError(
            f"{path} is outside the project {root}",
            "Run it from the folder of that project, or apply the diff.",
        )
    if read_text(path) != one.source:
        raise UsageError(f"{path} has changed since it was read", "Run it again.")
    if force:
        return
    mine = uncommitted(path)
    lines = sorted({line for edit in one.edits for line in _lines(one.source.text, edit)} & mine)
    if lines:
        shown = ", ".join(map(str, lines[:5])) + (" ..." if len(lines) > 5 else "")
        raise UsageError(
            f"{path} has changes that are not committed on the lines that would change ({shown})",
            "Commit them first, or write over them with --force (a backup is kept).",
        )


def _lines(text: str, edit: Edit) -> Iterable[int]:
    """The lines that an edit touches, from 1; none of an insertion between two lines."""
    first = text.count("\n", 0, edit.start) + 1
    if edit.start == edit.end and (edit.start == 0 or text[edit.start - 1] == "\n"):
        return ()
    return range(first, text.count("\n", 0, edit.end) + 2)


def uncommitted(path: Path) -> set[int]:
    """Lines of a file that git knows no committed version of; none where there is no git or no repository."""
    told = _git(path, "ls-files", "--error-unmatch", "--", path.name)
    inside = _git(path, "rev-parse", "--is-inside-work-tree")
    if inside is None:
        return set()
    if told is None:
        ignored = _git(path, "check-ignore", "-q", "--", path.name) is not None
        return set() if ignored else set(range(1, path.read_bytes().count(b"\n") + 2))
    diff = _git(path, "diff", "-U0", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--", path.name)
    found: set[int] = set()
    for start, count in _HUNK.findall(diff or ""):
        found |= set(range(int(start), int(start) + int(count or 1)))
    return found


def _git(path: Path, *arguments: str) -> str | None:
    """What git says in the folder of the file; None if it fails or is not there."""
    try:
        done = subprocess.run(
            [*_GIT, *arguments], cwd=str(path.parent), capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _backup(path: Path) -> Path:
    """A copy of the file under a name that nothing has yet: model.py.before-fix, model.py.before-fix-2 ...

    A link of that name, which may lead anywhere, is something too.
    """
    data = path.read_bytes()
    number = 1
    while True:
        beside = path.with_name(path.name + ".before-fix" + (f"-{number}" if number > 1 else ""))
        try:
            file = beside.open("xb")
        except FileExistsError:
            number += 1
            continue
        try:
            with file:
                file.write(data)
            shutil.copystat(path, beside)
        except BaseException:
            beside.unlink()
            raise
        return beside
