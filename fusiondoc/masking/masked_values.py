"""Secrets in arguments, variables, reports and JSON: by the name of a value, and in
its text."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_not
from typing import Any, TypeVar

from fusiondoc.masking.masked_texts import masked
from fusiondoc.masking.secret_names import MASK, is_secret

T = TypeVar("T")


def masked_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Mask a command line: also the word after an option that names a secret
    (``--api-key X``)."""
    made: list[str] = []
    option = None
    for word in arguments:
        if (
            option is not None
            and not word.startswith("--")
            and is_secret(option, word)
        ):
            made.append(MASK)
        else:
            made.append(_masked_word(word))
        option = word if word.startswith("-") and "=" not in word else None
    return tuple(made)


def masked_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Mask environment variables, by name and by value."""
    shown = {}
    for name, value in variables.items():
        shown[name] = MASK if is_secret(name, value) else masked(value)
    return shown


def masked_in(value: T) -> T:
    """A copy of a report, a record or JSON data in which every secret is masked.

    Masked are the secrets in every text, and in a mapping each value whose name
    means a secret. Lists named ``command`` or ``script_args`` are masked as
    command-line arguments.
    """
    return texts_changed(
        value, masked, lambda key, item: (key, _masked_item(key, item))
    )


def texts_changed(
    value: T,
    change: Callable[[str], str],
    entry: Callable[[Any, Any], tuple[Any, Any]],
) -> T:
    """Return a report, a record or JSON with ``change`` applied to each text; the
    same object if no text changed.

    Lists and tuples are traversed; other sequences (compressed lines of a log) are
    left as they are, as are fields that are not in the JSON.

    Args:
        entry: changes a key of a mapping and its value.
    """
    kind: Any = type(value)
    if kind in _NO_TEXT or not _may_hold_text(kind):
        return value
    made: Any = value
    names = _names(kind)
    if isinstance(value, str):
        made = _changed(value, change)
    elif names is not None:
        made = _fields_changed(value, names, change, entry)
    elif isinstance(value, (tuple, list)):
        items = [
            _changed(element, change)
            if type(element) is str
            else texts_changed(element, change, entry)
            for element in value
        ]
        if any(map(is_not, items, value)):
            is_named = isinstance(value, tuple) and hasattr(value, "_fields")
            made = kind(*items) if is_named else kind(items)
    elif isinstance(value, abc.Mapping):
        entries = dict(entry(key, item) for key, item in value.items())
        made = value if entries == value else entries
    return made  # type: ignore[no-any-return]


def _changed(text: str, change: Callable[[str], str]) -> str:
    """Apply the change to a text; return the same object if the result is equal, so
    that what holds it is not copied: a remembered result is another object."""
    made = change(text)
    return text if made == text else made


def _fields_changed(
    value: Any,
    names: Sequence[str],
    change: Callable[[str], str],
    entry: Callable[[Any, Any], tuple[Any, Any]],
) -> Any:
    """Apply the changes to a dataclass with these fields."""
    changed = {}
    for name in names:
        before = getattr(value, name)
        kind: Any = type(before)
        if kind is str:
            after = _changed(before, change)
        elif kind in _NO_TEXT or not _may_hold_text(kind) or not before:
            continue
        elif name in _ARGUMENTS and isinstance(before, tuple):
            after = entry(name, before)[1]
        else:
            after = texts_changed(before, change, entry)
        if after is not before:
            changed[name] = after
    if changed:
        return replace(value, **changed)
    return value


_NO_TEXT = frozenset((int, float, bool, type(None)))


@cache
def _may_hold_text(kind: type) -> bool:
    """True if values of a class are searched for texts."""
    return is_dataclass(kind) or issubclass(kind, (str, tuple, list, abc.Mapping))


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that are searched; None for another class. A field
    that is no constructor argument is left out, as it only names the class, and one
    that its annotation makes a number."""
    if not is_dataclass(kind):
        return None
    names = []
    for field in fields(kind):
        if (
            field.init
            and field.metadata.get("json", True)
            and field.type not in _TYPES_WITHOUT_TEXT
        ):
            names.append(field.name)
    return tuple(names)


_TYPES_WITHOUT_TEXT = frozenset(
    ("int", "float", "bool", "int | None", "float | None", "bool | None")
)
"""As fields of dataclasses are annotated."""

_ARGUMENTS = ("command", "script_args")


def _masked_item(key: Any, item: Any) -> Any:
    if isinstance(item, str) and isinstance(key, str) and is_secret(key, item):
        return MASK
    if (
        key in _ARGUMENTS
        and isinstance(item, (list, tuple))
        and all(isinstance(element, str) for element in item)
    ):
        return type(item)(masked_arguments(item))
    return masked_in(item)


def _masked_word(word: str) -> str:
    """Mask a word of a command line: ``--name=value``, ``NAME=value``, or any
    text."""
    name, equals, value = word.partition("=")
    if (
        equals
        and re.fullmatch(r"[+-]*[\w.-]{1,200}", name)
        and is_secret(name, value)
    ):
        return f"{name}={MASK}"
    return masked(word)
