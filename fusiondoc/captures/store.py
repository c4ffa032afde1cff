"""The captures of a folder: in its ``.fusiondoc/``, the newest ones and all that
have a name."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from fusiondoc.captures import FOLDER, folder_named, number_kept
from fusiondoc.captures.capture import REQUEST, Capture
from fusiondoc.captures.ending import Ended
from fusiondoc.errors import CannotRun, NotFound, UsageError, nearest
from fusiondoc.numbers import whole_number
from fusiondoc.whole_files import read_within

WRITING = "writing"
"""A file in a capture while a run writes it: the number of the writing process."""

KEEP = "keep"
"""A file in a capture that is kept until it is removed by name; it holds the name
given by the user."""

_NAME = re.compile(r"\d{8}-\d{6}-")
_GIVEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}\Z")
_LATEST = re.compile(r"latest(?:~([0-9]{1,6}))?\Z")
_MOST_LISTED = 20


class CaptureLocation(Protocol):
    """Where a run stores its capture."""

    def new(self, slug: str) -> Path:
        """Make an empty folder for a capture of that name; UsageError if it cannot
        be made."""
        ...

    def done(self, path: Path) -> None:
        """Called after the run for which the folder was made; its outcome is
        written there."""
        ...


class Within:
    """A location inside the capture of the run to which a further run belongs: it
    is listed, shown and removed with that capture, and never counts as the
    newest."""

    def __init__(self, capture: Path, name: str) -> None:
        self._path = capture / name

    def new(self, slug: str) -> Path:
        """Return the folder of the given name, without the files of an earlier
        run."""
        try:
            if self._path.exists():
                shutil.rmtree(self._path)
            self._path.mkdir(parents=True)
        except OSError as error:
            raise cannot_write(error, self._path) from None
        return self._path

    def done(self, path: Path) -> None:
        """Do nothing: it is kept as long as the capture that contains it."""


def _silent(line: str) -> None:
    """Discards the note."""


class CaptureStore:
    """Makes, finds and removes captures under ``cwd``/.fusiondoc, or where options,
    a variable or the configuration put them.

    Args:
        name: the name of the next capture; it stays until it is removed by name.
        keep: the next capture stays until it is removed by name.
        notify: called with a note for each capture removed to make room, if it had
            a report.
    """

    def __init__(
        self,
        cwd: Path | None = None,
        *,
        name: str | None = None,
        keep: bool = False,
        notify: Callable[[str], None] = _silent,
    ) -> None:
        elsewhere = folder_named() if cwd is None else None
        if elsewhere is not None:
            self.folder = elsewhere
        else:
            self.folder = (cwd or Path.cwd()) / FOLDER
        self._given = name
        self._keep = keep or name is not None
        self._notify = notify

    def paths(self) -> list[Path]:
        """The folders of all captures, newest first."""
        try:
            found = []
            for path in self.folder.iterdir():
                if _NAME.match(path.name):
                    found.append(path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        paths = []
        for path in found:
            if path.is_dir() and not path.is_symlink():
                paths.append(path)
        return sorted(paths, key=_age, reverse=True)

    def _begun(self) -> Sequence[Path]:
        """The folders with a request: in a folder without one the run never
        began."""
        return [path for path in self.paths() if (path / "request.json").is_file()]

    def list(self) -> list[Capture]:
        """All captures that this version can read, newest first."""
        captures = []
        for path in self.paths():
            with contextlib.suppress(UsageError):
                captures.append(Capture(path))
        return captures

    def newest(self) -> Capture:
        """The newest capture; UsageError if there is none."""
        paths = self._begun() or self.paths()
        if not paths:
            raise UsageError(
                f"there is no capture in {self.folder}",
                "Make one with: fusiondoc diagnose TARGET; or name a log or a capture folder.",
            )
        return Capture(paths[0])

    def two_newest(self) -> tuple[Capture, Capture]:
        """The two newest captures of one target, the older one first; the target is
        the newest with two captures.

        Raises:
            UsageError: no target has two.
        """
        seen: dict[object, Capture] = {}
        for path in self.paths():
            if being_written(path):
                continue
            with contextlib.suppress(UsageError):
                capture = Capture(path)
                target = capture.request.target
                what = (
                    target.path or target.module or target.text,
                    target.name,
                    target.call,
                )
                if what in seen:
                    return capture, seen[what]
                seen[what] = capture
        what_to_do = "Run one target twice, or name two: fusiondoc compare A B; fusiondoc captures lists them."
        raise UsageError(f"no target has two captures in {self.folder}", what_to_do)

    def get(self, name: str) -> Capture:
        """A capture by its folder's name, the name it was given, ``latest``,
        ``latest~1`` (the one before the newest) and so on, or by a unique part of
        its folder's name."""
        return Capture(self._find(name))

    def new(self, slug: str) -> Path:
        """Make an empty capture folder; call ``done`` once its run is over.

        Raises:
            UsageError: the folder cannot be written, or the name is taken.
        """
        self._check_name()
        number_kept()  # a wrong name is refused before anything is made
        try:
            fresh = not self.folder.exists() or not any(self.folder.iterdir())
            self.folder.mkdir(parents=True, exist_ok=True)
            ignore = self.folder / ".gitignore"
            # A folder named by the user may hold other files, which git should see.
            if (fresh or self.folder.name == FOLDER) and not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            path = self._make(self._given or slug)
            if self._keep:
                (path / KEEP).write_text(self._given or "", encoding="utf-8")
        except OSError as error:
            raise cannot_write(error, self.folder) from None
        return path

    def done(self, path: Path) -> None:
        """Remove the oldest captures beyond the number to keep, after a run. Failed
        runs are counted separately, so that they do not displace successful
        ones."""
        kept = number_kept()
        others = []
        for other in self.paths():
            if not is_kept(other) and (other == path or not being_written(other)):
                others.append(other)
        well = [other for other in others if _went_well(other)]
        failed = [other for other in others if other not in well]
        removed = []
        for old in (*well[kept:], *failed[kept:]):
            had_report = _had_report(old)
            shutil.rmtree(old, ignore_errors=True)
            if had_report and not old.exists():
                removed.append(old.name)
        if removed:
            more = f" and {len(removed) - 1} more" if len(removed) > 1 else ""
            self._notify(
                f"note: removed {removed[0]}{more}: the newest {kept} stay (--keep-last N)"
            )

    def _check_name(self) -> None:
        if self._given is None:
            return
        if (
            _GIVEN.match(self._given) is None
            or _LATEST.match(self._given)
            or _NAME.match(self._given)
        ):
            raise UsageError(
                f"'{self._given}' cannot be the name of a capture",
                "Up to 60 letters, digits, dots, dashes and underscores, such as --name before-rewrite.",
            )
        taken = None
        for path in self.paths():
            if given_name(path) == self._given:
                taken = path
                break
        if taken is not None:
            raise UsageError(
                f"a capture named {self._given} already exists: {taken.name}",
                f"Choose another --name, or remove it: fusiondoc captures remove {self._given}",
            )

    def keep(self, *names: str) -> tuple[str, ...]:
        """Keep captures until they are removed by name; returns the names of their
        folders.

        Raises:
            UsageError: there is no such capture, or it cannot be written.
        """
        paths = [self._find(name) for name in names]
        for path in paths:
            try:
                if (path / KEEP).is_symlink():
                    (path / KEEP).unlink()
                (path / KEEP).touch()  # a name that it was given stays
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
        """Make the folder ``<time>-<slug>``, with ``-2``, ``-3`` ... appended for
        later ones in the same second."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        taken = []
        for capture in self.paths():
            if capture.name.startswith(stamp):
                taken.append(_age(capture)[1])
        number = max(taken, default=0)
        while True:
            number += 1
            path = self.folder / (
                f"{stamp}-{slug}" + (f"-{number}" if number > 1 else "")
            )
            try:
                path.mkdir()
                (path / WRITING).write_text(str(os.getpid()), encoding="ascii")
                return path
            except FileExistsError:
                continue

    def _find(self, name: str) -> Path:
        paths = self.paths()
        wanted = Path(name).name
        latest = _LATEST.match(name)
        if latest is not None:
            return self._latest(
                whole_number(latest.group(1) or "") or 0, self._begun()
            )
        for path in paths:
            if given_name(path) == wanted:
                return path
        for fits in (str.__eq__, str.startswith, str.__contains__):
            matching = [path for path in paths if fits(path.name, wanted)]
            if len(matching) == 1:
                return matching[0]
            if matching:
                parts = []
                for path in matching[:_MOST_LISTED]:
                    parts.append(f"\n  {path.name}")
                several = "".join(parts)
                left = ""
                if len(matching) > _MOST_LISTED:
                    left = f"\n  and {len(matching) - _MOST_LISTED} more"
                raise UsageError(
                    f"'{name}' means {len(matching)} captures:{several}{left}",
                    "Name one of them; latest is the newest capture, latest~1 the one before.",
                )
        known = [path.name for path in paths]
        raise NotFound(f"there is no capture '{name}'", self._hint(wanted, known))

    def _latest(self, back: int, paths: Sequence[Path]) -> Path:
        if back < len(paths):
            return paths[back]
        if len(paths) > 1:
            there = f"there are {len(paths)} captures"
        else:
            there = "there is 1 capture"
        if not paths:
            self.newest()  # raises the error for no captures at all
        raise NotFound(
            f"there is no capture 'latest~{back}': {there} in {self.folder}",
            "fusiondoc captures lists them.",
        )

    def _hint(self, wanted: str, known: Sequence[str]) -> str:
        if not known:
            return f"There are none in {self.folder}."
        listed = f"fusiondoc captures lists them; the newest is {known[0]}."
        return nearest(wanted, known) or listed


def _went_well(path: Path) -> bool:
    """True if its run came to its end, or was ended by the user; also for a capture
    of another version, where that is not known."""
    try:
        return Capture(path).result.ended in (Ended.DONE, Ended.INTERRUPTED)
    except UsageError:
        return (path / REQUEST).is_file()


def _had_report(path: Path) -> bool:
    """True if its run had something to report: the program ran, though it may have
    failed."""
    try:
        capture = Capture(path)
        ran = capture.result.ended is not Ended.UNFINISHED
        return ran and not isinstance(capture.failure(), (UsageError, CannotRun))
    except UsageError:
        return (path / REQUEST).is_file()


def is_latest(name: str) -> bool:
    """True if a name counts captures back from the newest."""
    return _LATEST.match(name) is not None


def is_kept(path: Path) -> bool:
    """True if this capture is kept until it is removed by name."""
    return (path / KEEP).exists()


def given_name(path: Path) -> str | None:
    """The name that a user gave this capture."""
    file = path / KEEP
    try:
        if not stat.S_ISREG(
            file.lstat().st_mode
        ):  # in somebody else's capture: a pipe, or a link to anything
            return None
        return read_within(file, 200).decode("ascii") or None
    except (OSError, UnicodeDecodeError):
        return None


def being_written(path: Path) -> bool:
    """True if the process that makes this capture is still running."""
    try:
        if not stat.S_ISREG((path / WRITING).lstat().st_mode):
            return False
        process = whole_number(read_within(path / WRITING, 20).strip())
    except (OSError, ValueError):
        return False
    if process is None:
        return False
    if process == os.getpid():
        return True
    if os.name == "nt":
        # Signal 0 is not used there: a run of the last day counts as running.
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
    """Context manager: no other run removes this capture to make room."""
    with contextlib.suppress(OSError):
        (path / WRITING).write_text(str(os.getpid()), encoding="ascii")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (path / WRITING).unlink()


def _age(path: Path) -> tuple[str, int]:
    """Sort key: the time in the name, and the number after it; slugs contain no
    dash."""
    number = path.name.rpartition("-")[2]
    numbered = (
        path.name.count("-") > 2 and re.fullmatch("[0-9]{1,9}", number) is not None
    )
    return path.name[:15], (whole_number(number) or 0) if numbered else 1


def cannot_write(error: OSError, folder_for_it: Path) -> UsageError:
    """The error for a capture that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return UsageError(
            f"no space left to write the capture in {folder_for_it}: {error.strerror}",
            "Free some space (fusiondoc captures remove --all removes old ones), or run from another folder.",
        )
    return UsageError(
        f"cannot write captures in {folder_for_it}: {error.strerror}",
        "Run from a folder that you can write to, with the full path of the target.",
    )
