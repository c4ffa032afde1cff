"""The events of a stretch of a log that is repeated in it (``repeats.py``), in a
shorter form with the same effect. The statements about nodes are parsed once, the
digest of a kernel's source replaces the source, and printed graphs are cut out of
the log again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from fusiondoc.parsers.events import (
    Event,
    Headers,
    KernelSource,
    Logged,
    NncLines,
    NncLinesAgain,
    NodeStatements,
    PrintedGraph,
    RefusedAgain,
    WorkOver,
)
from fusiondoc.parsers.jit.message_headers import BEGINS_WORK, GraphKind
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.nnc_failed_conditions import (
    CONSIDERING,
    MERGING,
    SINGLE,
    TOO_SMALL,
    FailedConditions,
)
from fusiondoc.parsers.jit.statements import BlockAgain
from fusiondoc.parsers.kernels.kept_texts import digest_of


class GraphAgain(NamedTuple):
    """A graph that is printed in a stretch, by its byte range from the start of the
    stretch."""

    kind: GraphKind
    below: int
    """The same as in ``PrintedGraph``."""
    start: int
    end: int
    cut: int
    digest: bytes | None
    fuser: str | None

    def of(self, text: bytes, at: int) -> PrintedGraph:
        """Return the graph in the stretch that starts at ``at`` in the text."""
        graph = Print(
            text[at + self.start : at + self.end], self.cut, None, self.digest
        )
        return PrintedGraph(self.kind, self.below, graph, self.fuser)


Step = tuple[int, Event | GraphAgain]
"""The line from the start of the stretch, and the event."""

_LOOKS = (CONSIDERING, MERGING)


def condensed(steps: Iterable[Step]) -> list[Step]:
    """Return fewer steps with the same effect."""
    conditions = FailedConditions()
    made: list[Step] = []
    headers: list[Headers] = []
    lines: list[tuple[int, bytes]] = []
    """Lines of consecutive ``NncLines``."""
    for step in _over_once(steps):
        line, event = step
        if isinstance(event, Headers):
            headers.append(event)
        elif isinstance(event, NncLines):
            lines += [
                (line + i, text)
                for i, text in enumerate(event.texts)
                if text.startswith(SINGLE)
            ]
        elif isinstance(event, WorkOver) and lines:
            # Their order does not matter.
            made.append(step)
        else:
            made += _of_nnc(lines, conditions)
            lines = []
            made.append((line, _shorter(event)))
    made += _of_nnc(lines, conditions)
    if headers:
        made.append((0, _all_headers(headers)))
    return made


def _over_once(steps: Iterable[Step]) -> Iterable[Step]:
    """Yield the steps with only one WorkOver until further work may begin."""
    over = False
    for step in steps:
        event = step[1]
        if isinstance(event, WorkOver):
            if over:
                continue
            over = True
        elif not _is_no_work(event):
            over = False
        yield step


def _is_no_work(event: Event | GraphAgain) -> bool:
    """True if an event neither begins work of a fuser nor depends on whether work
    is over."""
    if isinstance(event, GraphAgain):
        return event.kind not in BEGINS_WORK
    return isinstance(event, (NodeStatements, NncLines, Logged, Headers))


def _shorter(event: Event | GraphAgain) -> Event | GraphAgain:
    if isinstance(event, KernelSource):
        return event._replace(
            code=b"", digest=event.digest or digest_of(event.code)
        )
    if isinstance(event, NodeStatements):
        return RefusedAgain(BlockAgain(event.block))
    return event


def _all_headers(events: Sequence[Headers]) -> Headers:
    """Return all headers as one event."""
    last = dict(chain.from_iterable(event.last.items() for event in events))
    counted: dict[str, int] = {}
    for event in events:
        for header, count in event.counted.items():
            counted[header] = counted.get(header, 0) + count
    return Headers(last, counted)


def _of_nnc(
    lines: Sequence[tuple[int, bytes]], conditions: FailedConditions
) -> list[Step]:
    """Return ``NncLines`` as steps: as one event where their statements do not
    depend on earlier lines."""
    made: list[Step] = []
    rest = lines
    while rest:
        end = next(
            (i for i, (_, text) in enumerate(rest) if text.startswith(TOO_SMALL)),
            len(rest),
        )
        first = next(
            (
                i
                for i, (_, text) in enumerate(rest[:end])
                if text.startswith(_LOOKS)
            ),
            end,
        )
        block = conditions.known_again(rest[first:end])
        if block is None:
            first = end
        made += _one_by_one(rest[:first])
        if block is not None and first < end:
            looked_at = sum(
                text.startswith(CONSIDERING) for _, text in rest[first:end]
            )
            made.append(
                (0, NncLinesAgain(BlockAgain(block), looked_at, conditions.state))
            )
        made += _one_by_one(rest[end : end + 1])
        rest = rest[end + 1 :]
    return made


def _one_by_one(lines: Iterable[tuple[int, bytes]]) -> list[Step]:
    return [(line, NncLines([text])) for line, text in lines]
