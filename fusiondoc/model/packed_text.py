"""Long texts that are kept packed and read as ``str``: sources and dumps of kernels, of which a long run has
tens of megabytes and a reader looks at one after the other.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

T = TypeVar("T")

_LEAST_PACKED = 500
"""Bytes that are worth packing."""


class PackedText:
    """A text that is unpacked each time it is asked for. Whoever shares it shares one object."""

    __slots__ = ("_held", "_packed")

    def __init__(self, text: bytes) -> None:
        self._packed = len(text) >= _LEAST_PACKED
        self._held = zlib.compress(text, 1) if self._packed else text

    def __str__(self) -> str:
        return (zlib.decompress(self._held) if self._packed else self._held).decode("utf-8", "replace")

    @property
    def as_field(self) -> str:
        """It itself, for a field that is one of ``packed_fields``."""
        return cast(str, self)


class _PackedField:
    """A field of a dataclass: the text of what is held in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        try:
            held = instance.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None
        return str(held) if type(held) is PackedText else held

    def __set__(self, instance: Any, value: object) -> None:
        instance.__dict__[self._name] = value


_PACKED = "_packed_fields"


def packed_fields(*names: str) -> Callable[[type[T]], type[T]]:
    """Makes those fields of a dataclass take a ``PackedText`` too; they read as ``str``."""

    def made(kind: type[T]) -> type[T]:
        for name in names:
            setattr(kind, name, _PackedField(name))
        setattr(kind, _PACKED, names)
        return kind

    return made


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(thing, **changes):
        """``dataclasses.replace``, but what is packed goes over as it is."""
        for name in getattr(thing, _PACKED, ()):
            changes.setdefault(name, vars(thing)[name])
        return dataclasses.replace(thing, **changes)
