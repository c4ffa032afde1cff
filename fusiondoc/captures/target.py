"""Reading what the user named: ``FILE.py``, ``FILE.py:NAME``, ``package.module:NAME`` or ``FILE.pt``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusiondoc.errors import UsageError, did_you_mean

ARCHIVE_ENDINGS = (".pt", ".pth", ".ts")
"""Endings of TorchScript archives; whether the file is one is for torch to say."""

IN_PROCESS = "process"
"""Kind of target of a capture that a program made of itself: there is nothing to run again."""

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
_FORMS = "A target is FILE.py, FILE.py:NAME, package.module:NAME or a TorchScript archive FILE.pt."


@dataclass(frozen=True)
class TargetSpec:
    """What to run. ``kind`` is "file", "module" or "archive"; ``path`` is absolute (None for a module)."""

    text: str
    kind: str
    path: Path | None = None
    module: str | None = None
    name: str | None = None

    @property
    def label(self) -> str:
        """How messages name it."""
        named = f":{self.name}" if self.name else ""
        return f"{self.path.name if self.path else self.module}{named}"

    @property
    def slug(self) -> str:
        """A name for folders: letters, digits, dots and underscores."""
        stem = self.path.stem if self.path else str(self.module)
        name = f"{stem}.{self.name}" if self.name and self.name != "model" else stem
        return re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._")[:60] or "target"

    def as_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "kind": self.kind,
            "path": str(self.path) if self.path else None,
            "module": self.module,
            "name": self.name,
        }


def parse_target(text: str, cwd: Path | None = None) -> TargetSpec:
    """Read a TARGET; relative paths start at ``cwd`` (by default the current folder).

    Raises:
        UsageError: there is no such file, or the text has none of the four forms.
    """
    folder = cwd or Path.cwd()
    file_text, name = _split_name(text)
    if name is not None and not _DOTTED.match(name):
        raise UsageError(f"'{name}' in '{text}' is not a Python name", _FORMS)
    path = folder / file_text
    ending = path.suffix.lower()
    if ending == ".py" or ending in ARCHIVE_ENDINGS:
        _must_be_file(path, file_text)
        if ending == ".py":
            return TargetSpec(text, "file", path=path.absolute(), name=name)
        if name is not None:
            raise UsageError(f"'{text}': an archive holds one model, so there is no ':{name}'", _FORMS)
        return TargetSpec(text, "archive", path=path.absolute())
    if _DOTTED.match(file_text) and name is not None:
        return TargetSpec(text, "module", module=file_text, name=name)
    raise UsageError(f"'{text}' is not a target" + _why_not(path, file_text), _next_step(path, file_text))


def _split_name(text: str) -> tuple[str, str | None]:
    head, colon, tail = text.rpartition(":")
    if not colon or tail.endswith((".py", *ARCHIVE_ENDINGS)) or "/" in tail:
        return text, None
    return head, tail


def _must_be_file(path: Path, text: str) -> None:
    if path.is_file():
        return
    if path.is_dir():
        raise UsageError(f"'{text}' is a folder", _FORMS)
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder '{Path(text).parent}'", _FORMS)
    endings = (".py", *ARCHIVE_ENDINGS)
    known = [one.name for one in path.parent.iterdir() if one.suffix in endings]
    where = "here" if path.parent == Path.cwd() else f"in '{Path(text).parent}'"
    hint = did_you_mean(path.name, known) if known else f"There are no .py or .pt files {where}."
    raise UsageError(f"there is no file '{text}'", hint)


def _why_not(path: Path, text: str) -> str:
    if path.is_dir():
        return ": it is a folder"
    if path.is_file():
        return f": the ending '{path.suffix}' is unknown" if path.suffix else ": it has no ending"
    return ""


def _next_step(path: Path, text: str) -> str:
    if path.is_file() and path.suffix in (".log", ".txt", ".gz", ".xz", ".bz2", ".zst", ".out", ".err"):
        return f"For a report from a log: fusiondoc parse {text}"
    if path.with_name(path.name + ".py").is_file():
        return f"Did you mean {text}.py? {_FORMS}"
    if _DOTTED.match(text) and not path.exists():
        return f"For a module give the name too: {text}:model. {_FORMS}"
    return _FORMS
