"""The statements of the passes that left a plan, packed to bytes while few passes
left it: in a log without repetitions they are a third of the memory."""

from __future__ import annotations

import pickle
import zlib
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.jit.plan import Op
from fusiondoc.parsers.jit.statements import Statement, Statements


class KeptStatements:
    """The statements about the nodes of one plan."""

    __slots__ = ("_hashes", "_open", "_packed")

    def __init__(self) -> None:
        self._open: Statements | None = None
        self._packed: bytes | None = None
        self._hashes: Sequence[int] = ()
        """Hashes of the nodes, while the statements are packed."""

    def __bool__(self) -> bool:
        return self._packed is not None or bool(self._open)

    def opened(self) -> Statements:
        """Return the statements unpacked, to add those of another pass."""
        if self._open is None:
            if self._packed is None:
                self._open = Statements()
            else:
                self._open = _unpacked(self._packed)
            self._packed, self._hashes = None, ()
        return self._open

    def pack(self) -> None:
        """Pack the statements, as few plans are left often: after each of the first
        passes that left the plan, and before a report."""
        statements = self._open
        if not statements or statements.further:
            return
        self._hashes = array("q", map(hash, statements))
        rows = [
            (key, [_row(one) for one in about]) for key, about in statements.items()
        ]
        self._packed = zlib.compress(pickle.dumps(rows, pickle.HIGHEST_PROTOCOL), 1)
        self._open = None

    def get(self) -> Statements:
        """Return the statements for reading."""
        if self._packed is not None:
            return _last_unpacked(self._packed)
        if self._open is not None:
            return self._open
        return Statements()

    def hashes(self) -> Iterable[int]:
        """Return the hashes of the nodes that the statements are about."""
        if self._packed is not None:
            return self._hashes
        return map(hash, self._open or ())

    def settle(self) -> None:
        """See ``Statements.settle``; packed statements are settled already."""
        if self._open is not None:
            self._open.settle()
            self.pack()


_Row = tuple[str, Stated, bool, "tuple[int, ...]", int, "tuple[str, ...] | None"]
"""The attributes of a statement. A tuple of lines is packed in half of the time of
an array."""


def _row(statement: Statement) -> _Row:
    return (
        statement.code,
        statement.detail,
        statement.tensor,
        tuple(statement.lines),
        statement.nodes,
        statement.of_plan,
    )


def _unpacked(packed: bytes) -> Statements:
    """Unpack bytes that ``pack`` made: they never leave the process."""
    statements = Statements()
    rows: list[tuple[Op, list[_Row]]] = pickle.loads(zlib.decompress(packed))
    for key, about in rows:
        statements[key] = tuple(_statement(row) for row in about)
    return statements


def _statement(row: _Row) -> Statement:
    code, detail, tensor, lines, nodes, of_plan = row
    made = Statement(code, detail, tensor)
    made.lines.extend(lines)
    made.nodes, made.of_plan = nodes, of_plan
    return made


@lru_cache(maxsize=32)
def _last_unpacked(packed: bytes) -> Statements:
    return _unpacked(packed)
