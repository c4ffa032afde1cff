"""A capture as one file for a bug report: with names replaced and secrets masked,
and nothing that runs.

The log and copies of sources are changed here too: a capture keeps them as they
are, a bundle is for others.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from fusiondoc.captures.capture import FILES, FIXES, INNER, LOGS, REQUEST, Capture
from fusiondoc.captures.trust import SOURCES
from fusiondoc.masking import KINDS
from fusiondoc.model import dataclass
from fusiondoc.parsers.lines.log_files import utf16_decoder
from fusiondoc.version import __version__
from fusiondoc.whole_files import open_regular, read_within
from fusiondoc.workflows import more_secrets
from fusiondoc.workflows.archives import MOST_SMALL, ArchiveMember, write_archive
from fusiondoc.workflows.names_replaced import Names, names_in

SCHEMA = "fusiondoc.bundle/1"
CONTENTS = "bundle.json"

_SMALL = tuple(name for name in FILES if name not in LOGS)

_CHUNK = 1 << 19
_HELD = 16 << 10
"""Characters at the end of a chunk in which a private key may begin."""
_LONGEST_LINE = 1 << 20
"""Bytes of a line above which it is cut."""
_AROUND = 4 << 10
"""Characters on each side of a cut that decide whether it would go through a secret
or name."""
_MOST_CUTS = 200
"""Positions that are tried for one cut."""
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")


@dataclass(frozen=True)
class Packed:
    """A file of a bundle: its name below the capture, its size in bytes, and the
    number of replacements of each kind."""

    name: str
    size: int
    replaced: Mapping[str, int]


@dataclass(frozen=True)
class Bundle:
    """The files of a bundle, and those of the capture that it leaves out."""

    name: str
    files: tuple[Packed, ...]
    left_out: tuple[str, ...]
    looked_for: tuple[str, ...]
    """Kinds of secrets."""


def bundle(capture: Capture, output: Path | None, sources: bool = True) -> Bundle:
    """Pack a capture into ``output``; with None only list what it would hold.

    Args:
        sources: whether copies of the program's Python files go with it.

    Raises:
        UsageError: it does not fit into such an archive.
        OSError: the capture cannot be read, or the archive not be written.
    """
    found, left_out = _files(capture.path, sources)
    names = _names(
        capture, [path for name, path in found if name.endswith(REQUEST)]
    )
    top = re.sub(
        r"[^\w.=+-]", "_", names.text(capture.name, Counter()), flags=re.ASCII
    )
    top = top.lstrip("._=+-")[:80] or "capture"
    packed: list[Packed] = []
    members: list[ArchiveMember] = []
    # An archive needs each file's size before its content, so the sizes must be
    # known first.
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
        for number, (name, path) in enumerate(found):
            counts: Counter[str] = Counter()
            made = Path(folder, str(number))
            with open_regular(path) as source, made.open("wb") as target:
                _way(name)(names, source, target, counts)
            size = made.stat().st_size
            packed.append(
                Packed(
                    name, size, {kind: n for kind, n in sorted(counts.items()) if n}
                )
            )
            members.append(ArchiveMember(f"{top}/{name}", size, _opener(made)))
        done = Bundle(
            top,
            tuple(packed),
            tuple(names.text(name, Counter()) for name in left_out),
            looked_for(),
        )
        if output is not None:
            listed = Path(folder, CONTENTS)
            listed.write_text(_contents(done), encoding="utf-8")
            listing = ArchiveMember(
                f"{top}/{CONTENTS}", listed.stat().st_size, _opener(listed)
            )
            write_archive(output, [listing, *members])
    return done


def looked_for() -> tuple[str, ...]:
    """Kinds of secrets, with those of detect-secrets if it is installed."""
    more = more_secrets.kinds()
    if more:
        return (
            *KINDS,
            f"what detect-secrets {more_secrets.version()} knows: {', '.join(more)}",
        )
    return KINDS


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    return lambda: open_regular(path)


def _contents(done: Bundle) -> str:
    files = []
    for file in done.files:
        files.append(
            {"name": file.name, "bytes": file.size, "replaced": dict(file.replaced)}
        )
    content = {
        "schema": SCHEMA,
        "fusiondoc": __version__,
        "files": files,
        "left_out": list(done.left_out),
        "looked_for": list(done.looked_for),
    }
    return json.dumps(content, indent=1) + "\n"


def _files(
    capture: Path, sources: bool
) -> tuple[list[tuple[str, Path]], list[str]]:
    """The files that go with a bundle, and the names of the others."""
    taken: dict[str, Path] = {}
    for folder in _capture_folders(capture):
        Capture(folder)  # refuses links
        for name in (
            *_SMALL,
            f"{SOURCES}/index.json",
            f"{SOURCES}/*.py",
            "files/*",
            *LOGS,
        ):
            for path in sorted(folder.glob(name)):
                if _goes_with_it(name, path, sources):
                    taken[path.relative_to(capture).as_posix()] = path
    left_out = []
    for path in sorted(capture.rglob("*")):
        name = path.relative_to(capture).as_posix()
        if name not in taken and (path.is_file() or path.is_symlink()):
            left_out.append(name)
    return list(taken.items()), left_out


def _capture_folders(capture: Path) -> Iterator[Path]:
    """The capture's folder, and those of the runs inside it."""
    if not capture.is_symlink():
        yield capture
    for pattern in INNER:
        for folder in sorted(capture.glob(pattern)):
            if (
                folder.is_dir()
                and not folder.is_symlink()
                and (folder / REQUEST).is_file()
            ):
                yield folder


def _goes_with_it(name: str, path: Path, sources: bool) -> bool:
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        return False
    if name.startswith(SOURCES):
        return (
            sources
            and re.fullmatch(r"index\.json|\d{1,6}\.py", path.name) is not None
        )
    if name == FIXES and not sources:
        return False  # it holds lines of them
    if path.stat().st_size > MOST_SMALL and name not in LOGS:
        return False
    if name == "files/*":
        text = (
            re.fullmatch(r"[\w.-]{1,80}\.(?:cu|ptx|dot)", path.name, re.ASCII)
            is not None
        )
        return text and b"\0" not in read_within(path, MOST_SMALL).rstrip(b"\0")
    return True


def _names(capture: Capture, requests: list[Path]) -> Names:
    texts, folders = [], []
    for request in [Capture(path.parent).request for path in requests] or [
        capture.request
    ]:
        texts += [request.python or "", request.target.path or "", *request.command]
        if request.cwd:
            folders.append(request.cwd)
    environment = capture.records.environment.texts
    return names_in(
        [*texts, *environment.values()], sorted({*folders}), more_secrets.finder()
    )


# -- files ------------------------------------------------------------------------------------------------

_Way = Callable[[Names, IO[bytes], IO[bytes], "Counter[str]"], None]


def _way(name: str) -> _Way:
    if name.endswith(REQUEST):
        return _request
    if name.endswith(".json"):
        return _document
    if name.endswith(".jsonl"):
        return _records
    return _text


def _request(
    names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]
) -> None:
    data = names.document(source.read(), counts)
    content = json.loads(data)  # a capture has a whole request
    content["model"] = None  # it names the project
    content["host"] = (
        None  # a bundle may be made on another machine, which does not know the name
    )
    target.write(
        (json.dumps({**content, "bundled": True}, indent=1) + "\n").encode("utf-8")
    )


def _document(
    names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]
) -> None:
    target.write(names.document(source.read(), counts))


def _records(
    names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]
) -> None:
    for line in source:
        whole = line.endswith(b"\n")
        target.write(
            names.record(line[:-1] if whole else line, counts) + b"\n" * whole
        )


def _text(
    names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]
) -> None:
    for text in _stretches(source, names):
        target.write(names.text(text, counts).encode("utf-8", "surrogateescape"))


def _stretches(source: IO[bytes], names: Names) -> Iterator[str]:
    """Yield the text in parts whose ends cut no name and no secret. UTF-16 (a log
    of another system) becomes UTF-8."""
    rest = b""
    first = True
    decode: Callable[[bytes], bytes] | None = None
    while True:
        data = source.read(_CHUNK)
        if first:
            decode, first = utf16_decoder(data), False
        if not data:
            break
        rest += decode(data) if decode is not None else data
        end = _whole_part(rest, names)
        if end:
            yield rest[:end].decode("utf-8", "surrogateescape")
            rest = rest[end:]
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def _whole_part(data: bytes, names: Names) -> int:
    """Return how many bytes can be masked without the bytes behind them: up to the
    end of a line, or in a very long line up to a space; never inside a private key,
    a secret or a name. 0: more bytes are needed."""
    # Masking looks at the bytes behind a cut, so these must have been read.
    last = max(0, len(data) - _AROUND)
    end = data.rfind(b"\n", 0, last) + 1
    mark = b"\n"
    if not end and len(data) > _LONGEST_LINE:
        mark = b" "
        end = data.rfind(b" ", 0, last) + 1 or last
    if not end:
        return 0
    text = data[:end].decode("utf-8", "surrogateescape")
    keys = list(_KEY.finditer(text, max(0, len(text) - _HELD)))
    if keys and "-----END" not in text[keys[-1].start() :]:
        text = text[: keys[-1].start()]
        end = len(text.encode("utf-8", "surrogateescape"))
    position = end
    for number in range(_MOST_CUTS):
        if position <= 0:
            break
        if _nothing_across(data, position, names):
            return position
        # Without spaces any position will do: a token ends somewhere.
        before = data.rfind(mark, max(0, position - _AROUND), position - 1) + 1
        position = before or (position - 64 * (number + 1) if mark == b" " else 0)
    if len(data) > 2 * _LONGEST_LINE:
        return end
    return 0


def _nothing_across(data: bytes, position: int, names: Names) -> bool:
    """True if masking changes the text around a position in the same way in two
    pieces and in one."""

    def changed(start: int, end: int) -> str:
        return names.text(
            data[start:end].decode("utf-8", "surrogateescape"), Counter()
        )

    start, end = max(0, position - _AROUND), position + _AROUND
    return changed(start, end) == changed(start, position) + changed(position, end)
