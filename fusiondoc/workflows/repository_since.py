"""The files of a repository now and at a commit, and which of them differ.

The content of the working tree is read here and hashed as git hashes it: ``git
diff`` would run the filters and drivers that the repository names
(``git_files.py``). A file that such a filter changes on its way into git
(``filter=lfs``) therefore counts as changed; ends of lines do not count.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fusiondoc.captures.commit import SHOWN
from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass, field
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows.git_files import git

_MOST_FOR_LINE_ENDS = 16 << 20
"""Most bytes of a file whose line ends are normalised for the comparison."""


class TreeEntry(NamedTuple):
    """A file of a commit."""

    kind: str
    """``file``, ``link`` or ``repository`` (a submodule)."""
    blob: str


@dataclass(frozen=True)
class RepositorySince:
    """A repository with a commit to compare with; paths start at its root and have
    slashes."""

    root: Path
    commit: str
    """The first digits of its name."""
    before: dict[str, TreeEntry]
    now: frozenset[str]
    """Files that git tracks, and untracked files that it does not ignore."""
    inner: frozenset[str]
    """Files of other repositories inside this one, whose changes git does not show
    here."""
    _changed: dict[str, bool] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        """All files with a known state, now or at the commit."""
        return self.now | self.before.keys()

    def path_in(self, path: Path) -> str | None:
        """The path of a file from the root; None outside of the repository."""
        try:
            return (
                (Path(os.path.realpath(path.parent)) / path.name)
                .relative_to(self.root)
                .as_posix()
            )
        except ValueError:
            return None

    def changed(self, path: str) -> bool:
        """True if a file is new, gone or has another content than in the commit.
        git does not show this for files of other repositories."""
        if path in self.inner:
            return False
        if path not in self._changed:
            self._changed[path] = self._differs(path)
        return self._changed[path]

    def is_link(self, path: str) -> bool:
        """Whether a file is a symbolic link, now or in the commit."""
        entry = self.before.get(path)
        return (entry is not None and entry.kind == "link") or (
            self.root / path
        ).is_symlink()

    def text_before(self, path: str) -> bytes | None:
        """The content of a file in the commit; None without such a file."""
        entry = self.before.get(path)
        if entry is None:
            return None
        return git(self.root, "cat-file", "blob", entry.blob)

    def _differs(self, path: str) -> bool:
        entry = self.before.get(path)
        if entry is None or path not in self.now:
            return True
        file = self.root / path
        try:
            if file.is_symlink():
                return (
                    entry.kind != "link"
                    or _blob_of(os.fsencode(file.readlink()), entry) != entry.blob
                )
            return entry.kind != "file" or not _is_content(file, entry)
        except OSError:
            return True


def repository_since(folder: Path, rev: str) -> RepositorySince:
    """Return the repository around a folder, and a commit of it.

    Args:
        rev: a commit in any form that git accepts: ``HEAD``, ``origin/main``, a
            tag, digits.

    Raises:
        UsageError: there is no repository, or no such commit in it.
    """
    top = git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        raise UsageError(
            f"--changed-since {rev}: {folder} is in no git repository",
            "Leave the option out to run every model.",
        )
    root = Path(os.fsdecode(top.rstrip(b"\n")))
    found = git(
        root,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        rev + "^{commit}",
    )
    commit = found.decode().strip() if found is not None else ""
    listed = None
    if commit:
        listed = git(root, "ls-tree", "-r", "-z", "--full-tree", commit)
    if listed is None:
        raise UsageError(
            f"--changed-since {rev}: this repository has no such commit",
            "In a shallow clone: git fetch --depth 1 origin BRANCH, then --changed-since FETCH_HEAD.",
        )
    before = dict(map(_entry, filter(None, listed.split(b"\0"))))
    files, inner = _files_now(root, before)
    return RepositorySince(
        root, commit[:SHOWN], before, frozenset(files), frozenset(inner)
    )


def _entry(line: bytes) -> tuple[str, TreeEntry]:
    """A line of ``git ls-tree``: ``mode type object<TAB>path``."""
    facts, _, path = line.partition(b"\t")
    mode, type_, blob = facts.decode().split()
    if type_ == "commit":
        kind = "repository"
    elif mode == "120000":
        kind = "link"
    else:
        kind = "file"
    return os.fsdecode(path), TreeEntry(kind, blob)


def _files_now(
    root: Path, before: dict[str, TreeEntry]
) -> tuple[set[str], set[str]]:
    """Files of the working tree that are there, and those of repositories inside
    it."""
    listed = (
        git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        or b""
    )
    files: set[str] = set()
    inner: set[str] = set()
    for name in filter(None, listed.split(b"\0")):
        path = os.fsdecode(name)
        file = root / path
        if (
            file.is_dir() and not file.is_symlink()
        ):  # a submodule, or a repository that is not tracked
            inner.update(_below(root, file))
        elif os.path.lexists(file):
            files.add(path)
    gone = (
        path
        for path, entry in before.items()
        if entry.kind == "repository" and path not in inner
    )
    inner.update(found for path in gone for found in _below(root, root / path))
    return files, inner


def _below(root: Path, folder: Path) -> Iterator[str]:
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            yield (Path(above) / name).relative_to(root).as_posix()


def _is_content(file: Path, entry: TreeEntry) -> bool:
    with open_regular(file) as opened:
        data = opened.read()
    if _blob_of(data, entry) == entry.blob:
        return True
    if len(data) > _MOST_FOR_LINE_ENDS or b"\r\n" not in data:
        return False
    return _blob_of(data.replace(b"\r\n", b"\n"), entry) == entry.blob


def _blob_of(data: bytes, entry: TreeEntry) -> str:
    """The name of a content in git: SHA-1, or SHA-256 in a repository with such
    names."""
    made = hashlib.sha256 if len(entry.blob) == 64 else hashlib.sha1
    return made(b"blob %d\0" % len(data) + data).hexdigest()
