"""Reports and comparisons as JSON (schemas ``fusiondoc.report/1``,
``fusiondoc.comparison/1``), and a saved report back into the report model. Keys may
be added, never renamed.

The shape of each part is that of the dataclasses, by the types of their fields, so
a new field needs no code here. A saved report may have keys that this version does
not know: they are left out; a newer schema is refused.
"""

from __future__ import annotations

import json
import re
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fusiondoc.errors import UsageError
from fusiondoc.model.bench import SCHEMA as BENCH_SCHEMA
from fusiondoc.model.bench import SUITE_SCHEMA, Bench, BenchPhase, Suite
from fusiondoc.model.report import SCHEMA, SEVERITIES, Report
from fusiondoc.model.typed_fields import (
    field_types,
    is_union,
    json_within,
    sound,
    variants,
)
from fusiondoc.numbers import is_figure, whole_number
from fusiondoc.rendering.printable import in_json
from fusiondoc.reports.json_text import DERIVED, names_in_json, parts_of, value_of

if TYPE_CHECKING:
    from fusiondoc.comparison import Comparison


def render(model: Report | Comparison) -> str:
    """Return a report or a comparison as JSON text, keys in the order of the
    schema."""
    return "".join(render_in_parts(model))


def render_in_parts(model: Report | Comparison) -> Iterator[str]:
    """Yield the text of ``render`` in parts, since the text of a large report takes
    more memory than the report."""
    return map(in_json, parts_of(model, _first(model)))


def as_json(document: Any, indent: int = 2) -> str:
    """Return any other document as JSON, its schema first; unknown values are
    null."""
    data = plain(document)
    first = {"schema": data.pop("schema")}
    return (
        in_json(json.dumps({**first, **data}, indent=indent, ensure_ascii=False))
        + "\n"
    )


def as_dict(model: Report | Comparison) -> dict[str, Any]:
    """Return a report or a comparison as plain dictionaries and lists. Unknown
    values are None."""
    data = plain(model)
    assert isinstance(data, dict)
    return {**{name: data.pop(name) for name in _first(model)}, **data}


def _first(model: Report | Comparison) -> tuple[str, ...]:
    """Return the names of the fields that come first."""
    return ("schema", *DERIVED.get(type(model).__name__, ()))


def plain(value: Any) -> Any:
    """Return a value of a model as dictionaries and lists, with the fields that are
    in JSON (``metadata``)."""
    if value is None or type(value) in (str, int, float, bool):  # nearly all
        return value
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: plain(value_of(value, name)) for name in names_in_json(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, abc.Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, abc.Sequence):
        return [plain(item) for item in value]
    return value


_SCHEMA = re.compile(r"(fusiondoc\.[a-z-]+)/(\d+)\Z")

Reader = Callable[[Any], Any]
"""Converts a value of JSON to the value of a field."""


class _Damaged(Exception):
    """A value that no report has, and the path to it, which is built up as the
    exception propagates."""

    def __init__(self, message: str, way: str = "") -> None:
        super().__init__(message, way)
        self._message, self._way = message, way

    def within(self, outer: str) -> _Damaged:
        """Return the exception with the path from the object or list around it."""
        return _Damaged(
            self._message,
            outer + ("." if self._way[:1] not in ("", "[") else "") + self._way,
        )

    def __str__(self) -> str:
        return f"{self._way or 'it'} {self._message}"


def looks_like_report(start: bytes) -> bool:
    """True if a file that starts with these bytes is a JSON report (of any version)
    and no log."""
    return (
        re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"fusiondoc\.', start)
        is not None
    )


def read_report(data: bytes, name: str) -> Report:
    """Return the report in ``data``.

    Args:
        name: name of the file, for messages.

    Raises:
        UsageError: no JSON, no report, damaged, or of a newer fusiondoc.
    """
    again = "Write it again: fusiondoc parse LOG --format json --output FILE.json"
    report = _document(Report, SCHEMA, data, name, again)
    assert isinstance(report, Report)
    return report


T = TypeVar("T")


def read_part(kind: type[T], content: object) -> T:
    """Return a document of JSON, or a part of one, as a dataclass that has only the
    fields that are needed.

    Raises:
        ValueError: a field is missing or has a wrong value; the message names it.
    """
    known: type = kind
    try:
        read: T = _dataclass(known)(content)
    except _Damaged as damaged:
        raise ValueError(str(damaged)) from None
    return read


def looks_like_bench(start: bytes) -> bool:
    """True if a file that starts with these bytes is a result of ``fusiondoc
    bench``, of any version."""
    return (
        re.match(
            rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"fusiondoc\.bench/', start
        )
        is not None
    )


def looks_like_suite(start: bytes) -> bool:
    """True if a file that starts with these bytes is a result of ``fusiondoc bench
    --suite``."""
    return (
        re.match(
            rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"fusiondoc\.suite/', start
        )
        is not None
    )


def read_bench(data: bytes, name: str) -> Bench:
    """Return the result of ``fusiondoc bench`` in ``data``; arguments and errors
    are those of ``read_report``."""
    again = "Write it again: fusiondoc bench TARGET -o FILE.json"
    bench = _document(Bench, BENCH_SCHEMA, data, name, again)
    assert isinstance(bench, Bench)
    _refuse_what_was_never_timed(bench, name, again)
    return bench


def read_suite(data: bytes, name: str) -> Suite:
    """Return the result of ``fusiondoc bench --suite`` in ``data``; arguments and
    errors are those of ``read_report``."""
    again = "Write it again: fusiondoc bench --suite NAME -o FILE.json"
    suite = _document(Suite, SUITE_SCHEMA, data, name, again)
    assert isinstance(suite, Suite)
    for case in suite.cases:
        if case.bench is not None:
            _refuse_what_was_never_timed(case.bench, name, again)
    return suite


def _refuse_what_was_never_timed(bench: Bench, name: str, again: str) -> None:
    for variant in bench.variants:
        for phase in variant.phases:
            wrong = _wrong(phase, len(bench.shapes))
            if wrong:
                raise UsageError(
                    f"{name} is damaged: {variant.name}, {phase.phase}: {wrong}",
                    again,
                )


def _wrong(phase: BenchPhase, shapes: int) -> str | None:
    """Return the error in a phase that cannot have been timed (no time, a median
    outside its interval, an index of no shape); None if there is none."""
    ratio = phase.ratio
    spans = [("ms", phase.ms.low, phase.ms.median, phase.ms.high)]
    if ratio is not None:
        spans.append(("ratio", ratio.low, ratio.value, ratio.high))
    for what, low, value, high in spans:
        if not 1e-9 < low <= value <= high < 1e12:
            return f"its {what} is {value:g} ({low:g} to {high:g}), as nothing that was timed"
    if not 0 <= phase.shape < max(1, shapes):
        return f"it is of shape {phase.shape}, of {shapes}"
    return None


def _document(kind: type, wanted: str, data: bytes, name: str, again: str) -> Any:
    try:
        content = sound(json_within(data))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not a complete JSON file: {error}", again
        ) from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != wanted:
        raise _other_schema(schema, wanted, name, again)
    try:
        return _dataclass(kind)(content)
    except _Damaged as damaged:
        raise UsageError(f"{name} is damaged: {damaged}", again) from None


def _other_schema(schema: object, wanted: str, name: str, again: str) -> UsageError:
    found = _SCHEMA.match(schema) if isinstance(schema, str) else None
    kind, _, known = wanted.rpartition("/")
    written = None
    if found is not None and found[1] == kind:
        written = whole_number(found[2])
    if written is not None and written > (whole_number(known) or 0):
        return UsageError(
            f"{name} was written by a newer fusiondoc ({schema}; this one reads {wanted})",
            "Upgrade fusiondoc here, or write the report with this version.",
        )
    if isinstance(schema, str) and schema.startswith("fusiondoc."):
        return UsageError(f"{name} is not a report: it holds {schema}", again)
    return UsageError(
        f"{name} is JSON, but no report of fusiondoc (no schema '{wanted}')", again
    )


@cache
def _dataclass(kind: type) -> Reader:
    types = field_types(kind)
    kept = [f for f in fields(kind) if f.init and f.metadata.get("json", True)]
    readers = [(f.name, _reader(types[f.name])) for f in kept]
    needed = set()
    for f in kept:
        if f.default is MISSING and f.default_factory is MISSING:
            needed.add(f.name)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Damaged("is not an object")
        found = {}
        for name, reader in readers:
            if name in value:
                try:
                    found[name] = reader(value[name])
                except _Damaged as inner:
                    raise inner.within(name) from None
            elif name in needed:
                raise _Damaged("is missing", name)
        if found.get("severity", SEVERITIES[0]) not in SEVERITIES:
            raise _Damaged(f"is none of {', '.join(SEVERITIES)}", "severity")
        return kind(**found)

    return read


def _reader(kind: Any) -> Reader:
    """Return the reader for a type of a field
    (``fusiondoc.model.typed_fields``)."""
    of: Any = getattr(kind, "__origin__", None)
    parts: Sequence[Any] = getattr(kind, "__args__", ())
    if is_union(kind):
        if variants(kind):
            return _variant(variants(kind))
        return _or_none(parts)
    if of is abc.Sequence or (of is tuple and parts[-1] is Ellipsis):
        return _sequence(_reader(parts[0]))
    if of is tuple:
        return _fixed([_reader(part) for part in parts])
    if of is abc.Mapping:
        return _mapping(_reader(parts[1]))
    if of is Literal:
        return _choice({value: value for value in parts})
    if kind in _PLAIN:
        return _plain(*_PLAIN[kind])
    if issubclass(kind, Enum):
        return _choice({one.value: one for one in kind})
    return _dataclass(kind)


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    Any: ((object,), "anything"),
}


def _or_none(parts: Sequence[Any]) -> Reader:
    (inner,) = (_reader(part) for part in parts if part is not type(None))
    return lambda value: None if value is None else inner(value)


def _variant(kinds: Mapping[str, type]) -> Reader:
    """Return the reader for an object of one of several dataclasses; it returns
    None for a kind that only a newer version has."""
    readers = {name: _dataclass(kind) for name, kind in kinds.items()}

    def read(value: Any) -> Any:
        if value is not None and not (
            isinstance(value, dict) and isinstance(value.get("kind"), str)
        ):
            raise _Damaged("is not an object with a kind")
        if value and value["kind"] in readers:
            return readers[value["kind"]](value)
        return None

    return read


def _choice(values: Mapping[Any, Any]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, (str, int)) or value not in values:
            raise _Damaged(f"is none of {', '.join(map(str, values))}")
        return values[value]

    return read


def _plain(kinds: tuple[type, ...], words: str) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, kinds) or (
            isinstance(value, bool) and int in kinds
        ):
            raise _Damaged(f"is not {words}")
        if isinstance(value, (int, float)) and not is_figure(value):
            raise _Damaged("is not a number that a report can have")
        return value

    return read


def _sequence(inner: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise _Damaged("is not a list")
        return _each(value, repeat(inner))

    return read


def _each(values: list[Any], readers: Iterable[Reader]) -> tuple[Any, ...]:
    read: list[Any] = []
    try:
        for item, reader in zip(values, readers):
            read.append(reader(item))
    except _Damaged as inner:
        raise inner.within(f"[{len(read)}]") from None
    return tuple(read)


def _fixed(inner: list[Reader]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(inner):
            raise _Damaged(f"is not a list of {len(inner)}")
        return _each(value, inner)

    return read


def _mapping(inner: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Damaged("is not an object")
        made = {}
        for key, item in value.items():
            try:
                made[key] = inner(item)
            except _Damaged as damaged:
                raise damaged.within(str(key)) from None
        return made

    return read
