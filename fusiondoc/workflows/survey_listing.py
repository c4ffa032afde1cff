"""The files of a survey: files and captures below local folders and in object
stores (fsspec), each with the model that its path names."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusiondoc.captures.capture import RECORDS, REQUEST
from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.masking import masked
from fusiondoc.model import count, dataclass
from fusiondoc.model.survey_answers import Unreadable
from fusiondoc.parsers.lines.log_files import COMPRESSED, is_log_name
from fusiondoc.whole_files import must_be_regular
from fusiondoc.workflows import is_capture, named_json
from fusiondoc.workflows.archives import is_archive_name

OF_CAPTURE = (REQUEST, RECORDS, "log")
"""The files by which two captures differ."""


UNKNOWN = -1
"""Size of a file if the store does not state it."""
DATE = re.compile(r"(?<!\d)(20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")


@dataclass(frozen=True)
class ListedRun:
    """A run to read. ``name`` is its path or address; ``size`` in bytes, or
    ``UNKNOWN``."""

    name: str
    size: int
    capture: bool = False
    label: str | None = None
    """The model, as ``--model-from`` matches it in the name; it overrides the model
    that the run recorded."""
    folder: str | None = None
    """The folders between the path that the user named and the run, which name the
    model of a log that records none."""

    @property
    def model_by_name(self) -> str | None:
        """The model as far as the name determines it: files with the same content
        and different models are different runs."""
        by_folder = None if self.capture or named_json(self.name) else self.folder
        return self.label or by_folder

    @property
    def compressed(self) -> bool:
        """True if different bytes may hold the same content. An archive holds a
        capture, and is compared as it is."""
        return not self.capture and is_compressed(self.name)


@dataclass(frozen=True)
class Listing:
    """The files to read; ``ignored`` counts files that are neither reports nor logs
    by their names."""

    items: tuple[ListedRun, ...]
    ignored: int
    closed: tuple[Unreadable, ...] = ()
    """Files and folders that could not be read while listing."""


def _is_url(text: str) -> bool:
    """True for an address of a store, False for a path."""
    return "://" in text


def listed(addresses: Sequence[str], model_from: str | None = None) -> Listing:
    """All runs below some paths and addresses, each once, in the order of their
    names.

    Args: model_from: a regular expression whose groups are the model, searched in
        the names.

    Raises: UsageError: a path or address does not exist; the expression is invalid,
        has no group or matches no name. CannotRun: the package for its kind of
        address is missing.
    """
    pattern = _model_pattern(model_from) if model_from is not None else None
    found: dict[str, ListedRun] = {}
    closed: list[Unreadable] = []
    ignored = 0
    for address in addresses:
        listing = _in_store(address) if _is_url(address) else _in_folder(address)
        found.update({item.name: item for item in listing.items})
        ignored += listing.ignored
        closed += listing.closed
    items = []
    for name, folder in _folders(sorted(found), addresses):
        items.append(replace(found[name], folder=folder))
    if pattern is not None:
        items = [replace(item, label=_label(pattern, item.name)) for item in items]
        if items and all(item.label is None for item in items):
            raise UsageError(
                f"--model-from {model_from}: no path of {count(len(items), 'run')} matches",
                f"The first path is {items[0].name}",
            )
    return Listing(tuple(items), ignored, tuple(closed))


def _model_pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--model-from {text}: {error}", _MODEL_FROM) from None
    if not pattern.groups:
        raise UsageError(
            f"--model-from {text}: it has no group that holds the model",
            _MODEL_FROM,
        )
    return pattern


_MODEL_FROM = (
    "For example: --model-from 'runs/([^/]+)/' for runs/resnet/2026-11-22.log"
)


def _label(pattern: re.Pattern[str], name: str) -> str | None:
    """The groups of the expression that match in a name, joined by slashes; only
    the group called ``model`` if there is one."""
    found = pattern.search(name.replace("\\", "/"))
    if found is None:
        return None
    groups = [found["model"]] if "model" in pattern.groupindex else found.groups()
    return masked("/".join(filter(None, groups))) or None


def _folders(
    names: Sequence[str], addresses: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    """Each name with its folders below the common folder of all given paths,
    without folders that name a day."""
    tops = [re.split(r"[/\\]", address.rstrip("/\\")) for address in addresses]
    tops = [
        top[:-1] if address in names else top
        for top, address in zip(tops, addresses)
    ]
    shared = 0
    for parts in zip(*tops):
        if len(set(parts)) > 1:
            break
        shared += 1
    for name in names:
        yield name, without_days(re.split(r"[/\\]", name)[shared:-1])


def without_days(folders: Sequence[str]) -> str | None:
    """Folders as a path, without those that only name a day; None if none is
    left."""
    return (
        "/".join(
            folder
            for folder in folders
            if folder and DATE.fullmatch(folder) is None
        )
        or None
    )


def _is_wanted(name: str) -> bool:
    return named_json(name) or is_archive_name(name) or is_log_name(Path(name))


def _in_folder(name: str) -> Listing:
    top = Path(name)
    if not top.exists():
        raise UsageError(
            f"no such file or folder: {name}",
            "Give paths of reports, logs, captures or folders.",
        )
    if top.is_file():
        return Listing((ListedRun(name, top.stat().st_size),), 0)
    if not top.is_dir():
        try:
            must_be_regular(top.stat(), top)
        except OSError as error:
            raise UsageError(
                f"{name}: {error.strerror}",
                "Give reports, logs or folders of them.",
            ) from None
    walk = _Walk(name)
    walk.run()
    return Listing(tuple(walk.items), walk.ignored, tuple(walk.unreadable))


class _Walk:
    """A walk through a folder and all folders below it."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._real = os.path.realpath(top)
        self.items: list[ListedRun] = []
        self.ignored = 0
        self.unreadable: list[Unreadable] = []

    def run(self) -> None:
        for folder, folders, files in os.walk(self._top, onerror=self._closed):
            if self._is_taken_whole(folder):
                folders.clear()
                continue
            folders.sort()
            for name in folders:
                self._note_link(Path(folder, name))
            for name in files:
                self._add_file(Path(folder, name))

    def _closed(self, error: OSError) -> None:
        text = f"the folder cannot be read: {error.strerror}"
        self.unreadable.append(Unreadable(str(error.filename), text))

    def _is_taken_whole(self, folder: str) -> bool:
        """True if it is a capture, or if its files can be listed and not opened."""
        files = [Path(folder, name) for name in OF_CAPTURE]
        try:
            if not is_capture(Path(folder)):
                return False
            sizes = []
            for file in files:
                if file.is_file():
                    sizes.append(file.stat().st_size)
            self.items.append(ListedRun(folder, sum(sizes), True))
        except OSError as error:
            text = f"the folder cannot be read: {error.strerror}"
            self.unreadable.append(Unreadable(folder, text))
        return True

    def _note_link(self, folder: Path) -> None:
        if (
            folder.is_symlink()
            and os.path.commonpath((self._real, os.path.realpath(folder)))
            != self._real
        ):
            text = "a link to a folder is not followed: name it, too"
            self.unreadable.append(Unreadable(str(folder), text))

    def _add_file(self, path: Path) -> None:
        if not _is_wanted(path.name):
            self.ignored += 1
            return
        try:
            status = path.stat()
            must_be_regular(status, path)
        except OSError as error:
            self.unreadable.append(
                Unreadable(str(path), f"it cannot be read: {error.strerror}")
            )
            return
        self.items.append(ListedRun(str(path), status.st_size))


def _store(address: str) -> tuple[Any, str]:
    try:
        url_to_fs = importlib.import_module("fsspec.core").url_to_fs
    except ImportError:
        raise CannotRun(
            f"reading {address} needs the package fsspec, which is not installed",
            "pip install 'fusiondoc[fleet]', and the package for that store: s3fs, gcsfs, adlfs ...",
        ) from None
    try:
        store, path = url_to_fs(address)
    except ImportError as error:
        raise CannotRun(
            f"reading {address}: {error}",
            "Install that package with pip, beside fusiondoc.",
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{address}: {error}",
            "For example: s3://bucket/folder or gs://bucket/folder.",
        ) from None
    return store, str(path)


def _in_store(address: str) -> Listing:
    store, path = _store(address)
    try:
        found = store.find(path, detail=True)
    except Exception as error:  # every store has errors of its own
        raise UsageError(
            f"cannot list {address}: {error}",
            "Check the address and its permissions.",
        ) from None
    if not found:
        raise UsageError(f"there is nothing at {address}", "Check the address.")
    captures = _outermost_captures(found)
    sizes: Counter[str] = Counter()
    items: list[ListedRun] = []
    ignored = 0
    for name, facts in found.items():
        listed = facts.get("size")  # a web server may list files without it
        size = UNKNOWN if listed is None else int(listed)
        owner = None
        for folder in _parents(name):
            if folder in captures:
                owner = folder
                break
        if owner is not None:
            if name.rpartition("/")[2] in OF_CAPTURE:
                sizes[owner] += max(0, size)
        elif _is_wanted(name):
            items.append(ListedRun(store.unstrip_protocol(name), size))
        else:
            ignored += 1
    items += (
        ListedRun(store.unstrip_protocol(name), sizes[name], True)
        for name in captures
    )
    return Listing(tuple(items), ignored)


def _outermost_captures(names: Iterable[str]) -> set[str]:
    """Folders that hold a request; runs inside a capture belong to it."""
    end = f"/{REQUEST}"
    captures = set()
    for name in names:
        if name.endswith(end):
            captures.add(name.removesuffix(end))
    return {name for name in captures if captures.isdisjoint(_parents(name))}


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


@contextlib.contextmanager
def at_hand(item: ListedRun) -> Iterator[Path]:
    """Context manager: the item as a file or folder of this machine."""
    if not _is_url(item.name):
        yield Path(item.name)
        return
    store, path = _store(item.name)
    if getattr(
        store, "local_file", False
    ):  # file://: a copy of a pipe is waited on for ever
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
        local = Path(folder) / path.rstrip("/").rpartition("/")[2]
        store.get(path, str(local), recursive=item.capture)
        yield local


def is_compressed(name: str) -> bool:
    return name.lower().endswith(COMPRESSED) and not is_archive_name(name)
