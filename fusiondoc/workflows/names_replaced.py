"""Replace names of people and machines in texts: user, host, home, project,
folders, addresses; and secrets.

Each name gets the same replacement everywhere, so that two mentions of one file
still match.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any

from fusiondoc.captures.trust import project_root
from fusiondoc.masking import MASK, is_secret, mask, masked_arguments
from fusiondoc.model import dataclass

SECRET = "secret"

PROJECT, HOME, USER, HOST, ADDRESS = (
    "/project",
    "/home/user",
    "user",
    "host",
    "name@example.com",
)

MoreSecrets = Callable[[str], "tuple[str, int]"]
"""Another finder of secrets: returns the masked text, and the number of secrets."""

_HOMES = re.compile(
    r"(?:/home|/Users|[A-Za-z]:[\\/]+Users)[\\/]+([^\\/\s:\"'<>|*?]{1,64})"
)
_TLD = (
    "com|org|net|edu|gov|mil|int|info|io|ai|dev|app|co|eu|cloud|tech|online|site|xyz|me|biz|name|corp|local|lan"
    "|internal|intranet|home|company|group|global|systems|solutions|software|agency|science|academy|university"
    "|health|bank|gmbh|test|example|invalid|[a-z]{2}"
)
_LABELS = r"(?:[A-Za-z0-9-]{1,63}\.){1,5}"
_EMAIL = re.compile(
    rf"(?<![\w.+%@-])[\w.+%-]{{1,64}}@{_LABELS}(?:{_TLD}|{_TLD.upper()})"
    r"(?![\w(\[@-]|\.\w)"
)

_FOLDERS_OF_OTHERS = (
    *(
        "opt",
        "srv",
        "mnt",
        "media",
        "data",
        "scratch",
        "nfs",
        "gpfs",
        "lustre",
        "share",
        "shared",
        "storage",
    ),
    *("projects", "workspace", "workspaces", "work", "Volumes", "home", "Users"),
)
_FOLDERS = re.compile(
    rf"(?<![\w.~/\\-])(/(?:{'|'.join(_FOLDERS_OF_OTHERS)})/+)([\w.+@-]{{1,64}})(?![\w.+@-])"
)
_FOLDER_HINTS = tuple(f"/{name.lower()}/" for name in _FOLDERS_OF_OTHERS)
"""Folders whose next part is the name of a company, a team or a person."""

_KNOWN_FOLDERS = frozenset(
    re.findall(
        r"[\w.+-]+",
        "user project conda miniconda miniconda3 anaconda anaconda3 mambaforge miniforge miniforge3 mamba"
        " micromamba pytorch torch rocm nvidia cuda intel hpcx amazon aws google hostedtoolcache homebrew"
        " local python python3 venv env envs bin lib lib64 share src app app-root data datasets models tmp"
        " cache work home ray spark ml root imagenet coco c4 runner ubuntu jovyan admin test",
    )
)
"""Folders that many machines have; paths below them stay readable."""

_WORDS = frozenset(
    re.findall(
        r"\w+",
        "root user users admin ubuntu debian centos runner jovyan test tests data home model models torch"
        " aten python prim cuda graph float int bool tensor self return block input inputs output outputs"
        " kernel app fusion host localhost node gpu cpu worker master main docker container build work"
        " project local log nobody true false none def with for size value profile fallback error warning"
        " iteration conda half student guest default system train train_model layer shape device double long"
        " max min mean sum add mul div sub exp cat view relu silu gelu tanh norm linear conv dropout softmax"
        " loss step rank debug info batch weight bias grad forward backward",
    )
)
"""Words that are frequent in logs: a user or host of that name is replaced in paths
and addresses only."""

_Other = str | Callable[[re.Match[str]], str]


class _Numbered:
    """Folders by number, in the order in which a capture names them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, found: re.Match[str]) -> str:
        below, name = found.groups()
        plain = name.rstrip(".")
        is_file = re.search(r"\.\w{1,5}$", plain) and not found.string.startswith(
            "/", found.end()
        )
        if (
            is_file
            or plain.lower() in _KNOWN_FOLDERS
            or re.fullmatch(r"folder\d+|python[\d.]*|cuda-[\d.]+", plain)
        ):
            return found.group()
        number = self._numbers.setdefault(
            below.strip("/") + "/" + plain, len(self._numbers) + 1
        )
        return f"{below}folder{number}{name[len(plain) :]}"


@dataclass(frozen=True)
class Replacement:
    """``pattern`` is replaced by ``other`` in a text that has one of ``hints`` in
    it, in lower case: searching for a hint first is many times faster."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    other: _Other


@dataclass(frozen=True)
class Names:
    """The replacements, in the order in which they are made."""

    rules: tuple[Replacement, ...]
    more_secrets: MoreSecrets | None = None

    def text(self, text: str, counts: Counter[str]) -> str:
        """Return the text with names replaced and secrets masked; add the number of
        each kind to ``counts``."""
        text, number = mask(text)
        counts[SECRET] += number
        if self.more_secrets is not None:
            text, number = self.more_secrets(text)
            counts[SECRET] += number
        lower = text.lower()
        for rule in self.rules:
            if any(hint in lower for hint in rule.hints):
                text, number = _replaced(rule.pattern, rule.other, text)
                counts[rule.kind] += number
        return text

    def json(self, value: Any, counts: Counter[str]) -> Any:
        """The same for a JSON value: also keys, and values under the name of a
        secret."""
        if isinstance(value, str):
            return self.text(value, counts)
        if isinstance(value, list):
            return [self.json(item, counts) for item in value]
        if not isinstance(value, dict):
            return value
        made = {}
        for key, item in value.items():
            if isinstance(item, str) and is_secret(key, item):
                counts[SECRET] += 1
                item = MASK
            elif key in ("command", "script_args") and isinstance(item, list):
                words = [str(text) for text in item]
                item = list(masked_arguments(words))
                counts[SECRET] += sum(a != b for a, b in zip(words, item))
            made[self.text(key, counts)] = self.json(item, counts)
        return made

    def document(self, data: bytes, counts: Counter[str]) -> bytes:
        """The same for a JSON file; a damaged one is treated as text."""
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            return self.text(data.decode("utf-8", "replace"), counts).encode(
                "utf-8", "replace"
            )
        text = json.dumps(self.json(content, counts), indent=1) + "\n"
        return text.encode("utf-8", "backslashreplace")

    def record(self, line: bytes, counts: Counter[str]) -> bytes:
        """The same for a line of JSON, without its end."""
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line.decode("utf-8", "replace"), counts).encode(
                "utf-8", "replace"
            )
        return json.dumps(self.json(content, counts)).encode(
            "utf-8", "backslashreplace"
        )


def _replaced(
    pattern: re.Pattern[str], other: _Other, text: str
) -> tuple[str, int]:
    number = 0

    def put(found: re.Match[str]) -> str:
        nonlocal number
        made = other if isinstance(other, str) else other(found)
        number += made != found.group()
        return made

    return pattern.sub(put, text), number


def names_in(
    paths: Iterable[str],
    folders: Sequence[str],
    more_secrets: MoreSecrets | None = None,
) -> Names:
    """The names to replace in a capture.

    Args: paths: texts that may hold home folders, such as the interpreter's path
        and the command. folders: folders in which a program ran; their projects are
        replaced. more_secrets: finds secrets that fusiondoc does not know.
    """
    homes = {
        str(Path.home()),
        os.path.realpath(Path.home()),
        os.environ.get("HOME") or "/",
    }
    users = set()
    with contextlib.suppress(
        Exception
    ):  # no user name for this id, and no variable either
        users.add(getpass.getuser())
    for text in (*paths, *folders):
        for found in _HOMES.finditer(text):
            homes.add(found.group())
            users.add(found.group(1))
    projects = set(folders)
    for folder in folders:
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            if Path(folder).is_dir():
                projects |= {
                    str(project_root(Path(folder))),
                    os.path.realpath(folder),
                }
    projects -= homes
    users |= {PurePath(home).name for home in homes}
    hosts = {platform.node(), os.environ.get("HOSTNAME") or "", *_words_of_host()}
    rules = [Replacement("address", ("@",), _EMAIL, ADDRESS)]
    for kind, folders_of, other in (
        ("project", projects, PROJECT),
        ("home", homes, HOME),
    ):
        for folder in sorted(folders_of, key=lambda text: (-len(text), text)):
            pattern = _path(folder)
            if pattern is not None:
                last = re.split(r"[\\/]+", folder.rstrip("\\/"))[-1]
                rules.append(Replacement(kind, (last.lower(),), pattern, other))
    rules.append(Replacement("folder", _FOLDER_HINTS, _FOLDERS, _Numbered()))
    for kind, names, other in (("user", users, USER), ("host", hosts, HOST)):
        for name in sorted(names, key=lambda text: (-len(text), text)):
            if name and name != other:
                common = _is_common(name)
                pattern = _word(name, in_paths=common, is_host=kind == "host")
                rules.append(
                    Replacement(
                        kind, _hints_of_word(name.lower(), common), pattern, other
                    )
                )
    return Names(tuple(rules), more_secrets)


def _words_of_host() -> set[str]:
    """The machine's name without its domain, if it has a name."""
    node = platform.node()
    if "." in node:
        return {node.partition(".")[0]}
    return set()


def _is_common(name: str) -> bool:
    return len(name) < 3 or name.lower() in _WORDS or name.isdigit()


def _path(folder: str) -> re.Pattern[str] | None:
    """Return the replacement of a folder in any text, with slashes of either kind;
    None for the root."""
    parts = [part for part in re.split(r"[\\/]+", folder) if part]
    if not parts or (len(parts) == 1 and parts[0].endswith(":")):
        return None
    start = "" if parts[0].endswith(":") else r"[\\/]+"
    # A single folder such as /work is also the end of other paths.
    before = r"(?<![\w.~/\\-])" if len(parts) == 1 else ""
    return re.compile(
        before + start + r"[\\/]+".join(map(re.escape, parts)) + r"(?![\w-]|\.\w)"
    )


def _hints_of_word(name: str, in_paths: bool) -> tuple[str, ...]:
    if not in_paths:
        return (name,)
    below = []
    for home in ("home", "users"):
        for slash in "/\\":
            below.append(f"{home}{slash}{name}")
    return (f"{name}@", *below)


def _word(name: str, in_paths: bool, is_host: bool) -> re.Pattern[str]:
    """Return the replacement of a name in any text, also in capitals; a host also
    with its domain."""
    word = re.escape(name)
    domain = ""
    if is_host:
        domain = rf"(?:\.[A-Za-z0-9-]{{1,63}}){{1,4}}\.(?:{_TLD})(?![\w-])"
    if in_paths:
        parts = []
        for home in ("home", "Users"):
            parts.append(rf"(?<=[/\\]{home}[/\\]){word}(?![\w-])")
        homes = "|".join(parts)
        return re.compile(rf"{homes}|(?<!\w){word}(?=@[\w-])")
    behind = rf"(?:{domain})?" if domain else ""
    return re.compile(
        rf"(?i)(?<![A-Za-z0-9])(?<!::)(?<!%){word}(?![A-Za-z0-9]|::){behind}"
    )
