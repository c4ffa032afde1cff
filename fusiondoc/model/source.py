"""The subject of a report (its target, the requested options, the texts that it
refers to), and source positions as logs and reports write them (``file:line`` or
``file:line:column``): which of them are the user's own lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from fusiondoc.model import dataclass, field
from fusiondoc.model.evidence import Evidence
from fusiondoc.model.typed_fields import as_json
from fusiondoc.numbers import whole_number

MOST_EVIDENCE = 200
"""Lines of evidence of one row that a report shows; the others are counted
(``evidence_left_out``)."""


_WRITTEN = re.compile(r"(.+?):([0-9]{1,9})(?::([0-9]{1,9}))?\Z", re.DOTALL)


PACKAGES = (
    r"(?:torch(?:vision|audio|text)?|transformers|timm|diffusers|accelerate|lightning(?:_fabric)?"
    r"|pytorch_lightning|deepspeed|apex|xformers|fairseq2?|monai|kornia|torch_geometric|einops)"
)
"""Packages whose files are known wherever they are installed (``pip install
--target``), as a pattern."""


@dataclass(frozen=True)
class Source:
    """A position in a source file. Reports hold it as text; ``parse`` reads that
    text."""

    file: str
    """As printed. TorchScript has ``<string>`` for the formulas of its autodiff
    (torch/csrc/jit/frontend/source_range.cpp prints the name of the source)."""
    line: int
    """From 1."""
    column: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> Source | None:
        """Return the position that a text names; None if it names none.

        A drive letter and other colons in the file's name are not the line:
        ``C:\\m.py:3:4`` is line 3 of ``C:\\m.py``.
        """
        if text:
            return _parsed(text)
        return None

    def __str__(self) -> str:
        if self.column is None:
            return self.at_line
        return f"{self.at_line}:{self.column}"

    @property
    def at_line(self) -> str:
        """``file:line``, without the column."""
        return f"{self.file}:{self.line}"

    @property
    def has_file(self) -> bool:
        """False for ``<string>`` and its like, which are no files."""
        return not self.file.startswith("<")


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Source | None:
    found = _WRITTEN.match(text)
    if found is None:
        return None
    file, line, column = found.groups()
    number = whole_number(line)
    if number is None:
        return None
    return Source(file, number, None if column is None else whole_number(column))


def file_of(text: str | None) -> str | None:
    """Return the file of a position, as ``Source.parse`` would find it, without
    making a ``Source``: reports call it for each row."""
    found = _WRITTEN.match(text) if text else None
    if found is None:
        return None
    return found[1]


_INSTALLED = re.compile(r".*(?:^|[/\\])(?:site|dist)-packages[/\\](?=.)", re.DOTALL)


def without_packages(source: str) -> str:
    """Return the position in an installed package from the package's name on:
    ``torch/nn/functional.py:1``."""
    found = _INSTALLED.match(source)  # not sub, which searches at each character
    if found:
        return source[found.end() :]
    return source


_KNOWN = re.compile(rf".*[/\\](?={PACKAGES}[/\\])", re.DOTALL)


def from_package(source: str) -> str:
    """Return the position as ``without_packages`` does; also for a file of a
    well-known package that is installed elsewhere."""
    short = without_packages(source)
    found = _KNOWN.match(source) if short == source else None
    if found is None:
        return short
    return source[found.end() :]


def path_ends_with(path: str, end: str) -> bool:
    """True if the last parts of a path are those of ``end``, whatever separates
    them."""
    parts, last = _parts(path), _parts(end)
    return bool(last) and parts[-len(last) :] == last


def _parts(path: str) -> list[str]:
    parts = []
    for part in path.replace("\\", "/").split("/"):
        if part not in ("", "."):
            parts.append(part)
    return parts


def last_name(path: str) -> str:
    """The name of a file, whatever separates the folders before it."""
    return re.split(r"[/\\]", path)[-1]


_LIBRARY = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3(?:\.\d+)?|torch[/\\](?:nn|_jit_internal|functional"
    rf"|jit|autograd|distributed)|site[/\\]{PACKAGES})[/\\.]|^<"
)

SourceMap = Mapping[str, tuple[str, ...]]
"""``op|source`` -> ``file:line`` of each of the user's calls that leads to the
operator, as the probe found them in the un-inlined graph; ``|source`` for all
operators there, without the column for graphs of AOTAutograd."""


def user_line(source: str) -> str | None:
    """Return ``file:line`` if the range is in the user's own files; None for
    torch's own files and for autodiff formulas."""
    found = _WRITTEN.match(source)
    if found is None:
        return None
    file, line, column = found.groups()
    if column is None or is_of_library(file):
        return None
    return f"{file}:{whole_number(line)}"


@lru_cache(maxsize=1024)
def is_of_library(file: str) -> bool:
    """True if a file belongs to Python, torch or another installed package."""
    return _LIBRARY.search(file) is not None


def users_lines(op: str, source: str | None, known: SourceMap) -> tuple[str, ...]:
    """The lines of the user's program that an operator may come from: all that call
    the line of a package."""
    if source is None:
        return ()
    line = user_line(source)
    if line is not None:
        return (line,)
    # The code of an FX graph has one operator a line: its map has no columns.
    for key in (f"{op}|{source}", f"|{source}", f"|{source.rpartition(':')[0]}"):
        if key in known:
            return known[key]
    return ()


def user_source(op: str, source: str | None, known: SourceMap) -> str | None:
    """Return the line of the user's program that an operator comes from; None if it
    is not known."""
    lines = users_lines(op, source, known)
    if len(lines) == 1:
        return lines[0]
    return None


class OptionInWords(NamedTuple):
    """An option and its value in words."""

    name: str
    value: str


def in_words(value: object) -> str | None:
    """Return the value of an option, or of a fact about a machine, in words; None
    if it is not set."""
    if value is None or value in ((), [], {}):
        return None
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={element}" for name, element in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)


@dataclass(frozen=True)
class Options:
    """The options of a run as a capture keeps them; ``RunRequest`` describes each.
    None: not known."""

    fuser: str | None = None
    frontend: str | None = None
    recipes: tuple[str, ...] = ()
    runs: int | None = None
    backward: bool | None = None
    trace: bool | None = None
    script: bool | None = None
    script_args: tuple[str, ...] = ()
    step_function: str | None = None
    inputs: tuple[str, ...] = ()
    device: str | None = None
    seed: int | None = field(
        default=None, metadata={"unsigned": True}
    )  # as torch.manual_seed takes them
    timeout: float | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    dumps: tuple[str, ...] = ()
    verify: bool | None = None
    mode: str | None = None
    dynamic: bool | None = None
    no_run: bool | None = None
    no_freeze: bool | None = None
    freeze: bool | None = None
    eval: bool | None = None
    in_place_off: bool | None = None
    timing: bool | None = None
    timing_rounds: int | None = None
    profile: bool | None = None
    log_limit: int | None = None
    launcher: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = as_json(self)
        return found

    def values_in_words(self) -> tuple[OptionInWords, ...]:
        """The options that are set, in the order of the fields."""
        values = []
        for option in fields(self):
            value = getattr(self, option.name)
            text = in_words(value) if value is not False else None
            if text is not None:
                values.append(OptionInWords(option.name, text))
        return tuple(values)


@dataclass(frozen=True)
class Target:
    """The subject of a report. For logs alone only the name is known."""

    name: str | None = None
    """The name that the user gave; for logs the names of the first three."""
    frozen: str | None = None
    """Who froze the module: "fusiondoc" or "program"; None if nobody did, or it is
    not known."""
    command: tuple[str, ...] = ()
    """The command line of fusiondoc."""
    options: Options | None = None
    """The options of the run."""
    environment_set: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that fusiondoc set."""
    capture: str | None = None
    """The folder of the capture, relative to the current one."""
    folder: str | None = None
    """The folder that the program was run in."""
    logs: int = field(default=1, metadata={"json": False})
    """Number of files that were read, for a report on logs alone."""
    logs_in: str | None = field(default=None, metadata={"json": False})
    """The folder that holds all these files and no others, if there are several."""
    model: str | None = None
    """The model, for reports on many runs: the label that was given, else its
    position in its project; None if the capture does not contain it."""

    @property
    def of_capture(self) -> bool:
        """True if the requested options are known."""
        return self.capture is not None or self.options is not None


class Texts(Protocol):
    """Texts that a report refers to and does not hold, read on demand."""

    def source(self, file: str) -> str | None:
        """Return the program's own source file, by its name in the log; None if it
        is not available."""

    def is_elsewhere(self, file: str) -> bool:
        """True if the file is on this machine, but is not read because it belongs
        to another project."""

    def log(
        self, lines: Iterable[Evidence], graphs: Iterable[Evidence]
    ) -> Mapping[Evidence, str]:
        """Return lines of the log, and graphs that begin on a line of it, without
        the prefixes of torch and launchers; entries that cannot be read again are
        missing."""
