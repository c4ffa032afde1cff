"""A model as the text of JSON, made straight from its dataclasses: a report of a hundred thousand rows would
take ten times its size as dictionaries.

The text is what ``json.dumps(..., indent=2, ensure_ascii=False)`` makes of ``json_format.plain``.
"""

from __future__ import annotations

import json
from collections import abc
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from inspect import getmro
from json.encoder import encode_basestring
from typing import Any, Iterator, Mapping

from fusiondoc.comparison.differences import Comparison
from fusiondoc.model.report import Group

DERIVED: Mapping[type, tuple[str, ...]] = {Group: ("ops",), Comparison: ("same", "coverage_changed")}
"""Properties that stand in JSON beside the fields of a class."""

MOST_EVIDENCE = 200
"""Lines of evidence of one thing that are written; the others are counted (``evidence_left_out``)."""

_LEFT_OUT = "evidence_left_out"


@lru_cache(maxsize=None)
def names_in_json(kind: Any) -> tuple[str, ...]:
    """What of a class stands in JSON: its fields but those that say otherwise (``metadata``), and what is
    derived."""
    names = [f.name for f in fields(kind) if f.metadata.get("json", True)]
    for base in getmro(kind):
        names += DERIVED.get(base, ())
    return tuple(names)


@lru_cache(maxsize=None)
def _bounded(kind: Any) -> bool:
    return _LEFT_OUT in names_in_json(kind)


def value_of(thing: Any, name: str) -> Any:
    """A field of a dataclass as JSON has it."""
    kind: Any = type(thing)
    if name == "evidence" and _bounded(kind) and len(thing.evidence) > MOST_EVIDENCE:
        return thing.evidence[:MOST_EVIDENCE]
    if name == _LEFT_OUT:
        return thing.evidence_left_out + max(0, len(thing.evidence) - MOST_EVIDENCE)
    return getattr(thing, name)


def text_of(value: Any, first: tuple[str, ...] = (), margin: str = "\n") -> str:
    """JSON text.

    Args:
        first: fields of it that come before the others.
        margin: a line end, and what stands before the value on its line.
    """
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if value is None:
        return "null"
    if kind is int:
        return repr(value)
    inner = margin + "  "
    if is_dataclass(value):
        of_class: Any = kind
        names = names_in_json(of_class)
        if first:
            names = (*first, *(name for name in names if name not in first))
        parts = [f'"{name}": {text_of(value_of(value, name), (), inner)}' for name in names]
        return f"{{{inner}{f',{inner}'.join(parts)}{margin}}}" if parts else "{}"
    if isinstance(value, Enum):
        return text_of(value.value, (), margin)
    if isinstance(value, abc.Mapping):
        items = {str(key): item for key, item in value.items()}
        parts = [f"{encode_basestring(key)}: {text_of(item, (), inner)}" for key, item in items.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{margin}}}" if parts else "{}"
    if isinstance(value, abc.Sequence) and not isinstance(value, str):
        parts = [text_of(item, (), inner) for item in value]
        return f"[{inner}{f',{inner}'.join(parts)}{margin}]" if parts else "[]"
    return json.dumps(value, ensure_ascii=False)


def parts_of(value: Any, first: tuple[str, ...]) -> Iterator[str]:
    """The same text of a dataclass in parts, one for each member of its sequences."""
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
            yield text_of(item, (), margin)
            continue
        between = "["
        for one in item:
            yield f"{between}{margin}  {text_of(one, (), margin + '  ')}"
            between = ","
        yield f"{margin}]"
    yield "\n}\n"
