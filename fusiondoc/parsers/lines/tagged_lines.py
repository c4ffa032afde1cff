r"""The one loop from the bytes of a log to its lines. It yields stretches of lines,
each with the process that wrote it, for logs that several processes write and in
which a launcher or container tags each line.

Known tags name the rank. Other tags are distinguished by their text: the prefix
without times. Then the rank is the number that differs between the tags, or their
order if no number does.

A line may be a JSON object with a line of the program in one of its fields:
Docker's json-file driver (``{"log": "...\n", "stream": "stderr", "time": ...}``),
and the loggers of many services.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from fusiondoc.numbers import whole_number, whole_numbers
from fusiondoc.parsers.lines.json_lines import JsonObjects
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks, whole_lines
from fusiondoc.parsers.lines.machines import LOCAL, Machines, counted_on, tag_of
from fusiondoc.parsers.lines.outer_prefix import (
    BEGINS,
    MARKER,
    SAMPLE,
    TIMES,
    OuterPrefix,
    sample_of,
    with_those_of_tracebacks,
)
from fusiondoc.parsers.lines.wrapped_rows import ESCAPES, NestedWraps

_KNOWN = tuple(
    re.compile(form)
    for form in (
        rb"\brank[ =:]?(\d{1,9})",
        rb"\[default(\d{1,9})\]",
        rb"\[(?:[^\[\]\s]+@)?\d+,(\d{1,9})\]<std(?:err|out)>",
        rb"^\s*(\d{1,9}): ",
        rb"(?<![^\s:|>\])])\[(\d{1,9})\]:",
    )
)
"""``[rank0]:``, ``[default0]:`` (torchrun), ``[1,0]<stderr>:`` (mpirun; from Open
MPI 5 ``[prterun-node7-4242@1,0]<stderr>:``), ``0: `` (srun -l)."""

_OPEN_MPI = re.compile(rb"\[[^\[\]\s]*,(\d{1,9})\]<std(?:err|out)>")

_NUMBER = re.compile(rb"\d+")

_MOST_TAGS = 512
"""With more different texts they are no tags but something that counts: line
numbers, or times in an unknown form."""

_LEAST_LINES = 6
"""With so many rising numbers they are line numbers: so many ranks do not write one
line each, in order."""

Tag = bytes | None


def rank_of(prefix: bytes) -> int | None:
    """Return the rank that a prefix names in one of the known forms; else None."""
    for form in _KNOWN:
        found = form.search(prefix)
        if found:
            return whole_number(found.group(1))
    return None


class RankTags:
    """The processes of one log. ``sample``: prefixes from its start, one per line;
    ``machine``: see ``Machines.begin``."""

    def __init__(self, sample: Iterable[bytes], machine: int = 0) -> None:
        self.first: bytes | None = None
        """The first unknown tag. Its lines have the tag None, so that a log with a
        prefix that identifies nothing is one process, and is merged with another
        log of that process without a prefix."""
        self.current: Tag = None
        """Tag of the last line; it also holds for lines without a prefix."""
        self._tags: dict[bytes, Tag] = {}
        self._known: set[bytes] = set()
        seen: dict[bytes, int] = {}
        sample = list(sample)
        self._numbered = _line_numbers(sample)
        for prefix in sample:
            text = TIMES.sub(b"", prefix)
            seen[text] = seen.get(text, 0) + 1
        machines = {
            _machine(found.group(1))
            for found in map(LOCAL.match, set(sample))
            if found
        }
        self._machine = machine
        self._machines = 1 < len(machines) <= _MOST_TAGS
        """True if the prefixes name several machines, each with its own ranks from
        0."""
        self._by_text = len(seen) <= min(
            _MOST_TAGS, max(1, sum(seen.values()) // 3)
        )

    def tag(self, prefix: bytes) -> Tag:
        """Return the tag that all lines of one process share; None if nothing shows
        the process."""
        if prefix in self._tags:
            return self._tags[prefix]
        rank = rank_of(prefix) if not self._numbered else None
        local = LOCAL.match(prefix) if self._machines or self._machine else None
        if local is not None and self._machines:
            tag: Tag = b"%s local %s" % (_machine(local.group(1)), local.group(2))
        elif local is not None:
            tag = tag_of(self._machine, b"%d" % (whole_number(local.group(2)) or 0))
        else:
            tag = b"rank %d" % rank if rank is not None else self._text_of(prefix)
        if len(self._tags) >= 10_000:
            self._tags.clear()
        self._tags[prefix] = tag
        return tag

    def _text_of(self, prefix: bytes) -> Tag:
        if not self._by_text:
            return None
        text = TIMES.sub(b"", prefix)
        if self.first is None:
            self.first = text
        if text == self.first or (
            text not in self._known and len(self._known) >= _MOST_TAGS
        ):
            return None
        self._known.add(text)
        return text


def _machine(text: bytes) -> bytes:
    """Return the prefix that a launcher around torch's puts before its tag, without
    times."""
    return b" ".join(_NAME.findall(TIMES.sub(b"", _OPEN_MPI.sub(rb"\1 ", text))))


_NAME = re.compile(rb"[\w.-]+")


def _line_numbers(prefixes: list[bytes]) -> bool:
    """True if the numbers in a known form (``12: ``) only count the lines, as in
    output of ``grep -n`` and of editors."""
    numbers = [rank_of(prefix) for prefix in prefixes]
    counted = [number for number in numbers if number is not None]
    rising = all(a < b for a, b in itertools.pairwise(counted))
    return rising and len(counted) >= _LEAST_LINES


def ranks(tags: Iterable[Tag], first: bytes | None) -> dict[Tag, int | None]:
    """Return a rank for each tag: the rank that it names; else the number in which
    the tags differ; else their order. ``first``: the text for the tag None. A log
    with one tag that names no rank has no ranks."""
    found: dict[Tag, int | None] = {
        tag: rank_of(tag) if tag is not None else None for tag in tags
    }
    found.update(
        counted_on(
            found,
            1
            + max(
                (rank for rank in found.values() if rank is not None), default=-1
            ),
        )
    )
    unknown = {
        tag: (tag if tag is not None else first)
        for tag, rank in found.items()
        if rank is None
    }
    texts = [text for text in unknown.values() if text is not None]
    if len(texts) < 2:
        return found
    numbers = _numbers(texts) or {text: index for index, text in enumerate(texts)}
    found.update(
        {tag: numbers[text] for tag, text in unknown.items() if text is not None}
    )
    return found


def source_of_ranks(tags: Iterable[Tag], first: bytes | None) -> str | None:
    """Return how ``ranks`` finds the ranks: "prefixes" if they contain a number,
    "order" if they do not; None for one process."""
    found = ranks(tags, first)
    if len({rank for rank in found.values() if rank is not None}) < 2:
        return None
    further = counted_on(found, 0)
    unknown = []
    for tag in found:
        names_none = tag is None or (rank_of(tag) is None and tag not in further)
        text = tag if tag is not None else first
        if names_none and text is not None:
            unknown.append(text)
    if len(unknown) > 1 and _numbers(unknown) is None:
        return "order"
    return "prefixes"


def _numbers(tags: list[bytes]) -> dict[bytes, int] | None:
    """Return, for each tag, the last number that differs from tag to tag; None if
    no number differs for all of them."""
    rows = [whole_numbers(n[-18:] for n in _NUMBER.findall(tag)) for tag in tags]
    if len({_NUMBER.sub(b"0", tag) for tag in tags}) > 1:
        return None
    for column in reversed(list(zip(*rows))):
        if len(set(column)) == len(tags):
            return dict(zip(tags, column))
    if all(b" local " in tag for tag in tags):  # numbered from machine to machine
        return {
            tag: index for index, (_, tag) in enumerate(sorted(zip(rows, tags)))
        }
    return None


class ProcessLines(NamedTuple):
    """Consecutive lines of one process, without colours and outer prefix."""

    tag: Tag
    text: bytes
    """The lines, each with its line end."""


class TaggedLog:
    """A log that is read once.

    Args: read: called with the number of bytes of each chunk. cut: as for
    ``read_chunks``. blocks: the bytes of the log, if they do not come from
    ``log.path`` (a file that grows). machines: the machines of the logs so far,
    including this one.
    """

    def __init__(
        self,
        log: LogInput,
        read: Callable[[int], None] | None = None,
        cut: Callable[[int, bool], None] | None = None,
        blocks: Iterable[bytes] | None = None,
        machines: Machines | None = None,
    ) -> None:
        self._log = log
        self._machines = machines
        self._blocks = blocks
        self._read = read
        self._cut = cut
        self._tags = RankTags(())
        self._rest = b""
        """The lines of the last stretch that were left: they are read with the next
        stretch."""
        self.may_leave: int | None = None
        """Offset in the last stretch from which on lines may be left."""
        self.without_end = False
        """True if the last line that was read has no line end."""

    @property
    def first(self) -> bytes | None:
        """The text for the tag None, after lines were read."""
        return self._tags.first

    def leave(self, rest: bytes) -> None:
        """Put back lines at the end of the last stretch: they come again with the
        next one; see ``may_leave``."""
        self._rest = rest

    def stretches(self) -> Iterator[ProcessLines]:
        """Yield all lines, in order."""
        around = _Around()
        tagged = False
        for text in around.whole_lines(self._chunks()):
            prefix = around.prefix
            if prefix is None:
                yield ProcessLines(None, self._behind_rest(text))
                continue
            if not tagged:
                tagged = True
                machine = 0
                if self._machines is not None:
                    machine = self._machines.begin(text)
                self._tags = RankTags(
                    prefix.prefixes(around.sample or text.split(b"\n", SAMPLE)),
                    machine,
                )
                yield from self._left()
            yield from self._of_processes(prefix, text[:-1].split(b"\n"))
        yield from self._left()

    def _chunks(self) -> Iterator[bytes]:
        """Yield the log in chunks of whole lines, without colours."""
        chunks: Iterator[bytes]
        if self._blocks is None:
            chunks = read_chunks(self._log, self._cut)
        else:
            chunks = whole_lines(self._blocks, self._cut)
        coloured: NestedWraps | None = None
        is_first = True
        for chunk in chunks:
            if self._read is not None:
                self._read(len(chunk))
            if coloured is None and b"\x1b" in chunk:
                coloured = _rows_with_colours(chunk, is_first)
                is_first = False
            text = clean(coloured.joined(chunk) if coloured is not None else chunk)
            if text:
                self.without_end = not text.endswith(b"\n")
                yield text + b"\n" if self.without_end else text
        if coloured is not None and (text := clean(coloured.rest())):
            yield text

    def _left(self) -> Iterator[ProcessLines]:
        """Yield the lines that were left, since no text follows with which they
        could be read."""
        rest, self._rest, self.may_leave = self._rest, b"", None
        if rest:
            yield ProcessLines(None, rest)

    def _behind_rest(self, text: bytes) -> bytes:
        """Return the lines that were left and these lines, which may be left as
        well."""
        # The lines of a growing file are read immediately.
        if self._blocks is not None:
            return text
        rest, self._rest, self.may_leave = self._rest, b"", len(self._rest)
        return rest + text

    def _of_processes(
        self, outer: OuterPrefix, lines: list[bytes]
    ) -> Iterator[ProcessLines]:
        tags = self._tags
        stretch: list[bytes] = []
        for line in lines:
            prefix, rest = outer.split(line)
            owner = tags.tag(prefix) if prefix is not None else tags.current
            if owner != tags.current:
                if stretch:
                    yield ProcessLines(tags.current, b"\n".join((*stretch, b"")))
                stretch, tags.current = [], owner
            stretch.append(rest)
        if stretch:
            yield ProcessLines(tags.current, b"\n".join((*stretch, b"")))


class _Around:
    """The layers around each line: the rows of a terminal, the field of a JSON
    object, and an outer prefix. All are learnt from the first lines that show
    them."""

    def __init__(self) -> None:
        self.prefix: OuterPrefix | None = None
        self.sample: list[bytes] | None = None
        """Lines of the last chunk from which the prefix was learnt."""
        self._rows_of_objects = NestedWraps()
        self._objects: JsonObjects | None = None
        self._rows = NestedWraps()
        self._learnt = False
        self._first = True
        self._left_to_compare = SAMPLE
        """Number of lines that are still compared to find a prefix of all lines,
        while there is no line of torch yet."""

    def whole_lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield lines as the program wrote them, still with the outer prefix.

        Args:
            chunks: whole rows, without colours.
        """
        for chunk in chunks:
            text = self._taken_off(chunk)
            if text:
                yield text
        text = self._lines_of(self._rows_of_objects.rest())
        if self._objects is not None:
            text += self._rows.joined(clean(self._objects.rest()))
        text += self._rows.rest()
        if text:
            yield text

    def _taken_off(self, text: bytes) -> bytes:
        is_first, self._first = self._first, False
        self.sample = None if self._learnt else sample_of(text)
        if self.sample is not None:
            self._learn(self.sample)
        elif is_first:
            first = text.rstrip(b"\n").split(b"\n", SAMPLE)[:SAMPLE]
            self._objects = JsonObjects.learn(first, MARKER.search)
            if self._objects is None:
                rows = self._rows_of_objects = NestedWraps.learn(first)
            else:
                first = self._out_of_objects(self._objects, first)
                rows = self._rows = NestedWraps.learn(first)
            self._learnt = bool(rows)
            if self._learnt:
                self.prefix = OuterPrefix.of_every_line(rows.of(first))
        text = self._lines_of(self._rows_of_objects.joined(text))
        if not text:
            return b""
        if self.prefix is not None or not self._learnt:
            self.prefix = with_those_of_tracebacks(self.prefix, text)
        if self.prefix is None and not self._learnt and self._left_to_compare:
            first = text.rstrip(b"\n").split(b"\n", self._left_to_compare)[
                : self._left_to_compare
            ]
            self._left_to_compare -= len(first)
            rows_are_lines = is_first and self._objects is None
            if rows_are_lines:
                self.prefix = self._rows_of_objects.before_rows
            else:
                self.prefix = OuterPrefix.of_every_line(first)
        return text

    def _lines_of(self, text: bytes) -> bytes:
        """Turn JSON objects into whole lines."""
        if self._objects is None or not text:
            return text
        return self._rows.joined(clean(self._objects.joined(text)))

    def _learn(self, sample: Sequence[bytes]) -> None:
        """Learn the rows, the objects and the prefix inside them."""
        self._learnt = True
        self._rows_of_objects = NestedWraps.learn(sample)
        lines = self._rows_of_objects.of(sample)
        objects = JsonObjects.learn(lines, MARKER.search)
        self._objects = self._objects or objects
        if objects is not None:
            lines = self._out_of_objects(objects, lines)
            self._rows = NestedWraps.learn(lines)
            lines = self._rows.of(lines)
        self.sample = lines
        learnt = OuterPrefix.learn(lines) or OuterPrefix.learn(lines, BEGINS)
        learnt = (
            learnt
            or OuterPrefix.of_indented(lines)
            or OuterPrefix.of_every_line(lines)
        )
        self.prefix = _either(self.prefix, learnt)

    @staticmethod
    def _out_of_objects(objects: JsonObjects, lines: list[bytes]) -> list[bytes]:
        """Return the lines inside the objects of a sample."""
        text = (
            objects.joined(b"".join(line + b"\n" for line in lines))
            + objects.rest()
        )
        return [line for line in clean(text).split(b"\n") if line]


def _either(
    known: OuterPrefix | None, learnt: OuterPrefix | None
) -> OuterPrefix | None:
    if known is not None and learnt is not None:
        return known.beside(learnt)
    return known or learnt


def tagged_lines(log: LogInput) -> Iterator[tuple[int, Tag, bytes]]:
    """Yield (number from 1, tag of the process, line) for every line, for callers
    that need text after the parse."""
    number = 1
    for tag, text in TaggedLog(log).stretches():
        for line in text[:-1].split(b"\n"):
            yield number, tag, line
            number += 1


def _rows_with_colours(chunk: bytes, is_first: bool) -> NestedWraps | None:
    """Return the layers of a log that was broken by a tool which counts colours as
    part of the width of a row, or which splits lines anywhere, even within a
    colour; None if its first lines do not show it yet.

    Args:
        is_first: no earlier chunk had colours. Then the lines may show it without a
            line of torch. Searching each chunk of a long output for that would take
            longer than reading it.
    """
    sample = sample_of(chunk)
    if sample is None and not is_first:
        return None
    lines = sample or chunk.rstrip(b"\n").split(b"\n", SAMPLE)[:SAMPLE]
    rows = NestedWraps.learn(lines)
    if rows.of_pieces is not None:
        return rows.of_pieces
    if rows:
        seen = NestedWraps.learn(
            clean(b"".join(line + b"\n" for line in lines)).split(b"\n")
        )
    else:
        seen = rows
    if rows.going_on > seen.going_on:
        return rows
    if sample is None:
        return None
    return NestedWraps()


_ONE_BYTE = re.compile(rb"(?<![\x80-\xff])\x9b[0-?]*[ -/]*[@-~]")
"""Control sequences of ECMA-48 after the single byte that means ``\\x1b[``, which
is also part of letters in UTF-8."""


def clean(chunk: bytes) -> bytes:
    """Remove colours, CRLF and overwritten progress text. For lines without any,
    the cost is only the search."""
    if b"\x9b" in chunk:
        chunk = _ONE_BYTE.sub(b"", chunk)
    if b"\x1b" in chunk:
        chunk = ESCAPES.sub(b"", chunk)
    if b"\r" in chunk:
        chunk = b"".join(_without_overwritten(chunk.replace(b"\r\n", b"\n")))
    return chunk


def _without_overwritten(chunk: bytes) -> Iterator[bytes]:
    """Yield the pieces of a chunk without the text that its carriage returns
    overwrite."""
    done, at = 0, chunk.find(b"\r")
    while at >= 0:
        start = max(done, chunk.rfind(b"\n", done, at) + 1)
        end = chunk.find(b"\n", at)
        end = end if end >= 0 else len(chunk)
        yield chunk[done:start]
        yield _overwritten(chunk[start:end])
        done, at = end, chunk.find(b"\r", end)
    yield chunk[done:]


def _overwritten(line: bytes) -> bytes:
    """Return the text that a terminal shows for a line with carriage returns (tqdm
    and others): the text after the last one. One at the very end overwrites
    nothing."""
    return line[line.rfind(b"\r", 0, max(0, len(line) - 1)) + 1 :]
