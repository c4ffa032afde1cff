"""The JSON text of a model, made directly from its dataclasses: as dictionaries, a
report of a hundred thousand rows would take ten times its size. The text is the
result of ``json.dumps(..., indent=2, ensure_ascii=False)`` for ``plain`` in
``json_format.py``."""

from __future__ import annotations

import json
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from inspect import getmro
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, NamedTuple

from fusiondoc.model.report import Evidence
from fusiondoc.model.source import MOST_EVIDENCE

DERIVED: Mapping[str, tuple[str, ...]] = {
    "Group": ("ops",),
    "Comparison": ("same", "coverage_changed"),
    "CheckedModels": ("exit_status",),
}
"""Properties that are in JSON besides the fields of a class, by the class's name:
the JSON of a report does not have to import the comparison."""

_LEFT_OUT = "evidence_left_out"


@cache
def names_in_json(kind: Any) -> tuple[str, ...]:
    """Return the names of a class that are in JSON: its fields, except those that
    ``metadata`` excludes, and derived properties."""
    names = []
    for f in fields(kind):
        if f.metadata.get("json", True):
            names.append(f.name)
    for base in getmro(kind):
        names += DERIVED.get(base.__name__, ())
    return tuple(names)


@cache
def _bounded(kind: Any) -> bool:
    return _LEFT_OUT in names_in_json(kind)


def value_of(thing: Any, name: str) -> Any:
    """Return a field of a dataclass with the value that it has in JSON."""
    kind: Any = type(thing)
    if (
        name == "evidence"
        and _bounded(kind)
        and len(thing.evidence) > MOST_EVIDENCE
    ):
        return tuple(thing.evidence[:MOST_EVIDENCE])
    if name == _LEFT_OUT:
        return thing.evidence_left_out + max(0, len(thing.evidence) - MOST_EVIDENCE)
    return getattr(thing, name)


class _Written(NamedTuple):
    """A field of a dataclass in JSON."""

    name: str
    key: str
    """Its name as JSON text, followed by the colon."""
    null: str
    """``key`` followed by ``null``."""
    bounded: bool


@cache
def _written(kind: Any) -> tuple[_Written, ...] | None:
    """The fields of a dataclass; None for another class."""
    if not is_dataclass(kind):
        return None
    made: Any = kind
    bounded = _bounded(made)
    written = []
    for name in names_in_json(made):
        written.append(
            _Written(
                name,
                f'"{name}": ',
                f'"{name}": null',
                bounded and name in ("evidence", _LEFT_OUT),
            )
        )
    return tuple(written)


def _fields_text(value: Any, written: Sequence[_Written], margin: str) -> list[str]:
    """Return the fields of a dataclass with their keys. Most values are texts or
    whole numbers, which are written here."""
    parts = []
    for name, key, null, bounded in written:
        item = value_of(value, name) if bounded else getattr(value, name)
        if item is None:
            parts.append(null)
        elif type(item) is str:
            parts.append(key + encode_basestring(item))
        elif type(item) is int:
            parts.append(f"{key}{item}")
        else:
            parts.append(key + text_of(item, margin))
    return parts


_SIMPLE: Mapping[Any, Callable[[Any], str]] = {
    str: encode_basestring,
    int: repr,
    float: lambda value: repr(value) if isfinite(value) else json.dumps(value),
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
}
"""The text of the most frequent types of values."""


def text_of(value: Any, margin: str = "\n") -> str:
    """Return JSON text; ``margin``: a line end and the indentation of the value."""
    kind: Any = type(value)
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple(value)
    inner = margin + "  "
    if kind is tuple:
        if value:
            return _sequence_text(value, inner, margin)
        return "[]"
    written = _written(kind)
    if written is not None:
        parts = _fields_text(value, written, inner)
        if parts:
            return f"{{{inner}{f',{inner}'.join(parts)}{margin}}}"
        return "{}"
    if isinstance(value, Enum):
        return text_of(value.value, margin)
    if isinstance(value, abc.Mapping):
        items = {str(key): item for key, item in value.items()}
        parts = []
        for key, item in items.items():
            parts.append(f"{encode_basestring(key)}: {text_of(item, inner)}")
        if parts:
            return f"{{{inner}{f',{inner}'.join(parts)}{margin}}}"
        return "{}"
    if isinstance(value, abc.Sequence) and not isinstance(value, str):
        return _sequence_text(value, inner, margin)
    return json.dumps(value, ensure_ascii=False)


def _sequence_text(value: Sequence[Any], inner: str, margin: str) -> str:
    if not value:
        return "[]"
    value = tuple(value)  # evidence is made while it is read
    if all(type(item) is Evidence for item in value):
        return _evidence_text(value, inner, margin)
    parts = []
    for item in value:
        simple = _SIMPLE.get(type(item))
        parts.append(simple(item) if simple is not None else text_of(item, inner))
    return f"[{inner}{f',{inner}'.join(parts)}{margin}]"


def _evidence_text(lines: Sequence[Evidence], inner: str, margin: str) -> str:
    """Return the text of lines of logs, which are most of a report."""
    deeper = inner + "  "
    files = {one.file for one in lines}
    begins = {}
    for file in files:
        begins[file] = (
            f'{{{deeper}"file": {encode_basestring(file)},{deeper}"line": '
        )
    between = f"{inner}}},{inner}"
    return f"[{inner}{between.join([f'{begins[one.file]}{one.line}' for one in lines])}{inner}}}{margin}]"


def parts_of(value: Any, first: tuple[str, ...]) -> Iterator[str]:
    """Yield the text of a dataclass in parts, one for each member of its
    sequences."""
    kind: Any = type(value)
    names = names_in_json(kind)
    names = (*first, *(name for name in names if name not in first))
    margin = "\n  "
    before = "{"
    for name in names:
        yield f'{before}{margin}"{name}": '
        before = ","
        item = value_of(value, name)
        if not isinstance(item, tuple) or not item:
            yield text_of(item, margin)
            continue
        between = "["
        for one in item:
            yield f"{between}{margin}  {text_of(one, margin + '  ')}"
            between = ","
        yield f"{margin}]"
    yield "\n}\n"
