"""Stretches of a log that are byte-for-byte repetitions: their events are applied
again, without reading their lines.

A stretch begins and ends where a message of the JIT log or the source of a kernel
begins and nothing is open before it, so that the meaning of its lines depends only
on the few values in :class:`State`. Its events are recorded when a stretch occurs
for the second time, and applied again from the third time on: at the lines of the
new copy, in the same order, to the facts known by then. Stretches that cannot be
read in this way (a bare graph, an interrupted message) are read line by line each
time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from fusiondoc.parsers.events import Event, PrintedGraph
from fusiondoc.parsers.facts import LineCounts
from fusiondoc.parsers.jit.message_runs import CONTINUES, FRAME, PREFIX
from fusiondoc.parsers.kept_events import GraphAgain, Step, condensed

LEAST = 1 << 15
"""Number of bytes of a stretch: so many that finding it costs less than reading
it."""
SHORTEST = 2_048
"""Number of bytes of a stretch that ends where another is known to begin."""
HEAD = 400
PROBE = 64
TAIL = 64
"""Number of bytes by which stretches that may be equal are found: the first ones,
some in the middle, and the last ones with one byte after them (the text after a
stretch decides to what its last empty lines belong)."""
MOST_ALIKE = 100
"""Number of stretches with one head that are remembered. Most of them are
distinguished by their tails."""
MOST_STEPS = 200_000
MOST_BYTES = 8 << 20
"""Limits for all kept stretches: number of steps, and bytes of lines in them."""
MOST_MARKS = 50_000


class State(NamedTuple):
    """The values on which the reading of lines depends, besides the lines, if
    nothing is open."""

    single: bytes | None
    """The prefix of the last one-line message."""
    without_start: bytes | None
    """The prefix of the last message whose start is not in the log."""
    open: tuple[bytes, ...]
    """Prefixes of truncated messages; lines with one of them are in no stretch."""
    warning: bool
    """True if the last line belonged to a warning that may continue."""
    bare: bool
    """True if a graph without prefix has begun; lines that may belong to it are in
    no stretch."""
    traceback: bool
    """True if a traceback has begun."""

    def reads_as(self, other: State) -> bool:
        """True if lines have the same meaning in both states. An open traceback
        matters only to the effect of their events."""
        return self[:-1] == other[:-1]


Counted = tuple[int, int, int]
"""Number of lines recognised, lines of output, and truncated messages."""


class Stretch(NamedTuple):
    """A stretch of the log that occurred before."""

    state: State
    size: int
    lines: int
    tail: bytes
    digest: int
    steps: list[Step]
    counted: Counted
    after: State

    def found_by(self, text: bytes, at: int) -> Stretch:
        """Return the stretch with its tail and digest, from its copy at ``at``."""
        end = at + self.size
        return self._replace(
            tail=text[end - TAIL : end + 1], digest=_digest(text, at, end)
        )


class Tape:
    """Passes events on, and records them while a stretch occurs for the second
    time.

    Args:
        take: applies an event at a position.
    """

    def __init__(
        self, counts: LineCounts, take: Callable[[int, Event], None]
    ) -> None:
        self._counts = counts
        self._take = take
        self.steps: list[Step] | None = None
        self.held = 0
        """Approximate number of bytes in the steps."""
        self.at = self.pos = 0
        self.state: State | None = None
        self._before: Counted = (0, 0, 0)
        self._unrecognised = 0
        self._taking = False

    def begin(self, at: int, pos: int, state: State) -> None:
        """Begin to record a stretch at ``at`` in the text and ``pos`` in the
        log."""
        self.steps = []
        self.at, self.pos, self.state, self.held = at, pos, state, 0
        self._before = self._now()
        self._unrecognised = self._counts.unrecognised

    def spoil(self) -> None:
        """Stop recording: the events of these lines cannot be applied without the
        lines."""
        self.steps = None

    def read(self) -> None:
        """Record that lines are read. If this happens during an event, the stretch
        cannot be recorded, since the event would have another effect when it is
        applied again."""
        if self._taking:
            self.spoil()

    def happens(self, pos: int, event: Event) -> None:
        """Apply an event at a position, and record it."""
        if self.steps is None:
            self._take(pos, event)
            return
        if self._taking:
            # The order would not be the same when they are applied again.
            self.spoil()
        before, unrecognised = self._now(), self._counts.unrecognised
        self._taking = True
        self._take(pos, event)
        self._taking = False
        step = self._step(event)
        if self.steps is None or step is None:
            self.spoil()
            return
        self.steps.append((pos - self.pos, step))
        self.held += _size(event)
        # Events that are applied again also count again.
        self._before = _sum(self._before, _less(self._now(), before))
        self._unrecognised += self._counts.unrecognised - unrecognised

    def _step(self, event: Event) -> Event | GraphAgain | None:
        """Return the event as it is kept; None for a graph that was not cut out of
        the stretch."""
        if not isinstance(event, PrintedGraph):
            return event
        graph = event.graph
        if graph.at < self.at or graph.stretches is not None:
            return None
        start = graph.at - self.at
        end = start + len(graph.text)
        return GraphAgain(
            event.kind,
            event.below,
            start,
            end,
            graph.cut,
            graph.known_digest,
            event.fuser,
        )

    def _now(self) -> Counted:
        counts = self._counts
        return counts.recognised, counts.user_output, counts.truncated

    def noted(self, at: int, pos: int, after: State) -> Stretch | None:
        """Return the stretch that ends at ``at``, without tail and digest; None if
        it cannot be applied again."""
        steps, self.steps = self.steps, None
        if (
            steps is None
            or self.state is None
            or self._counts.unrecognised != self._unrecognised
        ):
            return None
        # A message in it is truncated: its lines are read and counted later.
        if self.state.open != after.open:
            return None
        counted = _less(self._now(), self._before)
        return Stretch(
            self.state, at - self.at, pos - self.pos, b"", 0, steps, counted, after
        )

    def do_again(self, stretch: Stretch, text: bytes, at: int, pos: int) -> None:
        """Apply all events of a stretch to the same lines from ``at`` and ``pos``
        on."""
        for number, (line, step) in enumerate(stretch.steps):
            if not isinstance(step, GraphAgain):
                self._take(pos + line, step)
                continue
            printed = step.of(text, at)
            self._take(pos + line, printed)
            if step.digest is None:  # it is computed once
                stretch.steps[number] = (
                    line,
                    step._replace(digest=printed.graph.digest),
                )
        counts, (recognised, output, truncated) = self._counts, stretch.counted
        counts.recognised += recognised
        counts.user_output += output
        counts.truncated += truncated


_LEAST_HELD = 100
"""Number of bytes of a step."""


def _size(event: Event) -> int:
    """Return the approximate number of bytes in an event."""
    if isinstance(event, PrintedGraph):
        return 2 * _LEAST_HELD  # it is cut out of the log again
    size = _LEAST_HELD
    for field in event:
        if isinstance(field, bytes):
            size += len(field)
        elif isinstance(field, list):
            size += sum(len(one) + 50 for one in field)
    return size


def _sum(one: Counted, other: Counted) -> Counted:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _less(one: Counted, other: Counted) -> Counted:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


class KeptStretches:
    """The kept stretches of one stream, and the search for their repetitions.

    A stretch is kept only if an earlier one began in the same way, so a log without
    repetitions has few. ``text`` consists of whole lines.
    """

    def __init__(self) -> None:
        self._by_head: dict[bytes, list[Stretch]] = {}
        self._begun: set[int] = set()
        """Hashes of the beginnings of stretches."""
        self._steps = self._held = 0

    def begins(self, text: bytes, at: int) -> bool:
        """True if a stretch that begins here would be kept, or if another stretch
        is known to begin here."""
        return (
            text[at : at + HEAD] in self._by_head or _begin(text, at) in self._begun
        )

    def began(self, text: bytes, at: int) -> bool:
        """Record that a stretch begins here; return True if it should be kept."""
        begin = _begin(text, at)
        if begin in self._begun:
            return len(self._by_head.get(text[at : at + HEAD], ())) < MOST_ALIKE
        if len(self._begun) >= MOST_MARKS:
            self._begun.clear()
        self._begun.add(begin)
        return False

    def met(self, text: bytes, at: int, now: Callable[[], State]) -> Stretch | None:
        """Return the stretch that is repeated here, if the text after it may follow
        a stretch; else None."""
        alike = self._by_head.get(text[at : at + HEAD])
        if alike is None:
            return None
        state = now()
        # By size: prints that differ only in their numbers have the same size.
        digests: dict[int, int] = {}
        for one in alike:
            end = at + one.size
            # The tail is the cheapest to compare, and few stretches have the same.
            if not (
                text.startswith(one.tail, end - TAIL) and one.state.reads_as(state)
            ):
                continue
            if not may_begin(text, end):
                continue
            if one.size not in digests:
                digests[one.size] = _digest(text, at, end)
            if digests[one.size] == one.digest:
                return one
        return None

    def reaches(self, text: bytes, at: int) -> bool:
        """True if a repetition may begin here that ends after the text."""
        alike = self._by_head.get(text[at : at + HEAD], ())
        return any(at + one.size >= len(text) for one in alike)

    def keep(self, stretch: Stretch, text: bytes, at: int, held: int) -> None:
        """Keep the stretch that begins here, if that is worthwhile. ``held``:
        number of bytes of lines in its steps."""
        # At the end of the text it is not known what follows the stretch.
        if stretch.size < SHORTEST or at + stretch.size == len(text):
            return
        if self._steps > MOST_STEPS or self._held > MOST_BYTES:
            self._by_head.clear()
            self._steps = self._held = 0
        self._steps += len(stretch.steps)
        self._held += held
        self._by_head.setdefault(text[at : at + HEAD], []).append(
            stretch.found_by(text, at)
        )

    def clear(self) -> None:
        """Drop all stretches at the end of the log. Their steps refer to all
        collected facts."""
        self._by_head.clear()


def _digest(text: bytes, at: int, end: int) -> int:
    """Return the digest of a stretch: Python's hash of bytes, SipHash of 64 bits
    with a key of this process (PEP 456). It takes a third of the time of SHA-256,
    and nobody who writes a log knows the key."""
    return hash(memoryview(text)[at:end])


def _begin(text: bytes, at: int) -> int:
    """Return a hash of the beginning of a stretch, with a later part: in many
    similar prints the first lines are equal, but later lines seldom are."""
    probe = at + LEAST // 4
    return hash(text[at : at + HEAD] + text[probe : probe + PROBE])


_AT_START = State(None, None, (), False, False, False)
LATER = Stretch(_AT_START, 0, 0, b"", 0, [], (0, 0, 0), _AT_START)
"""Returned instead of a stretch: the lines here should be read together with the
text that follows."""


NEVER = 1 << 62
"""An offset beyond the end of every text."""


class Repeats:
    """Finds stretches of one stream that are repeated. ``text`` consists of whole
    lines."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._kept = KeptStretches()
        self._next = 0
        """Before this offset only stretches begin that are like earlier ones."""
        self._may_leave = NEVER
        self.left: int | None = None
        """The offset for which LATER was returned."""

    def begin_text(self, may_leave: int) -> None:
        """Begin a text; lines from ``may_leave`` on may be read together with the
        text that follows."""
        self._may_leave, self.left = may_leave, None

    def leave(self) -> None:
        """End a text: the stretch being recorded may continue in the next text, so
        it is dropped."""
        self._tape.spoil()
        self._next = 0

    def close(self) -> None:
        self._kept.clear()

    def met(
        self, text: bytes, at: int, pos: int, now: Callable[[], State]
    ) -> Stretch | None:
        """Return the stretch that is repeated at ``at``, or LATER. If there is
        none, recording may begin here."""
        tape, kept = self._tape, self._kept
        begins = kept.begins(text, at)
        if tape.steps is not None and at - tape.at >= (
            SHORTEST if begins else LEAST
        ):
            self._note(text, at, pos, now())
        again = kept.met(text, at, now) if begins else None
        if (
            again is None
            and begins
            and at >= self._may_leave
            and kept.reaches(text, at)
        ):
            again, self.left = LATER, at
        if again is None:
            if tape.steps is None:
                self._begin(text, at, pos, now, begins)
            return None
        if tape.steps is not None:
            self._note(text, at, pos, now())
        if again is not LATER:
            self._next = at + again.size
        return again

    def _begin(
        self, text: bytes, at: int, pos: int, now: Callable[[], State], begins: bool
    ) -> None:
        """Begin to record a stretch, since no known one is here and none is being
        recorded."""
        if begins or at >= self._next:
            if self._kept.began(text, at):
                self._tape.begin(at, pos, now())
            else:
                self._next = at + LEAST

    def _note(self, text: bytes, at: int, pos: int, after: State) -> None:
        """End the recorded stretch at ``at``, and keep it."""
        tape = self._tape
        start, held = tape.at, tape.held
        noted = tape.noted(at, pos, after)
        if noted is not None:
            noted = noted._replace(steps=condensed(noted.steps))
            self._kept.keep(noted, text, start, held)


def may_begin(text: bytes, at: int) -> bool:
    """True if a message of the JIT log, not its continuation, or the source of a
    kernel begins on this line."""
    found = PREFIX.match(text, at)
    if found is not None:
        return is_first(text, found.end())
    return FRAME.match(text, at) is not None


_NO_FIRST = re.compile(
    rb"(?! )| (?:\n|%s)" % b"|".join(re.escape(one) for one in CONTINUES)
)


def is_first(text: bytes, end: int) -> bool:
    """True if the line whose prefix ends at ``end`` is the first of its message."""
    return _NO_FIRST.match(text, end) is None
