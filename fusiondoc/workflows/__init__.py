"""The use cases under the commands: load, run, run again, time, try; no click. This
file resolves an argument of a command.

It names a target to run, a log, a capture, a saved report, or stdin.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path, PurePath

from fusiondoc.captures import FOLDER
from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import ARCHIVE_ENDINGS
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import NotFound, UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.bench import Bench, Suite
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.lines.log_files import (
    MOST_LINE,
    LogInput,
    find_logs,
    read_chunks,
)
from fusiondoc.reports.json_format import (
    looks_like_bench,
    looks_like_report,
    looks_like_suite,
    read_bench,
    read_suite,
)
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows.archives import Unpacked, is_archive_name, unpack

_MODULE = re.compile(
    r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*(\(.*\))?\Z", re.DOTALL
)
_ENDINGS = "|".join(map(re.escape, ARCHIVE_ENDINGS))
_FILE = re.compile(
    rf"(\.py|{_ENDINGS})(:[^/\\]*|:[^/\\(]*\(.*\))?\Z", re.IGNORECASE | re.DOTALL
)
MOST_REPORT_BYTES = 128 << 20
"""Bytes of a saved report, unpacked: reading one takes about ten times as much
memory."""

_JSON = re.compile(r"\.json(\.(gz|xz|bz2|zst))?\Z", re.IGNORECASE)


class SourceKind(Enum):
    """The kinds of things to report on."""

    LOG = "log"
    """A file, or a folder of them."""
    CAPTURE = "capture"
    REPORT = "saved report"
    STDIN = "stdin"


@dataclass(frozen=True)
class ReportSource:
    """A source of a report. ``text`` is the user's name for it; ``path`` its
    location, None for stdin."""

    kind: SourceKind
    text: str
    path: Path | None = None
    unpacked: Unpacked | None = None
    """Folder in which a bundle is unpacked."""

    def capture(self) -> Capture:
        """The capture at this source; UsageError if it cannot be read."""
        assert self.kind is SourceKind.CAPTURE and self.path is not None
        return Capture(
            self.path, Path(self.text) if self.unpacked else None, self.unpacked
        )


def is_target(argument: str, notify: Callable[[str], None] | None = None) -> bool:
    """True if an argument is a model to run, by its form alone but for one case.

    ``FILE.py``, ``FILE.py:NAME``, ``FILE.pt`` and ``package.module:NAME`` are
    models; all else is a log. An existing file or folder of the form
    ``module:NAME`` is a log, and ``notify`` gets a note; so is any folder.
    """
    path = Path(argument)
    if path.is_dir():
        return False
    if _FILE.search(argument):
        return True
    if _MODULE.match(argument) is None:
        return False
    if path.exists():
        if notify is not None:
            notify(
                f"note: '{argument}' is read as a log, because there is such a file; for the module, run from"
                " another folder"
            )
        return False
    return True


def source_of(argument: str) -> ReportSource:
    """Return the source that an argument names, if it is no target. A path comes
    before the name of a capture (or a part of it that only one has); a file is a
    saved report by its ending ``.json`` or by how it begins.

    Raises:
        UsageError: there is no such thing.
    """
    path = Path(argument)
    if argument == "-":
        return ReportSource(SourceKind.STDIN, argument)
    if is_capture(path):
        return ReportSource(SourceKind.CAPTURE, argument, path)
    if path.is_dir():
        _no_folder_of_reports(argument, path)
        return ReportSource(SourceKind.LOG, argument, path)
    if path.is_file() and is_archive_name(path.name):
        unpacked = unpack(path)
        return ReportSource(SourceKind.CAPTURE, argument, unpacked.path, unpacked)
    if path.is_file():
        return ReportSource(
            SourceKind.REPORT if _holds_report(argument, path) else SourceKind.LOG,
            argument,
            path,
        )
    if path.exists():  # a pipe: bytes read to identify it would be lost
        return ReportSource(SourceKind.LOG, argument, path)
    return ReportSource(SourceKind.CAPTURE, argument, _named(argument))


def sources_of(arguments: Sequence[str]) -> list[ReportSource]:
    """Return the sources that a command's arguments name as parts of one run;
    without arguments, the newest capture.

    Raises: UsageError: there is no such thing; a saved report, which is a whole
        run, is one of several.
    """
    if not arguments:
        newest = CaptureStore().newest()
        return [ReportSource(SourceKind.CAPTURE, newest.name, newest.path)]
    sources = [source_of(argument) for argument in arguments]
    for source in sources:
        if source.kind is SourceKind.REPORT and len(sources) > 1:
            raise UsageError(
                f"{source.text} is a saved report, which is not a part of a run",
                "Name it alone, or compare two of them: fusiondoc compare A B",
            )
    return sources


def logs_of(sources: Sequence[ReportSource]) -> list[LogInput]:
    """The logs of some sources; for a capture those of its folder. Each has the
    rank that its name holds."""
    return with_ranks(
        find_logs(
            [
                source.text if source.path is None else str(source.path)
                for source in sources
            ]
        )
    )


def logs_in(folder: str) -> list[LogInput]:
    """Return the logs of a folder, as if each was named; UsageError if there is
    none."""
    return with_ranks(find_logs([folder]))


def is_capture(path: Path) -> bool:
    """Whether this is the folder of a capture."""
    return (path / "request.json").is_file()


def named_json(text: str) -> bool:
    """Whether a name is that of a JSON file, compressed or not."""
    return _JSON.search(Path(text).name) is not None


def _holds_report(argument: str, path: Path) -> bool:
    return named_json(argument) or looks_like_report(
        next(read_chunks(LogInput(argument, path)), b"")
    )


def _no_folder_of_reports(argument: str, path: Path) -> None:
    saved = sorted(path.glob("*.json"))
    if saved and not any(
        file.suffix != ".json" for file in path.iterdir() if file.is_file()
    ):
        raise UsageError(
            f"{argument} holds JSON files and no log",
            f"Name one of them: {saved[0]}",
        )


def _named(argument: str) -> Path:
    """The capture of that name, or ``latest``, ``latest~1``."""
    store = CaptureStore()
    try:
        return store.get(argument).path
    except NotFound as error:
        where = (
            f"{FOLDER}/ here"
            if store.folder == Path.cwd() / FOLDER
            else store.folder
        )
        if store.paths():
            hint = error.hint
        else:
            hint = f"Name a file; there are no captures in {where}."
    try:
        find_logs([argument])
    except NotFound as error:
        if error.explained:
            hint = error.hint
    raise NotFound(f"there is no log, folder, report or capture '{argument}'", hint)


def saved_bytes(name: str, path: Path) -> bytes:
    """Return the content of a file that should be a saved report, decompressed;
    ``name`` is its name in messages.

    Raises:
        UsageError: it cannot be read, or is larger than a report can be.
    """
    data: list[bytes] = []
    size = 0

    def cut(size: int, first: bool) -> None:
        raise UsageError(
            f"{name} has a line of more than {MOST_LINE >> 20} MiB, as no report that fusiondoc wrote has",
            "Write it again: fusiondoc parse LOG --format json --output FILE.json",
        )

    for chunk in read_chunks(LogInput(name, path), cut):
        data.append(chunk)
        size += len(chunk)
        if size > MOST_REPORT_BYTES:
            raise UsageError(
                f"{name} is larger than any report", "Read the logs themselves."
            )
    return b"".join(data)


_MOST_BYTES = 64 << 20


def saved_bench(argument: str) -> Bench | Suite | None:
    """Return the bench or suite in a file; None if it is something else (a log, a
    report, a capture).

    Raises:
        UsageError: it is damaged, too large, or of a newer fusiondoc.
    """
    path = Path(argument)
    try:
        if not path.is_file():
            return None
        with open_regular(path) as file:
            start = file.read(200)
            if not looks_like_bench(start) and not looks_like_suite(start):
                return None
            data = start + file.read(_MOST_BYTES)
    except OSError:
        return None  # the reader of logs reports why it cannot be read
    if len(data) >= _MOST_BYTES:
        raise UsageError(
            f"{argument} is larger than any result of fusiondoc bench",
            "Name another file.",
        )
    if looks_like_suite(start):
        return read_suite(data, argument)
    return read_bench(data, argument)


def two_benches(a: str, b: str) -> tuple[Bench, Bench] | tuple[Suite, Suite] | None:
    """Return both files, if both are benches or both are suites; None if neither is
    one.

    Raises:
        UsageError: only one is, or they are of different kinds.
    """
    old, new = saved_bench(a), saved_bench(b)
    if old is None and new is None:
        return None
    if old is None or new is None:
        bench, other = (b, a) if old is None else (a, b)
        raise UsageError(
            f"{bench} is a result of fusiondoc bench, and {other} is not",
            "Give two of them: fusiondoc bench TARGET -o NAME.json.",
        )
    if isinstance(old, Suite) and isinstance(new, Suite):
        return old, new
    if isinstance(old, Bench) and isinstance(new, Bench):
        return old, new
    suite, other = (a, b) if isinstance(old, Suite) else (b, a)
    raise UsageError(
        f"{suite} is the result of a suite, and {other} of a bench of one target",
        "Give two of a kind: two of fusiondoc bench --suite NAME, or two of fusiondoc bench TARGET.",
    )


_ATTEMPT = re.compile(
    r"(?P<above>.*/)?attempt_(?P<attempt>\d{1,6})/(?P<rank>\d{1,6})/[^/]+\Z"
)
"""``none_x8k/attempt_0/1/stderr.log``: torch's elastic launcher with --log-dir and
--redirects (``LocalElasticAgent._make_log_dir``,
torch/distributed/elastic/agent/server/local_elastic_agent.py, 1.12 to 2.13). The
number is the local one of that machine."""
_CAPTURED = re.compile(r"(?P<above>.*/)?ranks/(?P<rank>\d{1,6})/log\Z")
_NAMED = re.compile(
    r"(?:\A|[^a-z])(?:rank|task|worker|proc)[ ._=-]?(\d{1,9})(?![0-9])",
    re.IGNORECASE,
)
"""``rank0.log``, ``train-rank_3.txt``, and ``1/rank.0/stdout`` of mpirun
--output-filename."""


def with_ranks(logs: Sequence[LogInput]) -> list[LogInput]:
    """Return the logs, each with the rank in its name, if at least two different
    ranks are found; else return them unchanged.

    If a launcher started the ranks more than once, only the last attempt is kept.
    Local ranks in the folders of several machines are numbered on, in the order of
    the folders.
    """
    by_launcher = [_ATTEMPT.match(_absolute(log)) for log in logs]
    if logs and all(by_launcher):
        return _of_launcher(
            logs, [number for number in by_launcher if number is not None]
        )
    numbers = [_number(log) for log in logs]
    known = {number for number in numbers if number is not None}
    if len(known) < 2:
        return list(logs)
    return [replace(log, rank=number) for log, number in zip(logs, numbers)]


def _posix(log: LogInput) -> str:
    if log.path is None:
        return ""
    return PurePath(log.path).as_posix()


def _absolute(log: LogInput) -> str:
    """The absolute path of a log: the launcher's folders may be above the current
    one."""
    if log.path is None:
        return ""
    return log.path.absolute().as_posix()


def _number(log: LogInput) -> int | None:
    text = _posix(log)
    captured = _CAPTURED.match(text)
    if captured is not None:
        return whole_number(captured["rank"])
    found = None
    for part in text.split("/")[-3:]:
        named = _NAMED.search(part)
        found = whole_number(named[1]) if named else found
    return found


def _numbered(name: re.Match[str], part: str) -> int:
    return whole_number(name[part]) or 0


def _of_launcher(
    logs: Sequence[LogInput], names: Sequence[re.Match[str]]
) -> list[LogInput]:
    last: dict[str, int] = defaultdict(int)
    most: dict[str, int] = defaultdict(int)
    for prefix in names:
        above = prefix["above"] or ""
        last[above] = max(last[above], _numbered(prefix, "attempt"))
        most[above] = max(most[above], _numbered(prefix, "rank"))
    before: dict[str, int] = {}
    number = 0
    for above in sorted(most):
        before[above] = number
        number += most[above] + 1
    kept = []
    for log, prefix in zip(logs, names):
        if _numbered(prefix, "attempt") == last[prefix["above"] or ""]:
            kept.append(
                replace(
                    log,
                    rank=before[prefix["above"] or ""] + _numbered(prefix, "rank"),
                )
            )
    if len({log.rank for log in kept}) > 1:
        return kept
    return [replace(log, rank=None) for log in kept]
