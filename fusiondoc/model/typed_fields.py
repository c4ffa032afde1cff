"""JSON into frozen dataclasses by the types of their fields; and those types as
objects.

A value of another type than its field is left out: a capture may be cut off,
written by another version or edited by hand, and no value of it may end in a
traceback.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import types
import typing
from collections.abc import Mapping
from collections.abc import Mapping as AnyMapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from fusiondoc.numbers import LARGEST, is_figure


@cache
def field_types(kind: type) -> Mapping[str, Any]:
    """Field name -> its type as an object: ``str | None``, ``tuple[int, ...]``, a
    class.

    Raises:
        NameError: an annotation uses a name that its module lacks at run time.
    """
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


_UNIONS = (Union, types.UnionType)


def is_union(kind: Any) -> bool:
    """True for ``a | b`` and for ``Union[a, b]``."""
    return get_origin(kind) in _UNIONS


def variants(kind: Any) -> Mapping[str, type]:
    """The dataclasses of a union by their field ``kind``, which has one value in
    each; empty for a union of one type and None."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    if len(parts) < 2:
        return {}
    return {get_args(field_types(part)["kind"])[0]: part for part in parts}


def property_type(kind: type, name: str) -> Any:
    """The type of a property's value."""
    return typing.get_type_hints(getattr(kind, name).fget)["return"]


MOST_VALUES = 8_000_000
"""Most values of a JSON document from elsewhere: in memory each can take thirty
times its size in the file."""


def json_within(data: bytes, most: int = MOST_VALUES) -> Any:
    """Parse a JSON file from elsewhere, as ``json.loads`` does.

    Raises:
        ValueError: it is no JSON, or has more than ``most`` values.
        RecursionError: lists in lists in lists.
    """
    if len(data) > most and sum(map(data.count, (b",", b"[", b"{"))) > most:
        raise ValueError(f"it holds more than {most:,} values")
    return json.loads(data.decode("utf-8-sig"))


def sound(value: Any) -> Any:
    """Return a result of ``json.loads`` without values that JSON forbids or no
    encoding can write: infinities and NaN become None, halves of surrogate pairs
    question marks."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [sound(element) for element in value]
    if isinstance(value, dict):
        return {sound(name): sound(element) for name, element in value.items()}
    return value


T = TypeVar("T")


class Damaged(ValueError):
    """A value is not of the type that its field has."""


def read_object(kind: type[T], data: object) -> T | None:
    """Return ``data`` as a ``kind``; None if it is no object, or lacks a field that
    has no default and cannot be None. Keys that ``kind`` does not have are left
    out."""
    try:
        made: T = _object(kind, data)
    except Damaged:
        return None
    return made


def object_of(data: bytes) -> Mapping[str, Any]:
    """Return the object that a file holds; {} if it holds none."""
    try:
        value = sound(json_within(data))
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    return {}


def _object(kind: Any, data: object) -> Any:
    if not isinstance(data, AnyMapping):
        raise Damaged
    made = {}
    for field, hint in _fields(kind):
        try:
            made[field.name] = _of_field(field, hint, data[field.name])
        except (KeyError, Damaged):
            if field.default is not MISSING or field.default_factory is not MISSING:
                continue
            if type(None) not in get_args(hint):
                raise Damaged from None
            made[field.name] = None
    return kind(**made)


def _of_field(field: Any, hint: Any, value: Any) -> Any:
    """Read the value of a field. Metadata ``unsigned`` of a field allows unsigned
    whole numbers of 64 bits too."""
    unsigned = bool(field.metadata.get("unsigned")) and type(value) is int
    if unsigned and LARGEST <= value < 2 * LARGEST:
        return value
    return _value(hint, value)


@cache
def _fields(kind: Any) -> list[tuple[Any, Any]]:
    """Each field with its type."""
    hints = field_types(kind)
    return [(field, hints[field.name]) for field in fields(kind)]


def _value(kind: Any, value: Any) -> Any:
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if type(None) in inside:
        if value is None:
            return None
        return _value(_but_none(inside), value)
    if origin is tuple:
        return tuple(
            _values(inside[0], value if isinstance(value, list) else _damaged())
        )
    if origin is AnyMapping:
        return _mapping(inside[1], value)
    if is_dataclass(kind):
        return _object(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value)
    if kind is float and type(value) in (int, float):
        return _finite(value)
    if type(value) is not kind or (kind is int and not is_figure(value)):
        raise Damaged
    return value


def _but_none(inside: tuple[Any, ...]) -> Any:
    return functools.reduce(
        operator.or_, (member for member in inside if member is not type(None))
    )


def _values(kind: Any, values: list[Any]) -> list[Any]:
    """Return the values of the right type."""
    kept = []
    for value in values:
        try:
            kept.append(_value(kind, value))
        except Damaged:
            continue
    return kept


def _mapping(kind: Any, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Damaged
    kept = {}
    for name, inner in value.items():
        try:
            kept[name] = _value(kind, inner)
        except Damaged:
            continue
    return kept


def _member(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise Damaged from None


def _finite(value: float) -> float:
    """Return a finite float; raise ``Damaged`` for others: JSON has no infinity,
    and a difference that overflows has no number."""
    try:
        number = float(value)
    except OverflowError:
        raise Damaged from None
    return number if math.isfinite(number) else _damaged()


def _damaged() -> Any:
    raise Damaged


def as_json(value: Any) -> Any:
    """Return a record as JSON values: the inverse of ``read_object``."""
    if is_dataclass(value):
        written = {}
        for field in fields(value):
            written[field.name] = as_json(getattr(value, field.name))
        return written
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [as_json(element) for element in value]
    if isinstance(value, frozenset):
        return sorted(as_json(element) for element in value)
    if isinstance(value, AnyMapping):
        return {str(name): as_json(element) for name, element in value.items()}
    if isinstance(value, Path):
        return str(value)
    return value
