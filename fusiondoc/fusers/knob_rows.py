"""Knobs, environment variables and dumps: the kinds of rows in a fuser's catalogue,
and versions of torch.

Texts are plain sentences. Named tuples, because there are many rows, and making a
dataclass takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fusiondoc.numbers import version_pair

Version = tuple[int, int]
"""Major and minor number of a version of torch."""

OLDEST: Version = (1, 11)
NEWEST: Version = (2, 13)
"""The newest torch whose facts are in the catalogue. A newer torch is assumed to be
like it."""


class Span(NamedTuple):
    """The versions from ``first`` to ``last``, both included; open to newer ones if
    ``last`` is NEWEST."""

    first: Version
    last: Version

    def __contains__(self, version: object) -> bool:
        if not isinstance(version, tuple):
            return False
        return self.first <= version and (
            version <= self.last or self.last == NEWEST
        )

    def __str__(self) -> str:
        first, last = (
            ".".join(map(str, version)) for version in (self.first, self.last)
        )
        if first == last:
            return first
        return f"{first} to {last}"


def span(text: str) -> Span:
    """The span that a text such as "1.12-2.1", or a single version such as "1.11",
    names."""
    first, _, last = text.partition("-")
    begin, end = version_pair(first), version_pair(last or first)
    assert begin is not None and end is not None, text
    return Span(begin, end)


FUNCTIONS = "torch._C"
"""The owner of a knob that functions set and read."""


class Knob(NamedTuple):
    """A switch of torch that fusiondoc can set before a run (``--knob
    NAME=VALUE``)."""

    name: str
    fuser: str
    """The fuser, executor or log that it belongs to."""
    setter: str
    """A function of ``owner``, or an attribute that is set and read."""
    getter: str | None
    kind: str
    """The kind of its value: switch, count, integer, ratio, strategy, operators,
    text, stream, function."""
    default: str
    does: str
    effect: str
    """The effect on a log or report when it is set, and when to set it."""
    live: tuple[Span, ...]
    """Versions in which it has an effect. ``exists`` is wider if it remains as a
    no-op."""
    exists: tuple[Span, ...]
    source: str
    owner: str = FUNCTIONS
    """The module that has it."""
    device: str | None = None
    """The only type of device for which it has an effect."""

    @property
    def in_python(self) -> tuple[str, ...]:
        """The full names in torch of its setter and getter."""
        names = []
        for name in (self.setter, self.getter):
            if name:
                names.append(f"{self.owner}.{name}")
        return tuple(names)


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
    """Whether a stand-alone package of the fuser reads it, instead of torch."""


class Option(NamedTuple):
    """A word in a variable that takes a list of options."""

    name: str
    does: str
    live: tuple[Span, ...]
    stream: str = "stdout"


class FuserDump(NamedTuple):
    """A dump that is no option of a variable, by its name in ``--dump``."""

    name: str
    fuser: str
    """The fuser's name."""
    does: str
    live: tuple[Span, ...]
    needs: tuple[tuple[str, str], ...]
    """Environment variables that make torch print it, each with its value."""


@dataclass(frozen=True)
class FuserCatalogue:
    """The knobs, variables and dumps of a fuser that ``fusiondoc knobs`` lists."""

    variable_families: tuple[str, ...] = ()
    """Prefixes of the names of its environment variables."""
    printing_variables: tuple[str, ...] = ()
    """Variables, other than those of torch's log, that make it or its library
    print."""
    knobs: tuple[Knob, ...] = ()
    variables: tuple[Variable, ...] = ()
    options: Mapping[str, tuple[Option, ...]] = field(default_factory=dict)
    """Variable -> the options that may be listed in it; the first variable is that
    of dumps."""
    package_options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Variable of its stand-alone package -> the words that it may hold."""
    dumps: tuple[FuserDump, ...] = ()
    """Dumps of kernels that are no option of a variable."""
    usual_dumps: tuple[str, ...] = ()
    """Dumps without which a log names none of its kernels."""
    log_files: Mapping[str, str] = field(default_factory=dict)
    """File of torch that writes to the JIT log -> what it logs about this fuser."""
    own_log_files: tuple[tuple[str, int, str], ...] = ()
    """Files that only this fuser has: versions, the least level that prints,
    names."""


ALL = span("1.11-2.13")
FROM_12 = span("1.12-2.13")


def knob(
    name: str,
    fuser: str,
    functions: str,
    kind: str,
    default: str,
    does: str,
    effect: str,
    source: str,
    live: Span = ALL,
    exists: Span | None = None,
) -> Knob:
    """A row; ``functions`` names setter and getter in ``torch._C``."""
    setter, _, getter = functions.partition(" ")
    return Knob(
        name,
        fuser,
        setter,
        getter or None,
        kind,
        default,
        does,
        effect,
        (live,),
        (exists or live,),
        source,
    )


def variables(
    versions: str, *rows: tuple[str, str, str, str, str]
) -> tuple[Variable, ...]:
    """Variables of the same versions; ``versions`` empty: no release reads them."""
    live = (span(versions),) if versions else ()
    made = []
    for name, values, default, does, source in rows:
        made.append(Variable(name, values, default, does, live, source))
    return tuple(made)


def of_package(source: str, *rows: tuple[str, str, str]) -> tuple[Variable, ...]:
    """Variables of a stand-alone package."""
    variables = []
    for name, values, does in rows:
        variables.append(Variable(name, values, "", does, (), source, True))
    return tuple(variables)


def options(versions: str, *rows: tuple[str, ...]) -> tuple[Option, ...]:
    """Options of the same versions."""
    live = (span(versions),)
    return tuple(Option(row[0], row[1], live, *row[2:]) for row in rows)


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
