"""Stretches of a log that stood in it before, byte for byte: their events happen
again, and no line of them is looked at.

A stretch begins and ends where a message of the JIT log begins, or the source of a
kernel, and nothing is open before it, so what its lines are depends on nothing but
the few things in :class:`State`. Its events are noted the second time that a
stretch is met, and happen again from the third time on: at the lines of the new
copy, in the same order, on what is known by then. Stretches that cannot be read so
(a bare graph, a message that is torn apart) are read line by line each time.
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
"""Bytes of a stretch: so many that finding it costs less than reading it."""
SHORTEST = 2_048
"""Bytes of one that ends where another one is known to begin."""
HEAD = 400
PROBE = 64
TAIL = 64
"""Bytes by which stretches are found that may be equal: the first, some in the
middle, the last (and one behind them: whose blank lines at its end are depends on
what follows)."""
MOST_ALIKE = 100
"""Stretches that are remembered of one head. Most of them are distinguished by
their tails."""
MOST_STEPS = 200_000
MOST_BYTES = 8 << 20
"""Of all stretches that are kept: steps, and bytes of lines that these hold."""
MOST_MARKS = 50_000


class State(NamedTuple):
    """What the reading of lines depends on beyond them, where nothing is open."""

    single: bytes | None
    """The prefix of the last message of one line."""
    without_start: bytes | None
    """The prefix of the last message whose start is not in the log."""
    open: tuple[bytes, ...]
    """Prefixes of messages that broke off; lines with one of them are in no
    stretch."""
    warning: bool
    """The last line was of a warning that may go on."""
    bare: bool
    """A graph without prefix has begun; lines that may be of it are in no
    stretch."""
    traceback: bool
    """A traceback has begun."""

    def reads_as(self, other: State) -> bool:
        """Whether lines are the same in both. An open traceback matters to what is
        done for them alone."""
        return self[:-1] == other[:-1]


Counted = tuple[int, int, int]
"""Lines recognised, lines of output, messages cut off."""


class Stretch(NamedTuple):
    """What stood in the log before."""

    state: State
    size: int
    lines: int
    tail: bytes
    digest: int
    steps: list[Step]
    counted: Counted
    after: State

    def found_by(self, text: bytes, at: int) -> Stretch:
        """With what it is found by; it stands there."""
        end = at + self.size
        return self._replace(
            tail=text[end - TAIL : end + 1], digest=_digest(text, at, end)
        )


class Tape:
    """Passes events on, and notes them while a stretch is met for the second time.

    Args:
        take: takes an event at a position.
    """

    def __init__(
        self, counts: LineCounts, take: Callable[[int, Event], None]
    ) -> None:
        self._counts = counts
        self._take = take
        self.steps: list[Step] | None = None
        self.held = 0
        """About how many bytes the steps hold."""
        self.at = self.pos = 0
        self.state: State | None = None
        self._before: Counted = (0, 0, 0)
        self._unrecognised = 0
        self._taking = False

    def begin(self, at: int, pos: int, state: State) -> None:
        """A stretch begins at ``at`` in the text and ``pos`` in the log."""
        self.steps = []
        self.at, self.pos, self.state, self.held = at, pos, state, 0
        self._before = self._now()
        self._unrecognised = self._counts.unrecognised

    def spoil(self) -> None:
        """What is read cannot be done again without its lines."""
        self.steps = None

    def read(self) -> None:
        """Lines are read. If an event made that necessary, it is not the same where
        it happens again."""
        if self._taking:
            self.spoil()

    def happens(self, pos: int, event: Event) -> None:
        """An event at a position."""
        if self.steps is None:
            self._take(pos, event)
            return
        if self._taking:
            self.spoil()  # in which order they would happen again is not the same
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
        # What happens again counts again.
        self._before = _sum(self._before, _less(self._now(), before))
        self._unrecognised += self._counts.unrecognised - unrecognised

    def _step(self, event: Event) -> Event | GraphAgain | None:
        """The event as it is kept; None for a graph that is not cut out of the
        stretch."""
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
        """The stretch that ends at ``at``, without what it is found by; None if it
        cannot be done again."""
        steps, self.steps = self.steps, None
        if (
            steps is None
            or self.state is None
            or self._counts.unrecognised != self._unrecognised
        ):
            return None
        if (
            self.state.open != after.open
        ):  # a message broke off in it, whose lines are done and counted later
            return None
        counted = _less(self._now(), self._before)
        return Stretch(
            self.state, at - self.at, pos - self.pos, b"", 0, steps, counted, after
        )

    def do_again(self, stretch: Stretch, text: bytes, at: int, pos: int) -> None:
        """All that was done, for the same lines from ``at`` and ``pos`` on."""
        for number, (line, step) in enumerate(stretch.steps):
            if not isinstance(step, GraphAgain):
                self._take(pos + line, step)
                continue
            printed = step.of(text, at)
            self._take(pos + line, printed)
            if step.digest is None:  # it is made once
                stretch.steps[number] = (
                    line,
                    step._replace(digest=printed.graph.digest),
                )
        counts, (recognised, output, truncated) = self._counts, stretch.counted
        counts.recognised += recognised
        counts.user_output += output
        counts.truncated += truncated


_LEAST_HELD = 100
"""Bytes of a step."""


def _size(event: Event) -> int:
    """About how many bytes an event holds."""
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


class Kept:
    """The stretches of one stream that are kept, and where one of them stands
    again.

    A stretch is kept if another one began like it before, so few are of a log in
    which all is different. ``text`` is one of whole lines.
    """

    def __init__(self) -> None:
        self._by_head: dict[bytes, list[Stretch]] = {}
        self._begun: set[int] = set()
        """Hashes of how stretches began."""
        self._steps = self._held = 0

    def begins(self, text: bytes, at: int) -> bool:
        """Whether one that begins here would be kept, or ends where another one is
        known to begin."""
        return (
            text[at : at + HEAD] in self._by_head or _begin(text, at) in self._begun
        )

    def began(self, text: bytes, at: int) -> bool:
        """A stretch begins here; whether it is to be kept."""
        begin = _begin(text, at)
        if begin in self._begun:
            return len(self._by_head.get(text[at : at + HEAD], ())) < MOST_ALIKE
        if len(self._begun) >= MOST_MARKS:
            self._begun.clear()
        self._begun.add(begin)
        return False

    def met(self, text: bytes, at: int, now: Callable[[], State]) -> Stretch | None:
        """The one whose lines stand here again, with what may follow a stretch
        behind them."""
        alike = self._by_head.get(text[at : at + HEAD])
        if alike is None:
            return None
        state = now()
        digests: dict[
            int, int
        ] = {}  # by size: prints that differ in their numbers alone have the same
        for one in alike:
            end = at + one.size
            # The tail, which costs least, is that of few.
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
        """Whether one may stand here that ends behind the text."""
        alike = self._by_head.get(text[at : at + HEAD], ())
        return any(at + one.size >= len(text) for one in alike)

    def keep(self, stretch: Stretch, text: bytes, at: int, held: int) -> None:
        """Keep the one that stands here, if it is worth that. ``held``: bytes of
        lines in its steps."""
        if stretch.size < SHORTEST or at + stretch.size == len(
            text
        ):  # what follows it is not known
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
        """The log ends. The steps refer to all that was gathered."""
        self._by_head.clear()


def _digest(text: bytes, at: int, end: int) -> int:
    """Of a stretch: Python's hash of bytes, SipHash of 64 bits with a key of this
    process (PEP 456). It takes a third of the time of SHA-256, and nobody who
    writes a log knows the key."""
    return hash(memoryview(text)[at:end])


def _begin(text: bytes, at: int) -> int:
    """How a stretch begins: of many alike prints the first lines are equal, and few
    of those behind them."""
    probe = at + LEAST // 4
    return hash(text[at : at + HEAD] + text[probe : probe + PROBE])


_AT_START = State(None, None, (), False, False, False)
LATER = Stretch(_AT_START, 0, 0, b"", 0, [], (0, 0, 0), _AT_START)
"""In place of one: what stands here is to be read together with what follows behind
the text."""


NEVER = 1 << 62
"""Behind all places of a text."""


class Repeats:
    """Finds stretches of one stream that were met before. ``text`` is one of whole
    lines."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._kept = Kept()
        self._next = 0
        """Before this place no stretch begins but one like those that began
        before."""
        self._may_leave = NEVER
        self.left: int | None = None
        """Where LATER stands."""

    def begin_text(self, may_leave: int) -> None:
        """A text begins; from ``may_leave`` on, what stands in it may be read with
        what follows it."""
        self._may_leave, self.left = may_leave, None

    def leave(self) -> None:
        """The text ends: a stretch that is being noted may go on behind it."""
        self._tape.spoil()
        self._next = 0

    def close(self) -> None:
        self._kept.clear()

    def met(
        self, text: bytes, at: int, pos: int, now: Callable[[], State]
    ) -> Stretch | None:
        """The stretch that stands at ``at`` again, or LATER. If none does, one may
        be noted from here on."""
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
        """No stretch that is known stands here, and none is being noted."""
        if begins or at >= self._next:
            if self._kept.began(text, at):
                self._tape.begin(at, pos, now())
            else:
                self._next = at + LEAST

    def _note(self, text: bytes, at: int, pos: int, after: State) -> None:
        """The stretch that is being noted ends at ``at``."""
        tape = self._tape
        start, held = tape.at, tape.held
        noted = tape.noted(at, pos, after)
        if noted is not None:
            noted = noted._replace(steps=condensed(noted.steps))
            self._kept.keep(noted, text, start, held)


def may_begin(text: bytes, at: int) -> bool:
    """Whether a message of the JIT log begins on this line, and none goes on, or
    the source of a kernel."""
    found = PREFIX.match(text, at)
    return (
        is_first(text, found.end())
        if found is not None
        else FRAME.match(text, at) is not None
    )


_NO_FIRST = re.compile(
    rb"(?! )| (?:\n|%s)" % b"|".join(re.escape(one) for one in CONTINUES)
)


def is_first(text: bytes, end: int) -> bool:
    """Whether the line whose prefix ends there is the first of its message."""
    return _NO_FIRST.match(text, end) is None
