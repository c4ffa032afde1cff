"""Sources of log bytes: files, folders, captures and stdin, compressed or not, read
in chunks of whole lines."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

from fusiondoc.errors import CannotRun, NotFound, UsageError
from fusiondoc.fusers import is_debug_file
from fusiondoc.model import dataclass
from fusiondoc.numbers import whole_number
from fusiondoc.whole_files import open_given, open_regular, refuse_endless

CHUNK_BYTES = 1 << 20
"""Read size: large enough that few runs of lines are split, small enough to bound
memory."""

MOST_LINE = 1 << 20
"""Number of bytes of a line that are kept; further bytes are only counted. No line
of torch is longer."""

MOST_XZ_MEMORY = 256 << 20
"""Number of bytes that unpacking .xz may use; ``xz -9`` needs 65 MiB."""

LEAST_LIMIT = 4 << 30
LIMIT_RATIO = 1000
"""Limit for the unpacked size of a compressed log: LEAST_LIMIT bytes, or
LIMIT_RATIO times its own size if that is more."""

_UTF8_MARK = b"\xef\xbb\xbf"

LOG_ENDINGS = (".log", ".txt", ".out", ".err", ".stderr", ".stdout")
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


@dataclass(frozen=True)
class LogInput:
    """One log to read. ``name`` is its name in evidence; ``path`` is None for
    stdin."""

    name: str
    path: Path | None
    rank: int | None = None
    """The rank of the process that wrote the log, from the log's name or the
    launcher (``workflows/__init__.py``)."""
    given: bool = False
    """True if the user named this file, which may then be a pipe; all others are
    regular files."""

    @property
    def is_packed(self) -> bool:
        """True if the file has the ending of a compressed file."""
        return self.path is not None and self.path.suffix.lower() in COMPRESSED


def find_logs(arguments: Sequence[str]) -> list[LogInput]:
    """Turn the arguments of a command into logs: a folder becomes its log files,
    ``-`` is stdin.

    Raises: NotFound: there is no such file or folder; the hint lists files with
    similar names. UsageError: it is a device, or a folder without a log.
    """
    found: list[LogInput] = []
    for argument in arguments:
        if argument == "-":
            found.append(LogInput("<stdin>", None))
            continue
        path = Path(argument)
        if path.is_dir():
            found.extend(_logs_in(path))
        elif path.is_char_device() or path.is_block_device():
            raise UsageError(
                f"{argument} is a device", "Give the path of a log, or - for stdin."
            )
        elif path.exists():
            found.append(LogInput(argument, path, given=True))
        else:
            raise _not_found(argument, path)
    return found


def _logs_in(folder: Path) -> list[LogInput]:
    if (folder / "request.json").is_file() and (folder / "log").is_file():
        ranks = sorted(folder.glob("ranks/*/log"))
        if ranks:
            return [
                LogInput(str(one), one)
                for one in ranks
                if whole_number(one.parent.name) is not None
            ]
        return [
            LogInput(str(one), one)
            for one in (folder / "log", *sorted(folder.glob("log.[12]")))
        ]
    paths = sorted(
        p
        for p in folder.rglob("*")
        if p.is_file() and _is_read(p) and not _leads_away(p)
    )
    if not paths:
        endings = ", ".join(LOG_ENDINGS)
        raise UsageError(
            f"no log files in the folder {folder}",
            f"Name the files, or give them one of the endings {endings}"
            f" (also compressed: {', '.join(COMPRESSED)}).",
        )
    return [LogInput(str(p), p) for p in paths]


def _is_read(path: Path) -> bool:
    """True for a file of a folder that is a log, or a debug file that a compiler
    wrote for a graph."""
    return is_log_name(path) or is_debug_file(path)


def _leads_away(path: Path) -> bool:
    """True for a link in a folder of logs that leads to a file without a size:
    reading a file of /proc may block for ever."""
    return path.is_symlink() and path.stat().st_size == 0


def is_log_name(path: Path) -> bool:
    name = path.name.lower()
    for ending in COMPRESSED:
        if name.endswith(ending):
            name = name[: -len(ending)]
    return name in ("log", "stdout", "stderr") or name.endswith(LOG_ENDINGS)


def _not_found(argument: str, path: Path) -> NotFound:
    from difflib import get_close_matches

    message = f"No such log: {argument}"
    if path.is_symlink():
        hint = f"It is a link to {path.readlink()}, which leads nowhere."
        return NotFound(message, hint, explained=True)
    folder = path.parent if path.parent.is_dir() else Path()
    names = [p.name for p in folder.iterdir()]
    near = get_close_matches(path.name, names, n=3, cutoff=0.5)
    if near:
        hint = (
            "Did you mean " + " or ".join(str(folder / name) for name in near) + "?"
        )
        return NotFound(message, hint, explained=True)
    return NotFound(
        message,
        "Give the path of a log, a folder of logs, a capture folder, or - for stdin.",
    )


def _open(log: LogInput) -> IO[bytes]:
    if log.path is None:
        if sys.stdin is None:
            raise UsageError(
                "the standard input is closed",
                "Pipe a log into it, or name a file.",
            )
        with contextlib.suppress(io.UnsupportedOperation):  # in a test
            refuse_endless(sys.stdin.buffer.fileno(), Path("/dev/stdin"))
        return sys.stdin.buffer
    name = log.path.name.lower()
    if not name.endswith(COMPRESSED):
        if log.given:
            return open_given(log.path)
        return open_regular(log.path, 0)
    if log.given and not log.path.is_file():
        raise OSError(
            errno.EINVAL, "by its ending it is compressed, and it is no file"
        )
    if name.endswith(".xz"):
        return cast("IO[bytes]", XzFile(log.path))
    if name.endswith(".zst"):
        return _open_zst(log.path)
    file = open_regular(log.path)
    unpacking = (
        gzip.GzipFile(fileobj=file) if name.endswith(".gz") else bz2.BZ2File(file)
    )
    return cast("IO[bytes]", _Unpacking(cast("IO[bytes]", unpacking), file))


class _Unpacking:
    """A stream that unpacks a file; closes both."""

    def __init__(self, stream: IO[bytes], file: IO[bytes]) -> None:
        self._stream, self._file = stream, file
        # read1 returns the data that could be unpacked before the point of
        # truncation.
        self.read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)

    def __enter__(self) -> _Unpacking:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        self._file.close()


def _what_to_do(error: OSError) -> str:
    if error.errno == errno.ETIMEDOUT:
        return "Start what writes into the pipe first, or name a file."
    if error.errno in (errno.EINVAL, errno.ENXIO):
        return "Give the path of a log, or pipe one into: fusiondoc parse -"
    return "Check its permissions."


class XzFile:
    """Unpacks .xz files with a limit on memory, which lzma.open does not have."""

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        self._stream = lzma.LZMADecompressor(memlimit=MOST_XZ_MEMORY)

    def read(self, size: int) -> bytes:
        """Return at least one and at most ``size`` bytes; b"" at the end.

        Raises:
            EOFError, lzma.LZMAError: the file is truncated, or not in xz format.
        """
        while True:
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data.lstrip(b"\0") or self._file.read(
                    1 << 16
                )
                if not data:
                    return b""
                self._stream = lzma.LZMADecompressor(memlimit=MOST_XZ_MEMORY)
            elif self._stream.needs_input:
                data = self._file.read(1 << 16)
                if not data:
                    raise EOFError("it is cut off")
            unpacked = self._stream.decompress(data, size)
            if unpacked:
                return unpacked

    def __enter__(self) -> XzFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _open_zst(path: Path) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise CannotRun(
            f"reading {path} needs the package zstandard, which is not installed",
            "pip install 'fusiondoc[zst]', or decompress it first: zstd -d "
            + str(path),
        ) from None
    file = open_regular(path)
    return cast(
        "IO[bytes]",
        _Zst(
            zstandard.open(cast("BinaryIO", file), "rb"), file, zstandard.ZstdError
        ),
    )


class _Zst(_Unpacking):
    """A .zst file. The package has its own exception for damaged files; this class
    raises EOFError, as for other formats."""

    def __init__(
        self, stream: IO[bytes], file: IO[bytes], broken: type[Exception]
    ) -> None:
        super().__init__(stream, file)

        def read(size: int) -> bytes:
            try:
                return stream.read(size)
            except broken as error:
                raise EOFError(str(error)) from None

        self.read = read


def read_chunks(
    log: LogInput, cut: Callable[[int, bool], None] | None = None
) -> Generator[bytes, None, None]:
    """Yield the decompressed bytes in chunks that end at a line end (the last may
    not); see ``whole_lines``.

    From a truncated compressed file everything that can be unpacked is read.
    """
    try:
        stream = _open(log)
    except OSError as error:
        raise UsageError(
            f"cannot read {log.name}: {error.strerror or error}", _what_to_do(error)
        ) from None
    with stream:
        yield from whole_lines(_blocks(stream, log), cut)


def content(log: LogInput) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked but otherwise unchanged.

    Raises:
        OSError, UsageError: it cannot be read, or its unpacked size is above the
            limit.
        CannotRun: the package that unpacks it is missing.
    """
    with _open(log) as stream:
        yield from _blocks(stream, log)


def whole_lines(
    blocks: Iterable[bytes], cut: Callable[[int, bool], None] | None = None
) -> Iterator[bytes]:
    """Yield blocks of a log as chunks that end at a line end (the last may not).
    ``cut`` is called with the number of bytes that a line has beyond MOST_LINE, and
    with True if they are the first such bytes of the line. UTF-16 logs (a Windows
    PowerShell redirect) are converted to UTF-8; the byte order mark of UTF-8
    (GitHub's logs) is removed."""
    # The beginning of a line that continues in the next block, and its bytes.
    rest: list[bytes | memoryview] = []
    held = 0
    cutting = False
    decode = None
    for number, block in enumerate(blocks):
        if not number:
            decode = utf16_decoder(block)
            block = block.removeprefix(_UTF8_MARK)
        if decode is not None:
            block = decode(block)
        end = block.rfind(b"\n") + 1
        if held >= MOST_LINE:
            over = block.find(b"\n") if end else len(block)
            if cut is not None:
                cut(over, not cutting)
            cutting = True
            if not end:
                continue
            block, end = block[over:], end - over
        if not end:
            rest.append(block)
            held += len(block)
            continue
        rest.append(memoryview(block)[:end])
        yield b"".join(rest)
        rest, cutting = [block[end:]], False
        held = len(rest[0])
    if any(rest):
        yield b"".join(rest)


def _blocks(stream: IO[bytes], log: LogInput) -> Iterator[bytes]:
    """Yield about CHUNK_BYTES at a time."""
    read = getattr(stream, "read1", stream.read)
    limit = _limit(log)
    parts: list[bytes] = []
    total = size = 0
    anything = False
    while True:
        try:
            part = read(CHUNK_BYTES)
        except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
            if not anything:
                raise UsageError(
                    f"cannot read {log.name}: {error}",
                    "By its ending it is compressed: check that it is, or rename it.",
                ) from None
            part = b""  # truncated: keep the data so far
        if part:
            anything = True
            parts.append(part)
            size += len(part)
            total += len(part)
            if limit is not None and total > limit:
                raise UsageError(
                    f"{log.name} unpacks to more than {limit >> 30} GiB",
                    "If that is right, unpack it and name the file.",
                )
        if parts and (size >= CHUNK_BYTES or not part):
            yield b"".join(parts)
            parts, size = [], 0
        if not part:
            return


def _limit(log: LogInput) -> int | None:
    """Return the limit for the unpacked size of a compressed log, in bytes; None
    for other logs."""
    if log.path is None or not log.is_packed:
        return None
    return max(LEAST_LIMIT, LIMIT_RATIO * log.path.stat().st_size)


def utf16_decoder(start: bytes) -> Callable[[bytes], bytes] | None:
    """Return a function that converts a log to UTF-8 block by block, if the log
    begins like UTF-16; else None."""
    name = _utf16_name(start)
    if name is None:
        return None
    import codecs

    decoder = codecs.getincrementaldecoder(name)(errors="replace")
    return lambda block: decoder.decode(block).encode("utf-8")


def _utf16_name(start: bytes) -> str | None:
    """Return the codec of UTF-16 text: by its byte order mark, or without one by
    the zeros in every second byte; else None."""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    sample = start[:4096]
    for name, zeros, letters in (
        ("utf-16-le", sample[1::2], sample[::2]),
        ("utf-16-be", sample[::2], sample[1::2]),
    ):
        if (
            len(zeros) > 16
            and zeros.count(0) * 10 > len(zeros) * 9
            and letters.count(0) * 10 < len(letters)
        ):
            return name
    return None
