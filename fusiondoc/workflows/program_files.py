"""The files of a repository that a program may depend on, from the texts of its
sources: what they import, wherever in the repository it stands (a program may
change ``sys.path``), and each text that is the end of a path. Too many files are
found rather than too few."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from fusiondoc.model import dataclass
from fusiondoc.whole_files import read_within
from fusiondoc.workflows.program_names import Imported, ProgramNames, names_in
from fusiondoc.workflows.repository_since import RepositorySince

_COMPILED = (".so", ".pyd", ".pyc", ".pyx", ".dll", ".dylib")
_CODE = (*_COMPILED, ".py")
_IMPLICIT = (Imported(0, "sitecustomize"), Imported(0, "usercustomize"))
"""Modules that Python imports automatically if it finds them."""


@dataclass(frozen=True)
class ProgramFiles:
    """The files that a program may depend on."""

    files: frozenset[str]
    unknown: str | None = None
    """Why the program may depend on more files: ``models/m.py:7: it calls
    exec``."""


class FilesOfPrograms:
    """Finds the files of the programs of a repository; each source is parsed once.

    Args:
        cwd: the folder that programs run in.
    """

    def __init__(self, repository: RepositorySince, cwd: Path) -> None:
        self._repository = repository
        self._cwd = cwd
        self._names: dict[str, ProgramNames] = {}
        self._files: defaultdict[str, list[str]] = defaultdict(list)
        self._modules: defaultdict[str, list[str]] = defaultdict(list)
        self._folders: defaultdict[str, set[str]] = defaultdict(set)
        self._all = sorted({*repository.before, *repository.now, *repository.inner})
        for path in self._all:
            found = PurePosixPath(path)
            self._files[found.name].append(path)
            if found.suffix == ".py" or found.suffix in _COMPILED:
                self._modules[found.name.partition(".")[0]].append(path)
            for folder in list(found.parents)[:-1]:
                self._folders[folder.name].add(folder.as_posix())
        self._endings = {PurePosixPath(path).suffix for path in self._all}

    def of(
        self,
        first: Iterable[str],
        imports: Sequence[Imported],
        texts: Iterable[str],
    ) -> ProgramFiles:
        """Return the files that a program begins with, and all files that these
        name.

        Args:
            imports: further modules that it imports.
            texts: the arguments of its command line.
        """
        files: set[str] = set()
        unknown = None
        waiting = [*first]
        for imported in (*imports, *_IMPLICIT):
            waiting += self._imported(imported, "")
        for text in texts:
            waiting += self._named(text)
        while waiting:
            path = waiting.pop()
            if path not in files:
                files.add(path)
                if self._is_source(path):
                    names = self._names_in(path)
                else:
                    names = ProgramNames()
                unknown = (
                    unknown
                    or self._why_opaque(path)
                    or self._why_unknown(names, path)
                )
                waiting += self._next(names, path)
        return ProgramFiles(frozenset(files), unknown)

    def _is_source(self, path: str) -> bool:
        return path.endswith(".py") and path in self._repository.now

    def _next(self, names: ProgramNames, path: str) -> Iterator[str]:
        """The files that a file names."""
        for imported in names.imports:
            yield from self._imported(imported, path)
        for text in names.texts:
            yield from self._named(text)

    def _why_opaque(self, path: str) -> str | None:
        """Return why a file's dependencies cannot be read from it; None if they
        can."""
        if path.endswith(_COMPILED):
            return f"{path} is compiled: what it imports is unknown"
        if path in self._repository.inner:
            return f"{path} is of another repository"
        if self._repository.is_link(path):
            return f"{path} is a symbolic link"
        return None

    def _why_unknown(self, names: ProgramNames, path: str) -> str | None:
        """Return why a source may depend on more files than it names."""
        if names.unknown is not None:
            return f"{path}:{names.unknown}"
        for line, ending in names.endings:
            if ending in self._endings:
                return (
                    f"{path}:{line}: it puts the name of a {ending} file together"
                )
        ignored = next(self._ignored(names, path), None)
        if ignored is None:
            return None
        return f"{path} names {ignored}, which git ignores"

    def _names_in(self, path: str) -> ProgramNames:
        if path not in self._names:
            try:
                self._names[path] = names_in(
                    read_within(self._repository.root / path)
                )
            except OSError:
                self._names[path] = ProgramNames(unknown="1: it cannot be read")
        return self._names[path]

    def _imported(self, imported: Imported, path: str) -> Iterator[str]:
        """The files that an import may refer to, with the packages around them."""
        parts = tuple(imported.module.split(".")) if imported.module else ()
        if imported.level:
            folder = PurePosixPath(path)
            for _ in range(imported.level):
                folder = folder.parent
            parts = (*folder.parts, *parts)
        for end in range(1, len(parts) + 1):
            yield from self._module(parts[:end])
        for name in imported.names:
            if name == "*":
                yield from self._inside(parts)
            else:
                yield from self._module((*parts, name))

    def _module(self, parts: tuple[str, ...]) -> Iterator[str]:
        """Files that a module of this name may be: a file, or the ``__init__`` of a
        folder."""
        for path in self._modules[parts[-1]]:
            if _ends_with(PurePosixPath(path).parts[:-1], parts[:-1]):
                yield path
        for path in self._modules["__init__"]:
            if _ends_with(PurePosixPath(path).parts[:-1], parts):
                yield path
        yield from self._links(parts)

    def _links(self, parts: tuple[str, ...]) -> Iterator[str]:
        """Symbolic links of this name: a link to a folder is listed as a file."""
        for path in self._files[parts[-1]]:
            if _ends_with(
                PurePosixPath(path).parts, parts
            ) and self._repository.is_link(path):
                yield path

    def _inside(self, parts: tuple[str, ...]) -> Iterator[str]:
        """Submodules of a package: ``import *`` imports those in its
        ``__all__``."""
        if not parts:
            for paths in self._modules.values():
                yield from paths
            return
        for folder in self._folders[parts[-1]]:
            if _ends_with(PurePosixPath(folder).parts, parts):
                yield from self._below(folder, _CODE)

    def _named(self, text: str) -> Iterator[str]:
        """Files and folders that a text may refer to, from any folder."""
        for piece in {text, text.rpartition("=")[2]}:
            parts = tuple(
                part
                for part in PurePosixPath(piece).parts
                if part not in (".", "..", "/")
            )
            if not parts:
                continue
            if any(mark in piece for mark in "*?["):
                pattern = "/".join(parts)
                for one in self._all:
                    if fnmatchcase("/" + one, "*/" + pattern):
                        yield one
            for one in self._files[parts[-1]]:
                if _within(PurePosixPath(one).parts, parts):
                    yield one
            for end in range(1, len(parts)):
                yield from self._links(parts[:end])
            for folder in self._folders[parts[-1]]:
                if _within(PurePosixPath(folder).parts, parts):
                    yield from self._below(folder, "")

    def _below(self, folder: str, ending: str | tuple[str, ...]) -> Iterator[str]:
        for one in self._all:
            if one.startswith(folder + "/") and one.endswith(ending):
                yield one

    def _ignored(self, names: ProgramNames, path: str) -> Iterator[str]:
        """Yield the files that a file names, that exist in a folder around it, and
        that git does not list."""
        folders = []
        for parent in PurePosixPath(path).parents:
            folders.append(self._repository.root / parent)
        for folder in dict.fromkeys((*folders, self._cwd)):
            for imported in names.imports:
                for name in (
                    imported.module.partition(".")[0],
                    *(imported.names if imported.level else ()),
                ):
                    if name and name != "*":
                        yield from self._not_listed(folder / f"{name}.py", _CODE)
                        yield from self._not_listed(folder / name, _CODE)
            for text in names.texts:
                if any(map(str.isalnum, text)):
                    yield from self._not_listed(folder / text, "")

    def _not_listed(
        self, path: Path, ending: str | tuple[str, ...]
    ) -> Iterator[str]:
        """A file, or a file in a folder, that is in the repository and that git
        does not list."""
        try:
            path = path.resolve()
            found = (
                [path]
                if path.is_file()
                else _files_below(path, ending)
                if path.is_dir()
                else ()
            )
            for file in found:
                relative = self._repository.path_in(file)
                if relative is None or relative == ".":
                    return
                if (
                    relative not in self._repository.now
                    and relative not in self._repository.inner
                ):
                    yield relative
        except (OSError, ValueError):
            return


def _files_below(folder: Path, ending: str | tuple[str, ...]) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in (".git", "__pycache__")
        ]
        for name in names:
            if name.endswith(ending):
                yield Path(above) / name


def _ends_with(parts: Sequence[str], end: Sequence[str]) -> bool:
    return not end or tuple(parts[-len(end) :]) == tuple(end)


def _within(parts: Sequence[str], text: Sequence[str]) -> bool:
    """True if a text names a path of the repository: the end of the path, or the
    whole path below the folder of another checkout (an absolute path)."""
    return _ends_with(parts, text) or (
        len(text) > len(parts) and tuple(text[-len(parts) :]) == tuple(parts)
    )
