"""What a survey reads: files and captures below local folders, and in object stores (fsspec); which of them
are the same."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Sequence

from fusiondoc.captures.capture import RECORDS, REQUEST
from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.survey_answers import Unreadable
from fusiondoc.parsers.lines.log_files import is_log_name
from fusiondoc.workflows.archives import is_archive_name
from fusiondoc.workflows.inputs import is_capture, named_json

_BLOCK = 1 << 20
_OF_CAPTURE = (REQUEST, RECORDS, "log")
"""What tells two captures apart."""


@dataclass(frozen=True)
class Item:
    """A run to read. ``name`` is its path or address; ``size`` in bytes."""

    name: str
    size: int
    capture: bool = False


@dataclass(frozen=True)
class Listing:
    """What is there; ``ignored`` counts files that are neither reports nor logs by their names."""

    items: tuple[Item, ...]
    ignored: int
    closed: tuple[Unreadable, ...] = ()
    """Folders that cannot be read."""


def is_url(text: str) -> bool:
    """Whether it is an address of a store, and no path."""
    return "://" in text


def listed(places: Sequence[str]) -> Listing:
    """All runs below some paths and addresses, each once, in the order of their names.

    Raises:
        UsageError: there is no such place.
        CannotRun: the package for its kind of address is missing.
    """
    found: dict[str, Item] = {}
    closed: list[Unreadable] = []
    ignored = 0
    for place in places:
        listing = _in_store(place) if is_url(place) else _in_folder(place)
        found.update({item.name: item for item in listing.items})
        ignored += listing.ignored
        closed += listing.closed
    return Listing(tuple(found[name] for name in sorted(found)), ignored, tuple(closed))


def _is_wanted(name: str) -> bool:
    return named_json(name) or is_archive_name(name) or is_log_name(Path(name))


def _in_folder(place: str) -> Listing:
    top = Path(place)
    if not top.exists():
        raise UsageError(
            f"No such file or folder: {place}", "Give paths of reports, logs, captures or folders."
        )
    if top.is_file():
        return Listing((Item(place, top.stat().st_size),), 0)
    items: list[Item] = []
    ignored = 0
    closed: list[Unreadable] = []

    def tell(error: OSError) -> None:
        closed.append(Unreadable(str(error.filename), f"the folder cannot be read: {error.strerror}"))

    for folder, folders, files in os.walk(place, onerror=tell):
        here = Path(folder)
        if is_capture(here):
            sizes = [(here / name).stat().st_size for name in _OF_CAPTURE if (here / name).is_file()]
            items.append(Item(folder, sum(sizes), True))
            folders.clear()
            continue
        folders.sort()
        for name in files:
            path = here / name
            if _is_wanted(name) and path.is_file():
                items.append(Item(str(path), path.stat().st_size))
            else:
                ignored += 1
    return Listing(tuple(items), ignored, tuple(closed))


def _store(address: str) -> tuple[Any, str]:
    try:
        url_to_fs = importlib.import_module("fsspec.core").url_to_fs
    except ImportError:
        raise CannotRun(
            f"Reading {address} needs the package fsspec, which is not installed",
            "pip install 'fusiondoc[fleet]', and the package for that store: s3fs, gcsfs, adlfs ...",
        ) from None
    try:
        store, path = url_to_fs(address)
    except ImportError as error:
        raise CannotRun(f"Reading {address}: {error}", "Install that package: pip install ...") from None
    except ValueError as error:
        raise UsageError(f"{address}: {error}", "Such as s3://bucket/folder or gs://bucket/folder.") from None
    return store, str(path)


def _in_store(address: str) -> Listing:
    store, path = _store(address)
    try:
        found = store.find(path, detail=True)
    except Exception as error:  # every store has errors of its own
        raise UsageError(
            f"Cannot list {address}: {error}", "Check the address and its permissions."
        ) from None
    if not found:
        raise UsageError(f"There is nothing at {address}", "Check the address.")
    ends = f"/{REQUEST}"
    captures = {name[: -len(ends)] for name in found if name.endswith(ends)}
    inner = {one for one in captures if any(one.startswith(f"{other}/") for other in captures)}
    captures -= inner
    sizes: Counter[str] = Counter()
    items: list[Item] = []
    ignored = 0
    for name, told in found.items():
        size = int(told.get("size") or 0)
        owner = next((one for one in _parents(name) if one in captures), None)
        if owner is not None:
            sizes[owner] += size if name.rpartition("/")[2] in _OF_CAPTURE else 0
        elif _is_wanted(name):
            items.append(Item(store.unstrip_protocol(name), size))
        else:
            ignored += 1
    items += (Item(store.unstrip_protocol(one), sizes[one], True) for one in captures)
    return Listing(tuple(items), ignored)


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


@contextlib.contextmanager
def at_hand(item: Item) -> Iterator[Path]:
    """The item as a file or folder of this machine while the block lasts."""
    if not is_url(item.name):
        yield Path(item.name)
        return
    store, path = _store(item.name)
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
        local = Path(folder) / path.rstrip("/").rpartition("/")[2]
        store.get(path, str(local), recursive=item.capture)
        yield local


def digest(path: Path, capture: bool) -> str:
    """Of what is at hand there; equal for two captures of the same request, records and log."""
    made = hashlib.blake2b(digest_size=16)
    for file in [path / name for name in _OF_CAPTURE] if capture else [path]:
        with contextlib.suppress(FileNotFoundError), file.open("rb") as content:
            while True:
                block = content.read(_BLOCK)
                if not block:
                    break
                made.update(block)
        made.update(b"\0")
    return made.hexdigest()


def may_be_equal(items: Sequence[Item]) -> list[Item]:
    """Those whose size another one has."""
    sizes = Counter((item.size, item.capture) for item in items)
    return [item for item in items if sizes[item.size, item.capture] > 1]
