"""The commit of the user's program in a run, read from its repository's own files.
Git is not started: the configuration of a repository can name programs that git
runs."""

from __future__ import annotations

import re
from pathlib import Path

from fusiondoc.whole_files import read_within

_MOST_BYTES = 4 << 20
"""Most bytes of ``packed-refs``; larger files, of very large repositories, are not
read."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_BRANCH = re.compile(r"ref: (refs/[\w./+@-]{1,200})\Z")
SHOWN = 12
"""Number of digits that are shown of a commit."""


def commit_of(folder: Path) -> str | None:
    """The first digits of the commit that is checked out around a folder; None
    without a repository. Uncommitted changes are ignored."""
    try:
        for above in (folder, *folder.parents):
            if (above / ".git").exists():
                found = _head(_repository(above / ".git"))
                if found is None:
                    return None
                return found[:SHOWN]
    except (OSError, ValueError):
        return None
    return None


def _repository(path: Path) -> Path:
    """The folder of a repository; in a further work tree it is named in a file."""
    if path.is_dir():
        return path
    text = read_within(path, 4096).decode().strip()
    if text.startswith("gitdir: "):
        return path.parent / text[len("gitdir: ") :]
    return path


def _head(folder: Path) -> str | None:
    head = read_within(folder / "HEAD", 4096).decode().strip()
    if _COMMIT.match(head):
        return head
    branch = _BRANCH.match(head)
    if branch is None or ".." in branch.group(1):
        return None
    common = folder
    if (folder / "commondir").is_file():
        common = folder / read_within(folder / "commondir", 4096).decode().strip()
    for above in (folder, common):
        if (above / branch.group(1)).is_file():
            text = read_within(above / branch.group(1), 4096).decode().strip()
            if _COMMIT.match(text):
                return text
            return None
    if not (common / "packed-refs").is_file():
        return None
    for line in (
        read_within(common / "packed-refs", _MOST_BYTES).decode().splitlines()
    ):
        commit, _, name = line.partition(" ")
        if name == branch.group(1) and _COMMIT.match(commit):
            return commit
    return None
