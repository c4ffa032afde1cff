"""A second process that reads a long log ahead, on another core: it finds where messages, frames and dumps
begin and end, and the first one does what they ask for (plans, groups, kernels, reasons).

What lines are depends on little that is known of those before them (``State`` of ``repeats.py``), so the
second process needs no facts. It sends chunk by chunk where stretches stand that begin and end where nothing
is open, and the steps of each, as ``repeats.py`` notes them; the lines between them, and all that it cannot
tell, the first process reads itself. So it does where a stretch begins in another state than the second one
said, and if the second one dies it reads on alone: the report is the same in every case.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from zlib import crc32

from fusiondoc.parsers.facts import Facts, LineCounts
from fusiondoc.parsers.jit.message_runs import Lines, Print
from fusiondoc.parsers.kernels.kernel_sources import NOT_KEPT, Place, Source
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.pipes import Served, send
from fusiondoc.parsers.lines.tagged_lines import clean
from fusiondoc.parsers.log_parts import Parts
from fusiondoc.parsers.repeats import (
    Kept,
    Piece,
    Repeats,
    RunAct,
    State,
    Step,
    Stretch,
    Tape,
)
from fusiondoc.parsers.stream import Stream
from fusiondoc.whole_files import open_regular

LEAST_BYTES = 48 << 20
"""Of a log that is worth a process: less is read in the time that it takes to start and to be of use."""
_PACKED = 12
"""How many times smaller a compressed log may be than what it holds."""

_MOST_AHEAD = 2 << 20
"""Bytes of messages that the second process has made and not sent. Those of a log that repeats itself are
short: it gets far ahead while the first process is at what is new to it, and is not waited for later."""

Item = tuple[Any, ...]
"""A stretch as it is sent: where it begins in the chunk, its number if it is kept (-1 if not, or the number
alone of one that was sent), and what :func:`_sent` makes of it."""

FORGET: Item = (-1,)
"""The stretches that were kept until here are not met again."""


class Chunk(NamedTuple):
    """Whole lines of the log, and what is known of them."""

    read: int
    """Bytes of the log that were read for it, without those that were cut."""
    cut: list[tuple[int, bool]]
    """Lines that are longer than is kept: bytes left out of each, and whether they are its first."""
    place: int | None
    """Where it stands in the file, if it does, ..."""
    stands: int
    """... and in how many bytes, colours and overwritten text (:func:`clean`) included."""
    size: int
    """Of the text."""
    sample: int
    """Of a text that stands in the file, which may be written over meanwhile: see ``_sample``."""
    text: bytes
    """Nothing while it is sent: that of one that does not stand in the file is sent behind it."""
    rest: int
    """Bytes that were read and are of the next one."""
    prefixes: tuple[bytes, ...]
    """Of messages, that stand in it and in none before it."""
    items: list[bytes]
    """``Item``, each by itself: all of them together take several times as much memory."""


_STRIDE = 251
"""Of so many bytes of a chunk one is compared: a page of a file has sixteen."""


def _sample(text: bytes, size: int) -> int:
    """A checksum by which both processes know that they read the same."""
    return crc32(text[:size:_STRIDE])


# -- the second process -------------------------------------------------------------------------------------


class _Recorder(Tape):
    """Notes what lines ask for and does nothing of it but what later lines are read by."""

    def __init__(self, counts: LineCounts) -> None:
        super().__init__(counts)
        self.real: frozenset[Callable[..., None]] = frozenset()
        """What is done: whether a traceback is open, what another tool prints."""

    def do(self, act: Callable[..., None], pos: int, *arguments: Any, size: int = 100) -> None:
        if act in self.real:
            super().do(act, pos, *arguments, size=size)
        elif self._doing:
            self.spoil()
        elif self.steps is not None:
            self.steps.append((act, pos - self.pos, arguments, None))
            self.held += size

    def do_run(self, act: RunAct, pos: int, lines: Lines, cut: int) -> None:
        if self.steps is None:
            return
        if self._doing:
            self.spoil()
            return
        start = lines.at - self.at
        where = (start, start + len(lines.text), cut) if 0 <= self.at <= lines.at else (lines.text, cut)
        self.steps.append((cast(Any, act), pos - self.pos, where, None))
        self.held += act.held(lines)

    def do_source(
        self, act: Callable[..., None], pos: int, name: bytes, source: Source, place: Place
    ) -> None:
        if self.steps is None:
            return
        if self._doing:
            self.spoil()
            return
        _, start, end = place
        self.steps.append((act, pos - self.pos, (name, source, start - self.at, end - self.at), None))
        self.held += 100 if source.number is not None else 100 + end - start

    def do_graph(self, act: Callable[[int, int, Print], None], pos: int, at: int, graph: Print) -> None:
        if self.steps is None:
            return
        if graph.at < self.at or graph.stretches is not None or self._doing:
            self.spoil()
            return
        start = graph.at - self.at
        piece = Piece(at - self.pos, start, start + len(graph.text), graph.cut, graph.known_digest)
        self.steps.append((act, pos - self.pos, (), piece))
        self.held += 200


class _Ahead(Repeats):
    """Cuts all lines of one stream into stretches."""

    def __init__(self, tape: _Recorder) -> None:
        super().__init__(tape, Kept(with_steps=False))
        self._is_kept = False
        """Whether the stretch that is noted is to be kept."""
        self.items: list[bytes] = []
        """Of the chunk that is read."""
        self.numbers: dict[Callable[..., None] | int, int] = {}
        """Of what is done, and of the ids of what is done for runs."""
        self.compiled: Callable[..., None] | None = None
        """What is done for a source."""
        self._sources = 0
        """That were sent."""

    def begin_text(self, may_leave: int) -> None:
        super().begin_text(may_leave)
        self.items = []

    def leave(self) -> None:
        """What is noted may go on behind the text: see ``close_chunk``."""

    def close_chunk(self, text: bytes, pos: int, after: State | None) -> None:
        """The lines of the chunk are read; ``pos`` is that of the next line, ``after`` None if something is
        open."""
        if after is not None and self._tape.steps is not None:
            self._note(text, len(text), pos, after)
        self._tape.spoil()

    def _begin(self, text: bytes, at: int, pos: int, now: Callable[[], State], begins: bool) -> None:
        self._is_kept = self._kept.began(text, at)
        self._tape.begin(at, pos, now())

    def _note(self, text: bytes, at: int, pos: int, after: State) -> None:
        """It is sent, unless its lines must be read again."""
        tape = self._tape
        noted = tape.told(at, pos, after)
        if noted is None:
            return
        if self._is_kept:
            noted = self._kept.keep(noted, text, tape.at, tape.held)
            if not noted.number:
                self._send(FORGET)
        self._send(self._sent(tape.at, noted))

    def _again(self, at: int, stretch: Stretch) -> None:
        self._send((at, stretch.number))

    def _send(self, item: Item) -> None:
        self.items.append(marshal.dumps(item))

    def _sent(self, at: int, noted: Stretch) -> Item:
        numbers = self.numbers
        steps = [
            (
                numbers[id(act) if isinstance(act, RunAct) else act],
                line,
                arguments if act != self.compiled else self._source(*arguments),
                piece and tuple(piece),
            )
            for act, line, arguments, piece in noted.steps
        ]
        return (
            at,
            noted.number,
            tuple(noted.state),
            noted.size,
            noted.lines,
            steps,
            noted.counted,
            noted.headers,
            noted.last_headers,
            tuple(noted.after),
        )

    def _source(self, name: bytes, code: bytes | Source, *place: int) -> tuple[Any, ...]:
        """A source as it is sent: as it is if it was torn apart, the number of one that was sent before, or
        the number that it gets and where it stands."""
        if isinstance(code, bytes):
            return name, code
        number = code.number
        if number is not None and number != NOT_KEPT:
            return name, number
        if number is None:
            number = code.number = self._sources
            self._sources += 1
        return (name, number, *place)


def _chunks_of(log: LogInput) -> Iterator[Chunk]:
    """The chunks of the log; none of one that several processes wrote."""
    counts = LineCounts()
    tape = _Recorder(counts)
    ahead = _Ahead(tape)
    stream = Stream(Facts(), counts, reader=(tape, ahead))
    acts, run_acts = stream.acts()
    ahead.numbers = {
        **{act: number for number, act in enumerate(acts)},
        **{id(act): number for number, act in enumerate(run_acts, len(acts))},
    }
    ahead.compiled = stream.compiled
    tape.real = frozenset(stream.acts_on_reading())
    line, prefixes = 1, 0
    parts = Parts(log)
    for part in parts:
        text, place = part.text, part.place
        lines, size = stream.feed_part(text, line, part.may_leave)
        line += lines
        parts.leave(part, size)
        ahead.close_chunk(text, line, stream.state_before(parts.rest) if parts.rest else None)
        new = stream.messages.prefixes(prefixes)
        prefixes += len(new)
        stands = parts.begins - place if place is not None else 0
        sent, sample = (text[:size], 0) if place is None else (b"", _sample(text, size))
        yield Chunk(part.read, part.cut, place, stands, size, sample, sent, len(parts.rest), new, ahead.items)


def serve(path: str, out: IO[bytes]) -> None:
    """Read a log and send what is found in it."""
    import gc

    gc.disable()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        # Read by a thread, sent by this one: in the first process a thread would hold up what is done there.
        for data in _taken_ahead(messages_of(LogInput(path, Path(path))), _MOST_AHEAD):
            send(out, data)


def messages_of(log: LogInput) -> Iterator[bytes]:
    """What is sent of a log; nothing as the last message, and of a log that several processes wrote none."""
    anything = False
    for chunk in _chunks_of(log):
        anything = True
        yield marshal.dumps(tuple(chunk._replace(text=b"")))
        if chunk.place is None and chunk.size:
            yield chunk.text
        del chunk  # before there is another one
    if anything:
        yield b""


def _taken_ahead(blocks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """The same blocks; while one is sent, a thread takes the next ones, about ``most`` bytes of them."""
    made: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
    room = threading.Condition()
    held = 0

    def take() -> None:
        nonlocal held
        last: BaseException | None = None
        try:
            for block in blocks:
                with room:
                    while held > most:
                        room.wait()
                    held += len(block)
                made.put(block)
                del block  # before there is another one
        except BaseException as error:
            last = error
        made.put(last)

    threading.Thread(target=take, name="read ahead", daemon=True).start()
    while isinstance(last := made.get(), bytes):
        yield last
        with room:
            held -= len(last)
            room.notify()
    if last is not None:
        raise last


# -- the first process --------------------------------------------------------------------------------------


def is_worth_it(log: LogInput) -> bool:
    """Whether a second process would be of use: the log is long, and there is a core for it."""
    if log.path is None or os.name != "posix" or not log.path.is_file():
        return False
    if "python" not in Path(sys.executable or "").name.lower():
        return False  # a program that has Python in it
    workers = sys.modules.get("multiprocessing.process")
    if workers is not None and workers.parent_process() is not None:
        return False  # this is one of several processes that read already
    least = LEAST_BYTES // _PACKED if log.is_packed else LEAST_BYTES
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return cores > 1 and log.path.stat().st_size >= least


class KnownChunks:
    """The chunks of a log that a second process reads."""

    def __init__(self, log: LogInput) -> None:
        assert log.path is not None
        self.complete = False
        """They are all. Else that process ended before, or the log is not of one process alone."""
        self._path = log.path
        code = "from fusiondoc.parsers.read_ahead import serve\nserve(sys.argv[1], out)"
        self._served = Served(code, str(log.path.resolve()))

    def __iter__(self) -> Iterator[Chunk]:
        with contextlib.closing(self.sent()) as messages, open_regular(self._path, 0) as file:
            for chunk in map(_chunk_of, messages):
                if chunk is None:
                    self.complete = True
                    return
                if chunk.size:
                    text = _text_of(chunk, file) if chunk.place is not None else next(messages, b"")
                    if len(text) != chunk.size or (
                        chunk.sample and chunk.sample != _sample(text, chunk.size)
                    ):
                        return
                    chunk = chunk._replace(text=text)
                    del text
                yield chunk
                del chunk  # before there is another one

    def sent(self) -> Generator[bytes, None, None]:
        """What the second process sends, as it is sent."""
        return self._served.blocks()

    def close(self) -> None:
        self._served.close()


def _chunk_of(data: bytes) -> Chunk | None:
    return Chunk(*marshal.loads(data)) if data else None


def _text_of(chunk: Chunk, file: IO[bytes]) -> bytes:
    """That of a chunk which stands in the file."""
    text = os.pread(file.fileno(), chunk.stands, chunk.place or 0)
    return clean(text) if chunk.stands != chunk.size else text


class Sent:
    """Makes stretches of what was sent. ``stream``: that does what they ask for."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        acts, run_acts = stream.acts()
        self._acts = [*acts, *(one.do for one in run_acts)]
        self._own_of = {number: one.read for number, one in enumerate(run_acts, len(acts))}
        """What reads the lines of a run, by the number of what is done with them."""
        self._compiled = acts.index(stream.compiled)
        self._kept: dict[int, Stretch] = {}
        self._digests: list[bytes] = []
        """Of sources of kernels, by their number."""
        self._condensed: set[int] = set()
        """Which of them have fewer steps: those that stood in the log again; few do if all is different."""

    def stretches(self, chunk: Chunk) -> Iterator[tuple[int, Stretch]]:
        """Those of a chunk, and where they begin in it. Its items are let go one by one."""
        text, items = chunk.text, chunk.items
        self._stream.messages.note_prefixes(chunk.prefixes)
        items.reverse()
        while items:
            item = marshal.loads(items.pop())
            if item == FORGET:
                self._kept.clear()
                self._condensed.clear()
                continue
            at, number, *told = item
            if not told:
                yield at, self._stands_again(number)
                continue
            state, size, lines, steps, counted, headers, last_headers, after = told
            made = self._steps(text, at, steps)
            stretch = Stretch(
                State(*state), size, lines, b"", 0, made, counted, headers, last_headers, State(*after)
            )
            if number >= 0:
                self._kept[number] = stretch
            yield at, stretch

    def _stands_again(self, number: int) -> Stretch:
        stretch = self._kept[number]
        if number not in self._condensed:
            stretch = self._kept[number] = stretch._replace(steps=self._stream.condensed(stretch.steps))
            self._condensed.add(number)
        return stretch

    def _steps(self, text: bytes, at: int, sent: list[tuple[int, int, tuple[Any, ...], Any]]) -> list[Step]:
        made: list[Step] = []
        acts, own_of, compiled = self._acts, self._own_of, self._compiled
        for number, line, arguments, piece in sent:
            act = acts[number]
            if piece is not None:
                made.append((act, line, (), Piece(*piece)))
            elif number in own_of:
                own = text[at + arguments[0] : at + arguments[1]] if len(arguments) == 3 else arguments[0]
                read = own_of[number](Lines(own, own.count(b"\n") + 1), arguments[-1])
                made.append((act, line, read, None))
            elif number == compiled and isinstance(arguments[1], int):
                made.append((act, line, self._source(text, at, *arguments), None))
            else:
                made.append((act, line, arguments, None))
        return made

    def _source(self, text: bytes, at: int, name: bytes, number: int, *place: int) -> tuple[Any, ...]:
        """What a source is done with; nothing of one that was sent before but its digest."""
        if not place:
            return name, b"", self._digests[number]
        code, digest = Source(0).read((text, at + place[0], at + place[1]))
        if number != NOT_KEPT:
            self._digests.append(digest)
        return name, code, digest
