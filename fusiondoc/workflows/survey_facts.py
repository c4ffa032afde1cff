"""What a survey reads, and what it takes of one run: its row, groups, reasons and kernels.

Runs are files and captures below local folders and in object stores (fsspec), those that are the same
once. Their facts come from the JSON of a saved report, or from a report that is made of a capture or log.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import stat
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from fusiondoc.captures.capture import RECORDS, REQUEST
from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.masking import masked
from fusiondoc.model import dataclass
from fusiondoc.model.report import SCHEMA, OpNode, Report, Unfused
from fusiondoc.model.source import Source, last_name
from fusiondoc.model.survey_answers import RunRow, SavedNode, SavedReport, SavedUnfused, Unreadable
from fusiondoc.model.typed_fields import json_within, sound
from fusiondoc.parsers.lines.log_files import CHUNK_BYTES, COMPRESSED, LogInput, content, is_log_name
from fusiondoc.reports.json_format import read_part
from fusiondoc.workflows import is_capture, named_json, saved_bytes, source_of
from fusiondoc.workflows.archives import is_archive_name
from fusiondoc.workflows.survey_plans import Plan, circumstances, plan_of, time_of

_OF_CAPTURE = (REQUEST, RECORDS, "log")
"""What tells two captures apart."""


UNKNOWN = -1


@dataclass(frozen=True)
class Item:
    """A run to read. ``name`` is its path or address; ``size`` in bytes, or ``UNKNOWN``."""

    name: str
    size: int
    capture: bool = False

    @property
    def compressed(self) -> bool:
        """Whether other bytes may hold the same. Archives are what they are: a capture is in them."""
        return not self.capture and _is_compressed(self.name)


@dataclass(frozen=True)
class Listing:
    """What is there; ``ignored`` counts files that are neither reports nor logs by their names."""

    items: tuple[Item, ...]
    ignored: int
    closed: tuple[Unreadable, ...] = ()
    """What cannot be read, as its listing tells already."""


def _is_url(text: str) -> bool:
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
        listing = _in_store(place) if _is_url(place) else _in_folder(place)
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
    real = os.path.realpath(place)

    def tell(error: OSError) -> None:
        closed.append(Unreadable(str(error.filename), f"the folder cannot be read: {error.strerror}"))

    for folder, folders, files in os.walk(place, onerror=tell):
        here = Path(folder)
        try:
            if is_capture(here):
                sizes = [(here / name).stat().st_size for name in _OF_CAPTURE if (here / name).is_file()]
                items.append(Item(folder, sum(sizes), True))
                folders.clear()
                continue
        except OSError as error:  # its files are listed, and cannot be opened
            closed.append(Unreadable(folder, f"the folder cannot be read: {error.strerror}"))
            folders.clear()
            continue
        folders.sort()
        for name in folders:
            path = here / name
            if path.is_symlink() and os.path.commonpath((real, os.path.realpath(path))) != real:
                closed.append(Unreadable(str(path), "a link to a folder is not followed: name it, too"))
        for name in files:
            path = here / name
            if not _is_wanted(name):
                ignored += 1
                continue
            try:
                told = path.stat()
            except OSError as error:
                closed.append(Unreadable(str(path), f"it cannot be read: {error.strerror}"))
                continue
            if stat.S_ISREG(told.st_mode):
                items.append(Item(str(path), told.st_size))
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
        told_size = told.get("size")  # a web server may list files without it
        size = UNKNOWN if told_size is None else int(told_size)
        owner = next((one for one in _parents(name) if one in captures), None)
        if owner is not None:
            sizes[owner] += max(0, size) if name.rpartition("/")[2] in _OF_CAPTURE else 0
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
    if not _is_url(item.name):
        yield Path(item.name)
        return
    store, path = _store(item.name)
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
        local = Path(folder) / path.rstrip("/").rpartition("/")[2]
        store.get(path, str(local), recursive=item.capture)
        yield local


def digest(path: Path, capture: bool) -> str:
    """Of what is at hand there, unpacked; equal for two captures of the same request, records and log."""
    made = hashlib.blake2b(digest_size=16)
    for file in [path / name for name in _OF_CAPTURE] if capture else [path]:
        with contextlib.suppress(FileNotFoundError):
            for block in _bytes_of(file):
                made.update(block)
        made.update(b"\0")
    return made.hexdigest()


def _is_compressed(name: str) -> bool:
    return name.lower().endswith(COMPRESSED) and not is_archive_name(name)


def _bytes_of(file: Path) -> Iterator[bytes]:
    if _is_compressed(file.name):
        yield from content(LogInput(file.name, file))
        return
    with file.open("rb") as opened:
        yield from iter(lambda: opened.read(CHUNK_BYTES), b"")


class GroupKey(NamedTuple):
    """What makes groups of several runs one."""

    model: str | None
    phase: str | None
    ops: tuple[str, ...]
    places: tuple[str, ...]
    """``file:line`` of them."""


class KernelKey(NamedTuple):
    """What makes kernels of several runs one."""

    model: str | None
    gpu: str | None
    name: str
    """That of its group and which of its kernels it is, else its own."""


class ReasonKey(NamedTuple):
    """Why, and which operator."""

    code: str
    op: str


NS = 1_000_000
"""Nanoseconds of a millisecond: sums of whole numbers do not depend on their order."""


@dataclass(frozen=True)
class GroupFact:
    kind: str
    nodes: int
    fell_back: bool


@dataclass(frozen=True)
class ReasonFact:
    text: str
    nodes: int
    bytes: int
    ns: int
    keeps_out: int


@dataclass(frozen=True)
class RunFacts:
    """One run."""

    row: RunRow
    groups: Mapping[GroupKey, GroupFact]
    reasons: Mapping[ReasonKey, ReasonFact]
    kernels: Mapping[KernelKey, int]
    """Median nanoseconds of a launch, on the slowest of its ranks."""
    plan: Plan
    time: str | None = None
    """Of day."""


def facts_of(item: Item) -> RunFacts:
    """Read one run.

    Raises:
        UsageError: it is no report, log or capture, or it is damaged.
        Exception: what a store or a damaged file raises.
    """
    with at_hand(item) as path:  # of a store: fetched once, for its digest too
        found = digest(path, item.capture)
        if not item.capture and named_json(item.name):
            return _facts(_saved(path), item.name, "report", found)
        from fusiondoc.workflows.load import report_from, report_of

        if item.capture or is_archive_name(path.name):
            capture = source_of(str(path)).capture()
            return _facts(report_of(capture), item.name, "capture", found, capture.request.created)
        report = report_from([str(path)])
        kind = "capture" if report.target.of_capture else "log"
        return _facts(report, item.name, kind, found)


def _saved(path: Path) -> SavedReport:
    data = saved_bytes(path.name, path)
    try:
        content = json_within(data)
        if _ESCAPED_HALF.search(data) is not None:
            content = sound(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not a complete JSON file: {error}") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"it is not a report: its schema is {str(schema)[:60]!r}")
    try:
        return read_part(SavedReport, content)
    except ValueError as error:
        raise UsageError(f"it is damaged: {error}") from None


_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Of a surrogate pair: alone it is nothing that can be written."""
_CAPTURED = re.compile(r"(?:^|[/\\])(\d{4})(\d\d)(\d\d)-\d{6}-")
_DATE = re.compile(r"(?<!\d)(20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")


def _facts(
    report: Report | SavedReport, name: str, kind: str, told: str, created: str | None = None
) -> RunFacts:
    """``told``: the digest of its content; ``created``: when its capture was made."""
    target, environment = report.target, report.environment
    model = None
    if target.name and (target.options or target.capture):
        model = masked(last_name(target.name))
    gpu = environment.get("gpu") or None
    groups: dict[GroupKey, GroupFact] = {}
    nodes_of: dict[GroupKey, Sequence[OpNode | SavedNode]] = {}
    kernel_names: dict[str, str] = {}
    operators = nodes_of_all = 0
    for group in report.groups:
        ops = tuple(node.op for node in group.nodes)
        places = tuple(dict.fromkeys(filter(None, map(_place, group.nodes))))
        key = GroupKey(model, group.phase or None, ops, places)
        count = len(group.instances) + group.instances_left_out
        nodes_of_all += count
        operators += (len(ops) + group.nodes_left_out) * count if group.specialisation == 1 else 0
        before = groups.get(key)
        own = count if group.specialisation == 1 or before is None else 0
        fell = group.fallback or (before is not None and before.fell_back)
        nodes_of.setdefault(key, group.nodes)
        groups[key] = GroupFact(group.kind, own + (before.nodes if before else 0), fell)
        for nth, one in enumerate(group.kernels, 1):
            which = f", kernel {nth}" if len(group.kernels) > 1 else ""
            kernel_names.setdefault(one, text_of(key) + which)
    kernels: dict[KernelKey, int] = {}
    ns_of_all = 0
    for kernel in report.kernels:
        if kernel.ms is not None:
            key_of_kernel = KernelKey(model, gpu, kernel_names.get(kernel.id, kernel.name))
            ns = round(kernel.ms.median * NS)
            kernels[key_of_kernel] = max(ns, kernels.get(key_of_kernel, 0))
            ns_of_all += ns
    reasons = _reasons(report.unfused)
    times = [one.ns for one in reasons.values() if one.ns]
    row = RunRow(
        run=name,
        kind=kind,
        digest=told,
        model=model,
        date=_date(target.capture or "", name, created),
        torch=environment.get("torch") or None,
        cuda=environment.get("cuda") or None,
        gpu=gpu,
        driver=environment.get("driver") or None,
        fuser=report.fuser.effective or None,
        groups=nodes_of_all,
        operators=operators,
        unfused=sum(one.nodes for one in reasons.values()),
        fallbacks=sum(one.count for one in report.fallbacks),
        coverage=report.coverage.fraction,
        kernels=len(report.kernels),
        kernel_ms=ns_of_all / NS if kernels else None,
        unfused_bytes=sum(one.bytes for one in reasons.values()),
        unfused_ms=sum(times) / NS if times else None,
        errors=sum(one.severity == "error" for one in report.findings),
        **circumstances(report),
    )
    plan = plan_of(report, groups, nodes_of)
    return RunFacts(row, groups, reasons, kernels, plan, time_of(target.capture or "", name, created))


def _reasons(
    rows: Iterable[Unfused | SavedUnfused],
) -> dict[ReasonKey, ReasonFact]:
    found: dict[ReasonKey, ReasonFact] = {}
    for row in rows:
        if row.ran is False:
            continue
        key = ReasonKey(row.reason.code, row.op)
        so_far = found.get(key, _NO_REASON)
        found[key] = ReasonFact(
            text=min(filter(None, (so_far.text, masked(row.reason.text[:200]))), default=""),
            nodes=so_far.nodes + row.count,
            bytes=so_far.bytes + (row.bytes_moved or 0),
            ns=so_far.ns + (round((row.time.ms or 0.0) * NS) if row.time is not None else 0),
            keeps_out=so_far.keeps_out + (row.keeps_out or 0),
        )
    return found


_NO_REASON = ReasonFact("", 0, 0, 0, 0)


def _place(node: OpNode | SavedNode) -> str | None:
    """``file:line`` without folders: machines keep one program in different ones."""
    told = node.user_source or node.source
    if told is None:
        return None
    source = Source.parse(told)
    return re.split(r"[/\\]", told if source is None else source.at_line)[-1]


def text_of(key: GroupKey) -> str:
    """``mul, add, relu (backward) at train.py:15``."""
    phase, ops, places = key.phase, key.ops, key.places
    names = [op.rpartition("::")[2] for op in ops]
    text = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    text += " (backward)" if phase == "backward" else ""
    own = [place for place in places if not place.startswith("<string>")] or list(places)
    return text + (f" at {', '.join(own[:2])}" if own else "")


def _date(capture: str, name: str, created: str | None = None) -> str | None:
    found = _CAPTURED.search(capture) or _CAPTURED.search(name)
    for text in (created or "", name):
        found = found or _DATE.search(text)
    return "-".join(found.groups()) if found is not None else None


def preference(name: str) -> tuple[bool, str]:
    """Of files with the same content the least is kept: a path that names the day tells more."""
    return _date("", name) is None, name
