r"""The one loop from the bytes of a log to its lines, each stretch of them with the process that it is of,
where several processes write one log and a launcher or container tags each line.

Known tags name the rank. Others are distinguished by their text: what is left of a prefix without times. Then
the rank is the number that differs between the tags, or their order where no number does.

A line may be a JSON object with a line of the program in one of its fields: Docker's json-file driver
(``{"log": "...\n", "stream": "stderr", "time": ...}``), and what many services log through.
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
from fusiondoc.parsers.lines.wrapped_rows import ESCAPES, Layers

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
"""More different texts are no tags but something that counts: line numbers, times
of an unknown form."""

_LEAST_LINES = 6
"""So many ranks do not write a line each, in order."""

Tag = bytes | None


def rank_of(prefix: bytes) -> int | None:
    """The rank that a prefix names in one of the known forms."""
    for form in _KNOWN:
        found = form.search(prefix)
        if found:
            return whole_number(found.group(1))
    return None


class RankTags:
    """The processes of one log. ``sample``: prefixes from its start, one a line;
    ``machine``: see ``Machines.begin``."""

    def __init__(self, sample: Iterable[bytes], machine: int = 0) -> None:
        self.first: bytes | None = None
        """The first unknown tag. Its lines have the tag None, so that a log with a
        prefix that tags nothing is one process, and goes together with another log
        of that process that has no prefix."""
        self.current: Tag = None
        """Of the last line; a line without a prefix goes on with it."""
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
        """Several, each with ranks of its own that are counted from 0."""
        self._by_text = len(seen) <= min(
            _MOST_TAGS, max(1, sum(seen.values()) // 3)
        )

    def tag(self, prefix: bytes) -> Tag:
        """What the lines of one process have in common; None where nothing shows
        it."""
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
    """What a launcher around torch's puts before its tag, without times."""
    return b" ".join(_NAME.findall(TIMES.sub(b"", _OPEN_MPI.sub(rb"\1 ", text))))


_NAME = re.compile(rb"[\w.-]+")


def _line_numbers(prefixes: list[bytes]) -> bool:
    """Whether the numbers in a known form (``12: ``) only count the lines, as
    ``grep -n`` and editors do."""
    numbers = [rank_of(prefix) for prefix in prefixes]
    counted = [number for number in numbers if number is not None]
    rising = all(a < b for a, b in itertools.pairwise(counted))
    return rising and len(counted) >= _LEAST_LINES


def ranks(tags: Iterable[Tag], first: bytes | None) -> dict[Tag, int | None]:
    """A rank for each tag: the one it names; else the number in which the tags
    differ; else their order. ``first``: the text behind the tag None. A log with
    one tag that names no rank has no ranks."""
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
    """How ``ranks`` knows them: "prefixes" that hold a number, or the "order" of
    those that hold none; None for one process."""
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
    return "order" if len(unknown) > 1 and _numbers(unknown) is None else "prefixes"


def _numbers(tags: list[bytes]) -> dict[bytes, int] | None:
    """The last number of the tags that differs from tag to tag; None if none
    differs for all of them."""
    rows = [whole_numbers(n[-18:] for n in _NUMBER.findall(tag)) for tag in tags]
    if len({_NUMBER.sub(b"0", tag) for tag in tags}) > 1:
        return None
    for column in reversed(list(zip(*rows))):
        if len(set(column)) == len(tags):
            return dict(zip(tags, column))
    if all(b" local " in tag for tag in tags):  # counted on from machine to machine
        return {
            tag: index for index, (_, tag) in enumerate(sorted(zip(rows, tags)))
        }
    return None


class Stretch(NamedTuple):
    """Consecutive lines of one process, without colours and outer prefix."""

    tag: Tag
    text: bytes
    """Each line with its end."""


class TaggedLog:
    """A log that is read once.

    Args: read: gets the bytes of each chunk. cut: as for ``read_chunks``. blocks:
        the bytes of the log, where they do not come from ``log.path`` (a file that
        grows). machines: those of the logs that were read before, and of this one.
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
        """Of the last stretch: it is read with the next one."""
        self.may_leave: int | None = None
        """Lines of the last stretch from here on may be left."""
        self.without_end = False
        """The last line that was read has no line end."""

    @property
    def first(self) -> bytes | None:
        """The text behind the tag None, once lines are read."""
        return self._tags.first

    def leave(self, rest: bytes) -> None:
        """These lines at the end of the last stretch come once more, with the next
        one; see ``may_leave``."""
        self._rest = rest

    def stretches(self) -> Iterator[Stretch]:
        """All lines, in order."""
        around = _Around()
        tagged = False
        for text in around.whole_lines(self._chunks()):
            prefix = around.prefix
            if prefix is None:
                yield Stretch(None, self._behind_rest(text))
                continue
            if not tagged:
                tagged = True
                machine = (
                    self._machines.begin(text) if self._machines is not None else 0
                )
                self._tags = RankTags(
                    prefix.prefixes(around.sample or text.split(b"\n", SAMPLE)),
                    machine,
                )
                yield from self._left()
            yield from self._of_processes(prefix, text[:-1].split(b"\n"))
        yield from self._left()

    def _chunks(self) -> Iterator[bytes]:
        """The log in pieces of whole lines, without colours."""
        chunks: Iterator[bytes]
        if self._blocks is None:
            chunks = read_chunks(self._log, self._cut)
        else:
            chunks = whole_lines(self._blocks, self._cut)
        coloured: Layers | None = None
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

    def _left(self) -> Iterator[Stretch]:
        """The lines that were left: nothing follows that they could be read
        with."""
        rest, self._rest, self.may_leave = self._rest, b"", None
        if rest:
            yield Stretch(None, rest)

    def _behind_rest(self, text: bytes) -> bytes:
        """The lines that were left, and these behind them, which may be left as
        well."""
        if (
            self._blocks is not None
        ):  # a file that grows: what it holds is read at once
            return text
        rest, self._rest, self.may_leave = self._rest, b"", len(self._rest)
        return rest + text

    def _of_processes(
        self, outer: OuterPrefix, lines: list[bytes]
    ) -> Iterator[Stretch]:
        tags = self._tags
        stretch: list[bytes] = []
        for line in lines:
            prefix, rest = outer.split(line)
            owner = tags.tag(prefix) if prefix is not None else tags.current
            if owner != tags.current:
                if stretch:
                    yield Stretch(tags.current, b"\n".join((*stretch, b"")))
                stretch, tags.current = [], owner
            stretch.append(rest)
        if stretch:
            yield Stretch(tags.current, b"\n".join((*stretch, b"")))


class _Around:
    """What stands around each line: the rows of a terminal, the field of an object
    in JSON, and an outer prefix. All are learnt from the first lines that show
    them."""

    def __init__(self) -> None:
        self.prefix: OuterPrefix | None = None
        self.sample: list[bytes] | None = None
        """Lines of the last piece that the prefix was learnt from."""
        self._rows_of_objects = Layers()
        self._objects: JsonObjects | None = None
        self._rows = Layers()
        self._learnt = False
        self._first = True
        self._left_to_compare = SAMPLE
        """Lines that are still looked at for a prefix of all lines, where torch has
        written none yet."""

    def whole_lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Lines as the program wrote them; the outer prefix is still before them.

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
                rows = self._rows_of_objects = Layers.learn(first)
            else:
                first = self._out_of_objects(self._objects, first)
                rows = self._rows = Layers.learn(first)
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
            self.prefix = (
                self._rows_of_objects.before_rows
                if rows_are_lines
                else OuterPrefix.of_every_line(first)
            )
        return text

    def _lines_of(self, text: bytes) -> bytes:
        """Whole lines behind the objects in JSON."""
        if self._objects is None or not text:
            return text
        return self._rows.joined(clean(self._objects.joined(text)))

    def _learn(self, sample: Sequence[bytes]) -> None:
        """The rows, the objects and the prefix behind them."""
        self._learnt = True
        self._rows_of_objects = Layers.learn(sample)
        lines = self._rows_of_objects.of(sample)
        objects = JsonObjects.learn(lines, MARKER.search)
        self._objects = self._objects or objects
        if objects is not None:
            lines = self._out_of_objects(objects, lines)
            self._rows = Layers.learn(lines)
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
        """The lines of a sample."""
        text = (
            objects.joined(b"".join(line + b"\n" for line in lines))
            + objects.rest()
        )
        return [line for line in clean(text).split(b"\n") if line]


def _either(
    known: OuterPrefix | None, learnt: OuterPrefix | None
) -> OuterPrefix | None:
    return (
        known.beside(learnt)
        if known is not None and learnt is not None
        else known or learnt
    )


def tagged_lines(log: LogInput) -> Iterator[tuple[int, Tag, bytes]]:
    """(number from 1, tag of the process, line) of every line: for what needs their
    text after the parse."""
    number = 1
    for tag, text in TaggedLog(log).stretches():
        for line in text[:-1].split(b"\n"):
            yield number, tag, line
            number += 1


def _rows_with_colours(chunk: bytes, is_first: bool) -> Layers | None:
    """How a log is broken by a tool for which colours count for the width of a row,
    or that cuts lines anywhere, also within a colour; None where its first lines do
    not show it yet.

    Args:
        is_first: no piece with colours came before. It may show it without a line of torch; to look for that
            in each piece of a long output would take longer than to read it.
    """
    sample = sample_of(chunk)
    if sample is None and not is_first:
        return None
    lines = sample or chunk.rstrip(b"\n").split(b"\n", SAMPLE)[:SAMPLE]
    rows = Layers.learn(lines)
    if rows.of_pieces is not None:
        return rows.of_pieces
    seen = (
        Layers.learn(clean(b"".join(line + b"\n" for line in lines)).split(b"\n"))
        if rows
        else rows
    )
    if rows.going_on > seen.going_on:
        return rows
    return Layers() if sample is not None else None


_ONE_BYTE = re.compile(rb"(?<![\x80-\xff])\x9b[0-?]*[ -/]*[@-~]")
"""Control sequences, as in ECMA-48, behind the one byte for ``\\x1b[``, which is part of letters in UTF-8."""


def clean(chunk: bytes) -> bytes:
    """Remove colours, CRLF and overwritten progress text. Lines without any cost
    nothing but the search."""
    if b"\x9b" in chunk:
        chunk = _ONE_BYTE.sub(b"", chunk)
    if b"\x1b" in chunk:
        chunk = ESCAPES.sub(b"", chunk)
    if b"\r" in chunk:
        chunk = b"".join(_without_overwritten(chunk.replace(b"\r\n", b"\n")))
    return chunk


def _without_overwritten(chunk: bytes) -> Iterator[bytes]:
    """The pieces of a chunk without what its carriage returns overwrite."""
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
    """What a terminal shows of a line with carriage returns (tqdm and others): the
    text after the last one. One at the very end overwrites nothing."""
    return line[line.rfind(b"\r", 0, max(0, len(line) - 1)) + 1 :]
