"""What the catalogue holds: one class a kind of entry. Texts are plain sentences.

Named tuples, because the module behind dataclasses takes longer to import than the whole catalogue.
"""

from __future__ import annotations

from typing import NamedTuple

from fusiondoc.fuser_knobs.versions import Span


class Knob(NamedTuple):
    """A switch in ``torch._C`` that fusiondoc can set before a run (``--knob NAME=VALUE``)."""

    name: str
    fuser: str
    """What it belongs to: nvfuser, nnc, onednn, legacy, executor or log."""
    setter: str
    getter: str | None
    kind: str
    """switch, count, integer, strategy, operators, text, stream or function: how a value is written."""
    default: str
    does: str
    effect: str
    """What changes in a log or report when it is set, and when that is wanted."""
    live: tuple[Span, ...]
    """Where it does something. ``exists`` is wider where it stays behind as a no-op."""
    exists: tuple[Span, ...]
    source: str


class Variable(NamedTuple):
    """An environment variable."""

    name: str
    values: str
    default: str
    does: str
    live: tuple[Span, ...]
    """Empty for a variable that no release of torch reads."""
    source: str
    of_package: bool = False
    """Read by the stand-alone nvfuser package instead of torch."""


class Option(NamedTuple):
    """A word in PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE."""

    name: str
    does: str
    live: tuple[Span, ...]
    stream: str = "stdout"


class FuserDump(NamedTuple):
    """A dump of NNC or oneDNN Graph, by the name that ``--dump`` has for it."""

    name: str
    fuser: str
    """nnc or onednn."""
    does: str
    live: tuple[Span, ...]
    needs: tuple[tuple[str, str], ...]
    """Environment variables that make torch print it, each with its value."""


class LogFile(NamedTuple):
    """A file of torch that writes to the JIT log, named without folder and ending."""

    name: str
    least: int
    """The lowest level that prints anything: 0 ``name``, 1 ``>name``, 2 ``>>name``."""
    live: tuple[Span, ...]
    does: str | None
    """None where it is listed but has nothing to do with fusion."""
