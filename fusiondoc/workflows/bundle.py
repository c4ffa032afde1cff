"""A capture as one file for a bug report: with names replaced and secrets masked, and nothing that runs.

The log and copies of sources are changed here too: a capture keeps them as they are, a bundle is for others.

Names of a person and a machine out of texts: user, host, home folder, project, addresses; and secrets.

Each name becomes the same other name everywhere, so that what refers to the same file still does.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import re
import tempfile
from collections import Counter
from pathlib import Path, PurePath
from typing import IO, Any, Callable, Iterable, Iterator, Mapping, Sequence

from fusiondoc.captures.capture import FILES, INNER, LOGS, REQUEST, Capture
from fusiondoc.captures.trust import SOURCES, project_root
from fusiondoc.masking import MASK, is_secret, mask, masked_arguments
from fusiondoc.model import dataclass
from fusiondoc.parsers.lines.log_files import utf16_decoder
from fusiondoc.version import __version__
from fusiondoc.whole_files import open_regular, read_within
from fusiondoc.workflows.archives import MOST_SMALL, Member, write_archive

SECRET = "secret"

PROJECT, HOME, USER, HOST, ADDRESS = "/project", "/home/user", "user", "host", "name@example.com"

_HOMES = re.compile(r"(?:/home|/Users|[A-Za-z]:[\\/]+Users)[\\/]+([^\\/\s:\"'<>|*?]{1,64})")
_TLD = "com|org|net|edu|gov|mil|int|info|io|ai|dev|app|co|eu|[a-z]{2}"
_EMAIL = re.compile(
    rf"(?<![\w.+%@-])[\w.+%-]{{1,64}}@(?:[A-Za-z0-9-]{{1,63}}\.){{1,5}}(?:{_TLD})(?![\w.(\[@-])"
)

_WORDS = frozenset(
    re.findall(
        r"\w+",
        "root user users admin ubuntu debian centos runner jovyan test tests data home model models torch"
        " aten python prim cuda graph float int bool tensor self return block input inputs output outputs"
        " kernel app fusion host localhost node gpu cpu worker master main docker container build work"
        " project local log nobody true false none def with for size value profile fallback error warning"
        " iteration conda half student guest default system train train_model layer shape device double long",
    )
)
"""Words that a log is full of: such a user or host is replaced in paths and addresses only."""


@dataclass(frozen=True)
class Names:
    """What is replaced: patterns with what they become, each with its kind, in the order of their use."""

    rules: tuple[tuple[str, re.Pattern[str], str], ...]

    def text(self, text: str, counts: Counter[str]) -> str:
        """The text with names replaced and secrets masked; ``counts`` gets how many of each kind."""
        text, number = mask(text)
        counts[SECRET] += number
        for kind, pattern, other in self.rules:
            text, number = pattern.subn(lambda _, other=other: other, text)  # type: ignore[misc]
            counts[kind] += number
        return text

    def json(self, value: Any, counts: Counter[str]) -> Any:
        """The same for a value of JSON: keys too, and what is under the name of a secret."""
        if isinstance(value, str):
            return self.text(value, counts)
        if isinstance(value, list):
            return [self.json(one, counts) for one in value]
        if not isinstance(value, dict):
            return value
        made = {}
        for key, item in value.items():
            if isinstance(item, str) and is_secret(key, item):
                counts[SECRET] += 1
                item = MASK
            elif key in ("command", "script_args") and isinstance(item, list):
                words = [str(one) for one in item]
                item = list(masked_arguments(words))
                counts[SECRET] += sum(a != b for a, b in zip(words, item))
            made[self.text(key, counts)] = self.json(item, counts)
        return made

    def document(self, data: bytes, counts: Counter[str]) -> bytes:
        """A file of JSON; one that is damaged is text."""
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            return self.text(data.decode("utf-8", "replace"), counts).encode("utf-8", "replace")
        text = json.dumps(self.json(content, counts), indent=1) + "\n"
        return text.encode("utf-8", "backslashreplace")

    def record(self, line: bytes, counts: Counter[str]) -> bytes:
        """A line of JSON, without its end."""
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line.decode("utf-8", "replace"), counts).encode("utf-8", "replace")
        return json.dumps(self.json(content, counts)).encode("utf-8", "backslashreplace")


def names_in(paths: Iterable[str], folders: Sequence[str]) -> Names:
    """What to replace for a capture.

    Args:
        paths: texts that may hold home folders, such as the interpreter's path and the command.
        folders: those in which something ran; their projects are replaced.
    """
    homes = {str(Path.home()), os.path.realpath(Path.home()), os.environ.get("HOME") or "/"}
    users = set()
    with contextlib.suppress(Exception):  # no name for this number, no variable either
        users.add(getpass.getuser())
    for text in (*paths, *folders):
        for found in _HOMES.finditer(text):
            homes.add(found.group())
            users.add(found.group(1))
    projects = set(folders)
    for folder in folders:
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            if Path(folder).is_dir():
                projects |= {str(project_root(Path(folder))), os.path.realpath(folder)}
    projects -= homes
    users |= {PurePath(home).name for home in homes}
    hosts = {platform.node(), os.environ.get("HOSTNAME") or "", *_words_of_host()}
    rules = [("address", _EMAIL, ADDRESS)]
    for kind, folders_of, other in (("project", projects, PROJECT), ("home", homes, HOME)):
        for folder in sorted(folders_of, key=lambda one: (-len(one), one)):
            pattern = _path(folder)
            if pattern is not None:
                rules.append((kind, pattern, other))
    for kind, names, other in (("user", users, USER), ("host", hosts, HOST)):
        for name in sorted(names, key=lambda one: (-len(one), one)):
            if name and name != other:
                rules.append((kind, _word(name, in_paths=_is_common(name)), other))
    return Names(tuple(rules))


def _words_of_host() -> set[str]:
    """The machine's name without its domain, where there is one."""
    node = platform.node()
    return {node.partition(".")[0]} if "." in node else set()


def _is_common(name: str) -> bool:
    return len(name) < 3 or name.lower() in _WORDS or name.isdigit()


def _path(folder: str) -> re.Pattern[str] | None:
    """A folder in any text, with slashes of either kind; None for the root."""
    parts = [part for part in re.split(r"[\\/]+", folder) if part]
    if not parts or (len(parts) == 1 and parts[0].endswith(":")):
        return None
    start = "" if parts[0].endswith(":") else r"[\\/]+"
    # A single folder such as /work is also the end of other paths.
    before = r"(?<![\w.~/\\-])" if len(parts) == 1 else ""
    return re.compile(before + start + r"[\\/]+".join(map(re.escape, parts)) + r"(?![\w-]|\.\w)")


def _word(name: str, in_paths: bool) -> re.Pattern[str]:
    word = re.escape(name)
    if in_paths:
        homes = "|".join(rf"(?<=[/\\]{home}[/\\]){word}(?![\w-])" for home in ("home", "Users"))
        return re.compile(rf"{homes}|(?<!\w){word}(?=@[\w-])")
    return re.compile(rf"(?<![A-Za-z0-9])(?<!::)(?<!%){word}(?![A-Za-z0-9]|::)")


SCHEMA = "fusiondoc.bundle/1"
CONTENTS = "bundle.json"

_SMALL = tuple(name for name in FILES if name not in LOGS)

_CHUNK = 1 << 19
_HELD = 16 << 10
"""Characters at the end of a chunk in which a private key may begin."""
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")


@dataclass(frozen=True)
class Packed:
    """A file of a bundle: its name below the capture, its size in bytes, and what was replaced how often."""

    name: str
    size: int
    replaced: Mapping[str, int]


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds, and which files of the capture it leaves out."""

    name: str
    files: tuple[Packed, ...]
    left_out: tuple[str, ...]


def bundle(capture: Capture, output: Path | None, sources: bool = True) -> Bundle:
    """Pack a capture into ``output``; with None only say what would be in it.

    Args:
        sources: whether copies of the program's Python files go with it.

    Raises:
        UsageError: it does not fit into such an archive.
        OSError: the capture cannot be read, or the archive not be written.
    """
    found, left_out = _files(capture.path, sources)
    names = _names(capture, [path for name, path in found if name.endswith(REQUEST)])
    top = re.sub(r"[^\w.=+-]", "_", names.text(capture.name, Counter()), flags=re.ASCII)
    top = top.lstrip("._=+-")[:80] or "capture"
    packed: list[Packed] = []
    members: list[Member] = []
    # Only at the end are the sizes known, which an archive has before each file.
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
        for number, (name, path) in enumerate(found):
            counts: Counter[str] = Counter()
            made = Path(folder, str(number))
            with open_regular(path) as source, made.open("wb") as target:
                _way(name)(names, source, target, counts)
            size = made.stat().st_size
            packed.append(Packed(name, size, {kind: n for kind, n in sorted(counts.items()) if n}))
            members.append(Member(f"{top}/{name}", size, _opener(made)))
        done = Bundle(top, tuple(packed), tuple(names.text(name, Counter()) for name in left_out))
        if output is not None:
            listed = Path(folder, CONTENTS)
            listed.write_text(_contents(done), encoding="utf-8")
            listing = Member(f"{top}/{CONTENTS}", listed.stat().st_size, _opener(listed))
            write_archive(output, [listing, *members])
    return done


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    return lambda: open_regular(path)


def _contents(done: Bundle) -> str:
    files = [{"name": one.name, "bytes": one.size, "replaced": dict(one.replaced)} for one in done.files]
    content = {"schema": SCHEMA, "fusiondoc": __version__, "files": files, "left_out": list(done.left_out)}
    return json.dumps(content, indent=1) + "\n"


def _files(capture: Path, sources: bool) -> tuple[list[tuple[str, Path]], list[str]]:
    """The files that go with a bundle, and the names of the others."""
    folders = [capture, *(path for inner in INNER for path in sorted(capture.glob(inner)) if path.is_dir())]
    taken: dict[str, Path] = {}
    for folder in folders:
        if folder.is_symlink() or (folder != capture and not (folder / REQUEST).is_file()):
            continue
        inside = "" if folder == capture else folder.relative_to(capture).as_posix() + "/"
        Capture(folder)  # refuses links
        for name in (*_SMALL, f"{SOURCES}/index.json", f"{SOURCES}/*.py", "files/*", *LOGS):
            for path in sorted(folder.glob(name)):
                if _goes_with_it(name, path, sources):
                    taken[inside + path.relative_to(folder).as_posix()] = path
    every = (path for path in sorted(capture.rglob("*")) if path.is_file() or path.is_symlink())
    left = [path.relative_to(capture).as_posix() for path in every]
    return list(taken.items()), [name for name in left if name not in taken]


def _goes_with_it(name: str, path: Path, sources: bool) -> bool:
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        return False
    if name.startswith(SOURCES):
        return sources and re.fullmatch(r"index\.json|\d{1,6}\.py", path.name) is not None
    if path.stat().st_size > MOST_SMALL and name not in LOGS:
        return False
    if name == "files/*":
        text = re.fullmatch(r"[\w.-]{1,80}\.(?:cu|ptx|dot)", path.name, re.ASCII) is not None
        return text and b"\0" not in read_within(path, MOST_SMALL).rstrip(b"\0")
    return True


def _names(capture: Capture, requests: list[Path]) -> Names:
    texts, folders = [], []
    for request in [Capture(path.parent).request for path in requests] or [capture.request]:
        texts += [request.python or "", request.target.path or "", *request.command]
        folders += [request.cwd] if request.cwd else []
    environment = capture.records.environment.texts
    return names_in([*texts, *environment.values()], sorted({*folders}))


# -- files ------------------------------------------------------------------------------------------------

_Way = Callable[[Names, IO[bytes], IO[bytes], "Counter[str]"], None]


def _way(name: str) -> _Way:
    if name.endswith(REQUEST):
        return _request
    if name.endswith(".json"):
        return _document
    return _records if name.endswith(".jsonl") else _text


def _request(names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]) -> None:
    data = names.document(source.read(), counts)
    content = json.loads(data)  # a capture has a whole request
    content["model"] = None  # it names the project
    target.write((json.dumps({**content, "bundled": True}, indent=1) + "\n").encode("utf-8"))


def _document(names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]) -> None:
    target.write(names.document(source.read(), counts))


def _records(names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]) -> None:
    for line in source:
        whole = line.endswith(b"\n")
        target.write(names.record(line[:-1] if whole else line, counts) + b"\n" * whole)


def _text(names: Names, source: IO[bytes], target: IO[bytes], counts: Counter[str]) -> None:
    for text in _stretches(source):
        target.write(names.text(text, counts).encode("utf-8", "surrogateescape"))


def _stretches(source: IO[bytes]) -> Iterator[str]:
    """The text in parts that end where no name and no secret is cut: at the end of a line, and not within a
    private key. UTF-16 (a log of another system) becomes UTF-8."""
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
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) > 1 << 20:
            end = rest.rfind(b" ") + 1 or len(rest)
        text = rest[:end].decode("utf-8", "surrogateescape")
        keys = list(_KEY.finditer(text, max(0, len(text) - _HELD)))
        if keys and "-----END" not in text[keys[-1].start() :]:
            text = text[: keys[-1].start()]
            end = len(text.encode("utf-8", "surrogateescape"))
        if text:
            yield text
            rest = rest[end:]
    if rest:
        yield rest.decode("utf-8", "surrogateescape")
