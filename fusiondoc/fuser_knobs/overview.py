"""The catalogue for a given torch version and environment, as ``fusiondoc knobs``
shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from fusiondoc.errors import UsageError, did_you_mean, nearest
from fusiondoc.fuser_knobs import LogFile, catalogue, checks, describe, exists_in
from fusiondoc.fuser_knobs.catalogue import LOG_FILES, as_version
from fusiondoc.fuser_knobs.checks import JIT_LOG, check_log_level, log_level_notes
from fusiondoc.fuser_knobs.variable_table import (
    FUSER_DUMPS,
    OPTIONS,
    PACKAGE_OPTIONS,
)
from fusiondoc.fusers import FUSERS
from fusiondoc.fusers.knob_rows import (
    FuserDump,
    Knob,
    Option,
    Span,
    Variable,
    Version,
)
from fusiondoc.model import dataclass
from fusiondoc.model.runs import TriedKnob

SCHEMA = "fusiondoc.knobs/1"

_FAMILIES = (
    "PYTORCH_JIT",
    *(
        begin
        for fuser in FUSERS.values()
        for begin in fuser.catalogue.variable_families
    ),
)
_PACKAGE = " or ".join(
    fuser.name for fuser in FUSERS.values() if fuser.catalogue.package_options
)
"""Prefixes of variables: one with such a prefix that is not in the catalogue is
probably misspelled."""


@dataclass(frozen=True)
class KnobHere:
    """A knob of the catalogue, with its state on this torch."""

    name: str
    fuser: str
    functions: tuple[str, ...]
    """Full names in torch of its setter and getter."""
    value: str
    """The syntax of a value, in words."""
    default: str
    does: str
    effect: str
    live_in: str
    """The versions in which it has an effect, in words; so in all classes here."""
    exists_in: str
    source: str
    effective: str | None
    live: bool | None
    no_op: bool
    """It still exists in this torch, but has no effect."""
    why: str | None


@dataclass(frozen=True)
class VariableHere:
    """An environment variable of the catalogue, and its value in this
    environment."""

    name: str
    value: str
    options: tuple[str, ...] | None
    """The words that it accepts; None if it accepts no list of words."""
    default: str
    does: str
    live_in: str
    source: str
    live: bool | None
    """Whether this torch reads it; None without a torch; the same in the classes
    below."""
    current: str | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class OptionHere:
    """A word that an environment variable accepts."""

    name: str
    does: str
    live_in: str
    stream: str
    live: bool | None


@dataclass(frozen=True)
class DumpHere:
    """A dump that is no option of a variable."""

    name: str
    fuser: str
    does: str
    needs: Mapping[str, str]
    """The environment variables that make torch print it."""
    live_in: str
    live: bool | None


@dataclass(frozen=True)
class LogFileHere:
    """A file of torch that writes to the JIT log."""

    name: str
    least: str
    """Its name with the prefix for the lowest level that prints anything."""
    does: str | None
    live_in: str
    live: bool | None


Entry = KnobHere | VariableHere | OptionHere | DumpHere | LogFileHere


class NamedEntry(NamedTuple):
    """An entry with the given name, and its kind, in words."""

    kind: str
    entry: Entry


@dataclass(frozen=True)
class Overview:
    """Everything in the catalogue with its state here. As JSON it is the output of
    ``fusiondoc knobs``."""

    schema: str
    torch: str | None
    knobs: tuple[KnobHere, ...]
    variables: tuple[VariableHere, ...]
    options: Mapping[str, tuple[OptionHere, ...]]
    """Options by variable."""
    dumps: tuple[DumpHere, ...]
    log_files: tuple[LogFileHere, ...]
    problems: tuple[str, ...]
    """Settings in the environment that this torch would misread or ignore."""

    def entries(self) -> Iterator[NamedEntry]:
        """Each entry with its kind."""
        yield from (NamedEntry("knob", knob) for knob in self.knobs)
        yield from (NamedEntry("variable", variable) for variable in self.variables)
        for variable, options in self.options.items():
            yield from (
                NamedEntry(f"option of {variable}", option) for option in options
            )
        yield from (NamedEntry("dump", dump) for dump in self.dumps)
        yield from (
            NamedEntry("file of the JIT log", log_file)
            for log_file in self.log_files
        )


def overview(
    torch_version: str | None,
    tried: Iterable[TriedKnob],
    environ: Mapping[str, str],
) -> Overview:
    """Return everything in the catalogue with its state here.

    Args:
        torch_version: the version of torch found, or None.
        tried: the results of trying every knob on it.
        environ: the environment to read variables from.
    """
    version = as_version(torch_version)
    found = {knob.name: knob for knob in tried}
    knobs = []
    for knob in catalogue.knobs():
        knobs.append(
            _knob(knob, version, found.get(knob.name, TriedKnob(knob.name)))
        )
    variables = []
    for entry in catalogue.variables():
        variables.append(_variable(entry, torch_version, environ))
    options = {}
    for name, words in OPTIONS.items():
        options[name] = tuple(_option(option, version) for option in words)
    return Overview(
        schema=SCHEMA,
        torch=torch_version,
        knobs=tuple(knobs),
        variables=tuple(variables),
        options=options,
        dumps=tuple(_dump(dump, version) for dump in FUSER_DUMPS),
        log_files=tuple(_log_file(file, version) for file in LOG_FILES),
        problems=tuple(problems(torch_version, environ)),
    )


def _knob(knob: Knob, version: Version | None, tried: TriedKnob) -> KnobHere:
    return KnobHere(
        name=knob.name,
        fuser=knob.fuser,
        functions=knob.in_python,
        value=checks.value_form(knob.kind),
        default=knob.default,
        does=knob.does,
        effect=knob.effect,
        live_in=describe(knob.live),
        exists_in=describe(knob.exists),
        source=knob.source,
        effective=tried.effective,
        live=tried.live,
        no_op=version is not None
        and exists_in(knob.exists, version)
        and not exists_in(knob.live, version),
        why=tried.why,
    )


def _variable(
    variable: Variable, torch_version: str | None, environ: Mapping[str, str]
) -> VariableHere:
    version = as_version(torch_version)
    words: tuple[str, ...] | None = None
    if variable.name in OPTIONS:
        words = tuple(
            option.name for option in catalogue.options(variable.name, version)
        )
    elif variable.name in PACKAGE_OPTIONS:
        words = tuple(sorted(PACKAGE_OPTIONS[variable.name]))
    current = environ.get(variable.name)
    if variable.of_package:
        live_in = f"the {_PACKAGE} package"
    else:
        live_in = describe(variable.live)
    return VariableHere(
        name=variable.name,
        value=variable.values,
        options=words,
        default=variable.default,
        does=variable.does,
        live_in=live_in,
        source=variable.source,
        live=_live(variable.live, version),
        current=current,
        problems=tuple(_problems_of(variable, torch_version, current)),
    )


def _live(spans: tuple[Span, ...], version: Version | None) -> bool | None:
    if version is None:
        return None
    return exists_in(spans, version)


def _option(option: Option, version: Version | None) -> OptionHere:
    return OptionHere(
        option.name,
        option.does,
        describe(option.live),
        option.stream,
        _live(option.live, version),
    )


def _dump(dump: FuserDump, version: Version | None) -> DumpHere:
    needs = dict(dump.needs)
    return DumpHere(
        dump.name,
        dump.fuser,
        dump.does,
        needs,
        describe(dump.live),
        _live(dump.live, version),
    )


def _log_file(log_file: LogFile, version: Version | None) -> LogFileHere:
    least = ">" * log_file.least + log_file.name
    return LogFileHere(
        log_file.name,
        least,
        log_file.does,
        describe(log_file.live),
        _live(log_file.live, version),
    )


def problems(torch_version: str | None, environ: Mapping[str, str]) -> list[str]:
    """Settings in the environment that this torch would misread or ignore, a
    sentence or two for each."""
    known = [variable.name for variable in catalogue.variables()]
    found = []
    for name in sorted(set(environ) - set(known)):
        if name.startswith(_FAMILIES) and get_close_matches(name, known, 1, 0.8):
            found.append(
                f"{name} is set, but torch has no such variable. {did_you_mean(name, known)}"
            )
    for variable in catalogue.variables():
        found += _problems_of(variable, torch_version, environ.get(variable.name))
    return sorted(found)


def _problems_of(
    variable: Variable, torch_version: str | None, value: str | None
) -> list[str]:
    if value is None or variable.of_package:
        return []
    version = as_version(torch_version)
    if exists_in(variable.live, version):
        return _wrong_value(variable.name, value, torch_version)
    here = f", not by {torch_version}" if version and variable.live else ""
    return [
        f"{variable.name} is set and ignored: it is read by torch {describe(variable.live)}{here}."
    ]


def _wrong_value(name: str, value: str, torch_version: str | None) -> list[str]:
    try:
        if name in OPTIONS:
            checks.check_option_list(name, value, torch_version)
        elif name == JIT_LOG:
            check_log_level(value, torch_version)
    except checks.UnknownWord as error:
        return [f"{name}='{value}': {error.message} {error.hint or ''}".strip()]
    except UsageError as error:
        return [f"{error.message} {error.hint or ''}".strip()]
    if name == JIT_LOG:
        return [f"{name}: {note}" for note in log_level_notes(value, torch_version)]
    return []


def find(name: str, shown: Overview) -> list[NamedEntry]:
    """The entries of that name in an overview: a knob by its short or torch name, a
    variable, an option, a log file. UsageError with did-you-mean if there is
    none."""
    short = name.split(".")[-1] if name.startswith("torch.") else name
    found = []
    for found_entry in shown.entries():
        if _means(name, short, found_entry.entry):
            found.append(found_entry)
    if found:
        return found
    near = nearest(
        name, [found_entry.entry.name for found_entry in shown.entries()]
    )
    text = f"there is no knob, variable, option, dump or log file '{name}'"
    raise UsageError(
        f"{text}. {near}" if near is not None else text,
        "fusiondoc knobs --all lists all.",
    )


def _means(name: str, short: str, entry: Entry) -> bool:
    if isinstance(entry, KnobHere):
        return (
            short == entry.name
            or name in entry.functions
            or f"torch._C.{short}" in entry.functions
        )
    return entry.name == (
        name.lstrip(">") if isinstance(entry, LogFileHere) else name
    )
