"""The catalogue for one torch and one environment, as plain data: what ``fusiondoc knobs`` shows."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Iterable, Mapping

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fuser_knobs import catalogue, checks
from fusiondoc.fuser_knobs.catalogue import as_version
from fusiondoc.fuser_knobs.entries import (
    FuserDump,
    Knob,
    LogFile,
    Option,
    Variable,
    Version,
    describe,
    exists_in,
)
from fusiondoc.fuser_knobs.log_levels import VARIABLE, check_log_level, log_level_notes
from fusiondoc.fuser_knobs.variable_words import FUSER_DUMPS, LOG_FILES, OPTIONS, PACKAGE_OPTIONS

SCHEMA = "fusiondoc.knobs/1"

_FAMILIES = ("PYTORCH_NVFUSER_", "PYTORCH_TENSOREXPR", "PYTORCH_CUDA_FUSER_", "PYTORCH_JIT", "NVFUSER_")
"""Variables whose name starts so and that the catalogue lacks are probably slips."""


def overview(
    torch_version: str | None, tried: Iterable[Mapping[str, Any]], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Everything in the catalogue with what holds here.

    Args:
        torch_version: the torch found, or None where none was.
        tried: the probe's records of trying every knob on it.
        environ: the environment whose variables are looked at.
    """
    version = as_version(torch_version)
    records = {record["name"]: record for record in tried}
    return {
        "schema": SCHEMA,
        "torch": torch_version,
        "knobs": [_knob(knob, version, records.get(knob.name)) for knob in catalogue.knobs()],
        "variables": [_variable(variable, torch_version, environ) for variable in catalogue.variables()],
        "options": {
            name: [_option(option, version) for option in options] for name, options in OPTIONS.items()
        },
        "dumps": [_dump(dump, version) for dump in FUSER_DUMPS],
        "log_files": [_log_file(file, version) for file in LOG_FILES],
        "problems": problems(torch_version, environ),
    }


def _knob(knob: Knob, version: Version | None, record: Mapping[str, Any] | None) -> dict[str, Any]:
    found = record or {}
    return {
        "name": knob.name,
        "fuser": knob.fuser,
        "functions": [f"torch._C.{name}" for name in (knob.setter, knob.getter) if name],
        "value": checks.value_form(knob.kind),
        "default": knob.default,
        "does": knob.does,
        "effect": knob.effect,
        "live_in": describe(knob.live),
        "exists_in": describe(knob.exists),
        "source": knob.source,
        "effective": found.get("effective"),
        "live": found.get("live"),
        "no_op": version is not None
        and exists_in(knob.exists, version)
        and not exists_in(knob.live, version),
        "why": found.get("why"),
    }


def _variable(variable: Variable, torch_version: str | None, environ: Mapping[str, str]) -> dict[str, Any]:
    version = as_version(torch_version)
    words: list[str] | None = None
    if variable.name in OPTIONS:
        words = [option.name for option in catalogue.options(variable.name, version)]
    elif variable.name in PACKAGE_OPTIONS:
        words = sorted(PACKAGE_OPTIONS[variable.name])
    current = environ.get(variable.name)
    return {
        "name": variable.name,
        "value": variable.values,
        "options": words,
        "default": variable.default,
        "does": variable.does,
        "live_in": "the nvfuser package" if variable.of_package else describe(variable.live),
        "source": variable.source,
        "live": None if version is None else exists_in(variable.live, version),
        "current": current,
        "problems": _problems_of(variable, torch_version, current),
    }


def _option(option: Option, version: Version | None) -> dict[str, Any]:
    return {
        "name": option.name,
        "does": option.does,
        "live_in": describe(option.live),
        "stream": option.stream,
        "live": None if version is None else exists_in(option.live, version),
    }


def _dump(dump: FuserDump, version: Version | None) -> dict[str, Any]:
    return {
        "name": dump.name,
        "fuser": dump.fuser,
        "does": dump.does,
        "needs": dict(dump.needs),
        "live_in": describe(dump.live),
        "live": None if version is None else exists_in(dump.live, version),
    }


def _log_file(file: LogFile, version: Version | None) -> dict[str, Any]:
    return {
        "name": file.name,
        "least": ">" * file.least + file.name,
        "does": file.does,
        "live_in": describe(file.live),
        "live": None if version is None else exists_in(file.live, version),
    }


def problems(torch_version: str | None, environ: Mapping[str, str]) -> list[str]:
    """What in the environment this torch would misread or ignore, one sentence or two each."""
    known = [variable.name for variable in catalogue.variables()]
    found = []
    for name in sorted(set(environ) - set(known)):
        if name.startswith(_FAMILIES) and get_close_matches(name, known, 1, 0.8):
            found.append(f"{name} is set, but torch has no such variable. {did_you_mean(name, known)}")
    for variable in catalogue.variables():
        found += _problems_of(variable, torch_version, environ.get(variable.name))
    return sorted(found)


def _problems_of(variable: Variable, torch_version: str | None, value: str | None) -> list[str]:
    if value is None or variable.of_package:
        return []
    version = as_version(torch_version)
    if exists_in(variable.live, version):
        return _wrong_value(variable.name, value, torch_version)
    here = f", not by {torch_version}" if version and variable.live else ""
    return [f"{variable.name} is set and ignored: it is read by torch {describe(variable.live)}{here}."]


def _wrong_value(name: str, value: str, torch_version: str | None) -> list[str]:
    try:
        if name in OPTIONS:
            checks.check_option_list(name, value, torch_version)
        elif name == VARIABLE:
            check_log_level(value, torch_version)
    except UsageError as error:
        message = error.message if error.message.startswith(name) else f"{name}='{value}': {error.message}"
        return [f"{message} {error.hint or ''}".strip()]
    return [f"{name}: {note}" for note in log_level_notes(value, torch_version)] if name == VARIABLE else []


def find(name: str, shown: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The entries of that name in an overview, as (kind, entry): a knob by its short or torch name, a
    variable, an option, a log file. UsageError with did-you-mean if there is none."""
    short = name.split(".")[-1] if name.startswith("torch.") else name
    found: list[tuple[str, dict[str, Any]]] = [
        ("knob", one)
        for one in shown["knobs"]
        if short == one["name"] or f"torch._C.{short}" in one["functions"]
    ]
    found += [("variable", one) for one in shown["variables"] if name == one["name"]]
    for variable, options in shown["options"].items():
        found += [(f"option of {variable}", one) for one in options if name == one["name"]]
    found += [("dump", one) for one in shown["dumps"] if name == one["name"]]
    found += [("file of the JIT log", one) for one in shown["log_files"] if name.lstrip(">") == one["name"]]
    if found:
        return found
    lists = [shown["knobs"], shown["variables"], *shown["options"].values()]
    lists += [shown["dumps"], shown["log_files"]]
    names = [one["name"] for entries in lists for one in entries]
    near = did_you_mean(name, names)
    if not near.startswith("Did"):
        near = did_you_mean(name, [one["name"] for one in shown["knobs"]])
    raise UsageError(
        f"There is no knob, variable, option, dump or log file '{name}'. {near}",
        "fusiondoc knobs --all lists all.",
    )
