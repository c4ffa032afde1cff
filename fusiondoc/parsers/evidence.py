"""Evidence as a sequence that stays small: line numbers are unpacked only when looked at."""

from __future__ import annotations

from array import array
from itertools import islice
from operator import lt
from typing import Iterator, Sequence, overload

from fusiondoc.model.report import Evidence
from fusiondoc.parsers.facts import unpack


class PackedEvidence(Sequence[Evidence]):
    """Lines in reading order, each once. Compares equal to any sequence of the same evidence.

    An array that is in order already is kept as it is, not copied: a line may be said millions of times.
    """

    __slots__ = ("_files", "_lines")

    def __init__(self, lines: Sequence[int], files: Sequence[str]) -> None:
        self._lines = lines if isinstance(lines, array) else array("Q", lines)
        if not all(map(lt, self._lines, islice(self._lines, 1, None))):
            self._lines = array("Q", sorted(set(lines)))
        self._files = files

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Evidence: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Evidence]: ...

    def __getitem__(self, index: int | slice) -> Evidence | Sequence[Evidence]:
        if isinstance(index, slice):
            return tuple(self._evidence(pos) for pos in self._lines[index])
        return self._evidence(self._lines[index])

    def __iter__(self) -> Iterator[Evidence]:
        return map(self._evidence, self._lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PackedEvidence({list(self)!r})"

    def _evidence(self, pos: int) -> Evidence:
        file, line = unpack(pos)
        return Evidence(self._files[file], line)
