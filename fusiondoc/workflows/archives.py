"""Captures as one file, ``.tar.xz`` or ``.zip``: the same bytes for the same
content, and checked when read.

An archive may come from anybody. From a tar only plain files are taken (ustar, as
written here), from a zip only stored and deflated ones. Links, devices, ``..``,
encryption and archives that unpack to too much are refused before anything is
written, and names are checked against a list.
"""

from __future__ import annotations

import contextlib
import lzma
import re
import shutil
import struct
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from fusiondoc.captures.capture import FILES, LOGS
from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.parsers.lines.log_files import LIMIT_RATIO, XzFile
from fusiondoc.whole_files import open_regular, whole_file

ENDINGS = (".tar.xz", ".zip")

MOST_MEMBERS = 2000
LEAST_LIMIT = 2 << 30
"""Bytes that an archive may unpack to: this, or LIMIT_RATIO times its own size if
that is more."""
MOST_SMALL = 64 << 20
"""Most bytes of a file that is no log."""
_MOST_DIRECTORY = 1 << 20
"""Most bytes of the list of files in a zip, which is read whole."""

_BLOCK = 512
_TIME = 315532800
"""1980-01-01, the first day that a zip can name."""

_FOLDER = re.compile(r"[A-Za-z0-9][\w.=+-]{0,99}/")
_INNER = re.compile(
    r"(?:(?:rerun|unfused|fused-again|timing|timing-again|profile|kernels|(?:tries|fix|around)/[\w.=+-]{1,80}|ranks/\d{1,6})/)?"
)
_FILE = re.compile(
    "(?:"
    + "|".join(map(re.escape, FILES))
    + r"|bundle\.json|sources/index\.json|sources/\d{1,6}\.py"
    r"|files/[\w.-]{1,80}\.(?:cu|ptx|dot))\Z"
)

_BROKEN = (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, struct.error)
_HINT = "Unpack it yourself and name the log in it: fusiondoc parse FILE"


def is_archive_name(name: str) -> bool:
    """Whether a file is an archive by its name."""
    return name.lower().endswith(ENDINGS)


@dataclass(frozen=True)
class ArchiveMember:
    """A file of an archive: its name in it, its size in bytes, and how to read
    it."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def write_archive(path: Path, members: Sequence[ArchiveMember]) -> None:
    """Write the archive whole or not at all; the same members give the same bytes.

    Raises:
        OSError: it cannot be written.
        UsageError: it is too large for a zip file.
    """
    zipped = path.name.lower().endswith(".zip")
    if zipped and sum(member.size for member in members) >= 1 << 31:
        raise UsageError(
            "a zip file takes no more than 2 GiB", "Name a .tar.xz file."
        )
    with whole_file(path) as file:
        if zipped:
            with zipfile.ZipFile(
                file, "w", zipfile.ZIP_DEFLATED, allowZip64=False
            ) as packed:
                for member in members:
                    info = zipfile.ZipInfo(member.name, (1980, 1, 1, 0, 0, 0))
                    info.compress_type, info.external_attr, info.create_system = (
                        8,
                        0o644 << 16,
                        3,
                    )
                    with member.open() as data, packed.open(info, "w") as target:
                        shutil.copyfileobj(data, target, 1 << 20)
            return
        with (
            lzma.open(file, "wb", preset=4) as compressed,
            tarfile.open(
                fileobj=cast("IO[bytes]", compressed),
                mode="w|",
                format=tarfile.USTAR_FORMAT,
            ) as tar,
        ):
            for member in members:
                entry = tarfile.TarInfo(member.name)
                entry.size, entry.mtime, entry.mode = member.size, _TIME, 0o644
                with member.open() as data:
                    tar.addfile(entry, data)


@dataclass(frozen=True)
class Unpacked:
    """A capture from an archive, in a temporary folder that is removed when this
    object is no longer referenced."""

    path: Path
    folder: tempfile.TemporaryDirectory[str]


_UNPACKED: weakref.WeakSet[tempfile.TemporaryDirectory[str]] = weakref.WeakSet()


def remove_unpacked() -> None:
    """Remove the folders of all archives that were unpacked. A process ended by a
    signal does not release its objects."""
    for folder in list(_UNPACKED):
        with contextlib.suppress(OSError):
            folder.cleanup()


def unpack(path: Path) -> Unpacked:
    """The capture in an archive.

    Raises: UsageError: it is no archive, holds no capture, or holds something that
        no capture has.
    """
    folder = tempfile.TemporaryDirectory(prefix="fusiondoc-")
    _UNPACKED.add(folder)
    try:
        found = _unpack(path, Path(folder.name))
    except (
        *_BROKEN,
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # zipfile raises the last for ciphers
        folder.cleanup()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} cannot be read as an archive: {reason}", _HINT
        ) from None
    except BaseException:
        folder.cleanup()
        raise
    return Unpacked(found, folder)


def _unpack(path: Path, folder: Path) -> Path:
    left = max(LEAST_LIMIT, LIMIT_RATIO * path.stat().st_size)
    tops: set[str] = set()
    with open_regular(path) as file:
        zipped = path.name.lower().endswith(".zip")
        for name, size, data in _in_zip(file) if zipped else _in_tar(path):
            if size > left:
                raise UsageError(f"{path} unpacks to more than it may", _HINT)
            left -= size
            target = _member_path(path, name, size)
            if target is None:
                continue
            if size > shutil.disk_usage(folder).free // 2:
                raise UsageError(
                    f"{path} does not fit into {folder.parent} when it is unpacked",
                    "Name a folder with more space: TMPDIR=FOLDER fusiondoc ...",
                )
            tops.add(name.rpartition(target)[0])
            if len(tops) > 1:
                raise UsageError(f"{path} holds several captures", _HINT)
            member_file = folder / "capture" / target
            member_file.parent.mkdir(parents=True, exist_ok=True)
            with member_file.open("xb") as out:
                for chunk in data:
                    out.write(chunk)
    if not tops:
        raise UsageError(f"{path} holds no capture", _HINT)
    made = folder / tops.pop().rstrip("/")
    (folder / "capture").rename(made)
    return made


def _member_path(path: Path, name: str, size: int) -> str | None:
    """Return the path of a file below the capture; None for a file that no report
    needs."""
    if (
        name.startswith(("/", "\\"))
        or "\\" in name
        or ":" in name
        or ".." in name.split("/")
    ):
        raise UsageError(
            f"{path} holds a file outside of it: {name[:100]!r}", "It is not read."
        )
    top = _FOLDER.match(name)
    inner = _INNER.match(name, top.end()) if top is not None else None
    if top is None or inner is None or not _FILE.match(name, inner.end()):
        return None
    if size > MOST_SMALL and not name.endswith(tuple(f"/{name}" for name in LOGS)):
        raise UsageError(f"{path}: {name} is larger than any such file", _HINT)
    return name[top.end() :]


def _in_tar(path: Path) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """Name, size and content of each file; contents have to be read, or are
    skipped, in order."""
    with XzFile(path) as stream:
        for _ in range(MOST_MEMBERS):
            header = _exactly(stream, _BLOCK)
            if not header.strip(b"\0"):
                return
            if header[257:262] != b"ustar" or _sum(header) != int(
                header[148:156].strip(b" \0") or b"0", 8
            ):
                raise EOFError("it is no tar file")
            name = header[:100].split(b"\0")[0].decode("utf-8", "replace")
            prefix = header[345:500].split(b"\0")[0].decode("utf-8", "replace")
            kind = header[156:157]
            if kind not in (b"0", b"\0", b"5"):
                raise UsageError(
                    f"{path} holds a link, a device or something else that is not a file: {name[:100]!r}",
                    "It is not read. " + _HINT,
                )
            size = int(header[124:136].strip(b" \0") or b"0", 8)
            if size < 0 or (size and kind == b"5"):
                raise EOFError("it is no tar file")
            content = _content(stream, size)
            if kind != b"5":
                yield (f"{prefix}/{name}" if prefix else name), size, content
            for _rest in content:
                pass
            _exactly(stream, -size % _BLOCK)
    raise UsageError(f"{path} holds more than {MOST_MEMBERS} files", _HINT)


def _sum(header: bytes) -> int:
    return sum(header[:148]) + 8 * 32 + sum(header[156:])


def _content(stream: XzFile, size: int) -> Iterator[bytes]:
    while size:
        data = _exactly(stream, min(size, 1 << 20))
        size -= len(data)
        yield data


def _exactly(stream: XzFile, size: int) -> bytes:
    parts = []
    while size:
        data = stream.read(size)
        if not data:
            raise EOFError("it is cut off")
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def _in_zip(file: IO[bytes]) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    file.seek(0, 2)
    length = file.tell()
    file.seek(max(0, length - (1 << 16) - 22 - 20))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or b"PK\x06\x07" in tail[max(0, at - 20) : at]:
        raise EOFError("it is no zip file")
    number, size = struct.unpack_from("<HL", tail, at + 10)
    if number > MOST_MEMBERS or size > _MOST_DIRECTORY:
        raise UsageError(f"it holds more than {MOST_MEMBERS} files", _HINT)
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist():
            mode = info.external_attr >> 16
            if info.is_dir():
                continue
            plain = mode & 0o170000 in (0, 0o100000) and info.compress_type in (
                0,
                8,
            )
            if info.flag_bits & 1 or not plain:
                raise UsageError(
                    f"the file holds a link or something else that is not a file: {info.filename[:100]!r}",
                    "It is not read. " + _HINT,
                )
            yield info.filename, info.file_size, _zipped(packed, info)


def _zipped(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    done = 0
    with packed.open(info) as data:
        while True:
            chunk = data.read(1 << 20)
            if not chunk:
                return
            done += len(chunk)
            if done > info.file_size:
                raise EOFError("a file is larger than its header states")
            yield chunk
