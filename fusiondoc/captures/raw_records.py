"""The lines of ``records.jsonl`` by kind, and their conversion to the dataclasses
of these kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fusiondoc.model.typed_fields import read_object, sound

T = TypeVar("T")


class RawRecords:
    """The records of a run by kind. Records that do not fit their dataclass are
    left out."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            self._rows.setdefault(record["record"], []).append(record)

    def all_of(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """The records of a kind, in the order in which they were written."""
        return self._rows.get(kind, ())

    def read_all(self, kind: str, dataclass: type[T]) -> tuple[T, ...]:
        """The records of a kind, one object each."""
        return tuple(objects(dataclass, self.all_of(kind)))

    def merged(self, kind: str) -> dict[str, Any]:
        """The records of a kind merged into one; later values replace earlier ones
        unless they are None."""
        merged: dict[str, Any] = {}
        for record in self.all_of(kind):
            merged.update(
                {
                    k: v
                    for k, v in record.items()
                    if v is not None or k not in merged
                }
            )
        return merged

    def read_merged(self, kind: str, dataclass: type[T]) -> T | None:
        """The merged records of a kind as an object; None if there are none."""
        if self.all_of(kind):
            return read_object(dataclass, self.merged(kind))
        return None

    def processes(self, kinds: Iterable[str]) -> list[object]:
        """Numbers of the processes that wrote records of these kinds; None for the
        run's own process, which comes first."""
        numbers = dict.fromkeys(
            record.get("process") for kind in kinds for record in self.all_of(kind)
        )
        return sorted(numbers, key=lambda number: number is not None)

    def of_process(self, process: object) -> RawRecords:
        """The records that a process wrote."""
        every = []
        for rows in self._rows.values():
            every.extend(rows)
        return RawRecords(
            record for record in every if record.get("process") == process
        )


def objects(
    dataclass: type[T], records: Iterable[Mapping[str, Any]]
) -> Iterator[T]:
    """Each record that can be read, as an object."""
    for record in records:
        made = read_object(dataclass, record)
        if made is not None:
            yield made


def lines_of(data: bytes) -> list[dict[str, Any]]:
    """The lines that are records; others (an incomplete last one) are left out."""
    records = []
    for record in map(_line, data.split(b"\n")):
        if record is not None:
            records.append(record)
    return records


def _line(line: bytes) -> dict[str, Any] | None:
    try:
        record = sound(json.loads(line))
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict) and isinstance(record.get("record"), str):
        return record
    return None
