"""The captures of a folder: ``.fusiondoc/`` in it, the newest 20 of them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import Iterator, Protocol, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.errors import UsageError, did_you_mean

FOLDER = ".fusiondoc"
KEPT = 20
"""How many captures are kept; ``new`` removes older ones, but none that is kept by name or being written."""

WRITING = "writing"
"""A file in a capture while a run writes it: the number of the process that does."""

KEEP = "keep"
"""A file in a capture that is to stay until it is removed by name."""

_NAME = re.compile(r"\d{8}-\d{6}-")


class Place(Protocol):
    """Where a run puts its capture."""

    def new(self, slug: str) -> Path:
        """Make an empty folder for a capture of that name; UsageError where that cannot be."""
        ...


class Within:
    """Inside the capture of the run that a further run belongs to: it is listed, shown and removed with that
    one, and is never the newest."""

    def __init__(self, capture: Path, name: str) -> None:
        self._path = capture / name

    def new(self, slug: str) -> Path:
        """The folder of the given name; what an earlier run left there is removed."""
        try:
            if self._path.exists():
                shutil.rmtree(self._path)
            self._path.mkdir(parents=True)
        except OSError as error:
            raise cannot_write(error, self._path) from None
        return self._path


class CaptureStore:
    """Makes, finds and removes captures under ``cwd``/.fusiondoc."""

    def __init__(self, cwd: Path | None = None) -> None:
        self.folder = (cwd or Path.cwd()) / FOLDER

    def paths(self) -> list[Path]:
        """The folders of all captures, newest first."""
        try:
            found = [path for path in self.folder.iterdir() if _NAME.match(path.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            (path for path in found if path.is_dir() and not path.is_symlink()), key=_age, reverse=True
        )

    def list(self) -> list[Capture]:
        """All captures that this version can read, newest first."""
        captures = []
        for path in self.paths():
            with contextlib.suppress(UsageError):
                captures.append(Capture(path))
        return captures

    def newest(self) -> Capture:
        """The newest capture; UsageError without one."""
        paths = self.paths()
        if not paths:
            raise UsageError(
                f"there is no capture in {self.folder}",
                "Make one with: fusiondoc diagnose TARGET; or name a log or a capture folder.",
            )
        return Capture(paths[0])

    def get(self, name: str) -> Capture:
        """A capture by its folder's name, or by a part of it that only one of them has."""
        return Capture(self._find(name))

    def new(self, slug: str) -> Path:
        """Make an empty capture folder, and remove the oldest ones beyond the 20.

        Raises:
            UsageError: the place cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            path = self._make(slug)
        except OSError as error:
            raise cannot_write(error, self.folder) from None
        others = [other for other in self.paths() if other != path and not (other / KEEP).exists()]
        for old in others[KEPT - 1 :]:
            if not being_written(old):
                shutil.rmtree(old, ignore_errors=True)
        return path

    def keep(self, *names: str) -> tuple[str, ...]:
        """Keep captures until they are removed by name; returns the names of their folders.

        Raises:
            UsageError: there is no such capture, or it cannot be written.
        """
        paths = [self._find(name) for name in names]
        for path in paths:
            try:
                (path / KEEP).touch()
            except OSError as error:
                raise cannot_write(error, path) from None
        return tuple(path.name for path in paths)

    def remove(self, *names: str) -> tuple[str, ...]:
        """Remove captures by name; returns the names of the removed folders."""
        paths = [self._find(name) for name in names]
        for path in paths:
            self._delete(path)
        return tuple(path.name for path in paths)

    def remove_all(self) -> tuple[str, ...]:
        """Remove every capture; returns the names of the removed folders."""
        paths = self.paths()
        for path in paths:
            self._delete(path)
        return tuple(path.name for path in paths)

    def _delete(self, path: Path) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise UsageError(f"cannot remove {path}: {error.strerror}") from None

    def _make(self, slug: str) -> Path:
        """``<time>-<slug>``, with ``-2``, ``-3`` ... behind it for later ones of the same second."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        taken = [_age(path)[1] for path in self.paths() if path.name.startswith(stamp)]
        number = max(taken, default=0)
        while True:
            number += 1
            path = self.folder / (f"{stamp}-{slug}" + (f"-{number}" if number > 1 else ""))
            try:
                path.mkdir()
                (path / WRITING).write_text(str(os.getpid()), encoding="ascii")
                return path
            except FileExistsError:
                continue

    def _find(self, name: str) -> Path:
        paths = self.paths()
        wanted = Path(name).name
        for fits in (str.__eq__, str.startswith, str.__contains__):
            matching = [path for path in paths if fits(path.name, wanted)]
            if len(matching) == 1:
                return matching[0]
            if matching:
                several = ", ".join(path.name for path in matching[:5])
                raise UsageError(f"'{name}' means {len(matching)} captures", f"Name one of: {several}")
        known = [path.name for path in paths]
        raise UsageError(f"there is no capture '{name}'", self._hint(wanted, known))

    def _hint(self, wanted: str, known: Sequence[str]) -> str:
        if not known:
            return f"There are none in {self.folder}."
        hint = did_you_mean(wanted, known)
        if hint.startswith("Did you mean"):
            return hint
        return f"fusiondoc captures lists them; the newest is {known[0]}."


def being_written(path: Path) -> bool:
    """Whether the process that makes this capture still runs."""
    try:
        if not stat.S_ISREG((path / WRITING).lstat().st_mode):
            return False
        process = int((path / WRITING).read_bytes()[:20])
    except (OSError, ValueError):
        return False
    if process == os.getpid():
        return True
    if os.name == "nt":
        # No signal 0 there: a run of the last day counts.
        return time.time() - (path / WRITING).stat().st_mtime < 86_400
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


@contextlib.contextmanager
def while_writing(path: Path) -> Iterator[None]:
    """For as long as it lasts no other run removes this capture to make room."""
    with contextlib.suppress(OSError):
        (path / WRITING).write_text(str(os.getpid()), encoding="ascii")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (path / WRITING).unlink()


def _age(path: Path) -> tuple[str, int]:
    """The second in the name, and the number behind it; slugs hold no dash."""
    number = path.name.rpartition("-")[2]
    numbered = path.name.count("-") > 2 and re.fullmatch("[0-9]{1,9}", number) is not None
    return path.name[:15], int(number) if numbered else 1


def cannot_write(error: OSError, place: Path) -> UsageError:
    """What to say when a capture cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return UsageError(
            f"no space left to write the capture in {place}: {error.strerror}",
            "Free some space (fusiondoc captures remove --all removes old ones), or run from another folder.",
        )
    return UsageError(
        f"cannot write captures in {place}: {error.strerror}",
        "Run from a folder that you can write to, with the full path of the target.",
    )
