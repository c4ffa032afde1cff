"""Prefixes that a tool outside torch put before the lines of a log: a time, the tag
of a rank, or both. They are learnt from torch's lines in a sample, or from
tracebacks if there are too few of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from fusiondoc.parsers.lines.failures import without_rank
from fusiondoc.parsers.lines.torn_lines import MARK

_MOST_PREFIX = 300
"""Number of bytes. A marker further right follows output of the program, not a
prefix."""

_OF_COMPILE = rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^\s:\]]+:\d+\] "
"""The prefix that torch writes before lines of torch.compile
(``TorchLogsFormatter``, torch/_logging/_internal.py)."""

MARKER = re.compile(
    MARK + rb"|(?<!With arguments: )Launch Parameters: |kernel\d+ run in "
    rb"|======= Codegen output|===== No bank confliction|\[fusiondoc\] |(?<!= )graph\(%|  return \("
    rb"|" + _OF_COMPILE + rb"(?:\[[^\]]*\] )*(?:\[__\w+\]|\{\"|WON'T CONVERT )"
)
_OF_MARKERS = (
    b"[DUMP ",
    b"[UPDATE ",
    b"[DEBUG ",
    b"Launch Parameters: ",
    b" run in ",
    b"======= Codegen output",
    b"===== No bank confliction",
    b"[fusiondoc] ",
    b"graph(%",
    b"  return (",
    b"] [__",
    b'] {"',
    b"] WON'T CONVERT ",
)
"""Each match of MARKER contains one of these, which are found ten times as fast."""

TIMES = re.compile(
    rb"\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d\d:\d\d:\d\d(?:[.,]\d+)?|\d+[.,]\d+|\d{9,}|[+-]\d\d:?\d\d\b"
    rb"|\bstd(?:err|out)\b(?: [FP](?= ))?|(?<=Z )\d\d[EO][ +]"
)
"""Parts of a prefix that do not identify the process: the time, the stream, and the
mark that the line continues (containers' logs in containerd's format, GitLab's
logs)."""

BEGINS = re.compile(
    rb"\[(?:DUMP|UPDATE|DEBUG) [\w+-]+\.|(?<!With arguments: )Launch Parameters: |kernel\d+ run in "
    rb"|======= Codegen output|" + _OF_COMPILE
)
"""Beginnings of torch's lines, also of lines that are broken soon after. No other
lines have them."""
_LINE_OF_COMPILE = re.compile(_OF_COMPILE)
_SAMPLED = re.compile(BEGINS.pattern + rb"|" + MARKER.pattern)

_DIGITS = re.compile(rb" *\d+")
"""A number, with the spaces that align it."""


SAMPLE = 4000
"""Number of lines from which an outer prefix is learnt."""
_NUMBER = re.compile(rb"\d+")
_LOGGER = rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.-]{1,80}:"
_END_OF_PREFIX = re.compile(
    rb"%s|[\]|:>Z)] |(?<= )- |[\]:]$|0[EO]?  ?|std(?:err|out)(?: [FP])? " % _LOGGER
)
"""The end of a time or a tag."""
_END_OF_PART = re.compile(
    rb"[\]|](?: +|(?=0))|Z(?: +|(?=0[EO]))|[:>)] +|\x1b\[[\d;]*m|%s|[\]>]:(?! )"
    rb"|(?<=0)(?: +|[EO](?: +|(?=0)))|(?<= )- |(?<= )std(?:err|out) [FP] " % _LOGGER
)
"""Positions where the part of the prefix from one tool may end and that of the next
begin."""
_TAG = re.compile(
    rb"\[|%s|0: |\([\w.]{1,80} pid=0(?:, ip=[\w.:-]{1,80})?\) |[^|]{1,100}\| "
    % _LOGGER
)
"""A prefix without a time: in brackets, from Python's logging, ``srun -l``, Ray, or
a container."""
_LEAST_ALIKE = 4
"""Number of lines that suffice if all begin alike."""
_LEAST_MARKS = 3
"""Number of torch's lines that suffice to show whether they have a prefix."""


def sample_of(text: bytes) -> list[bytes] | None:
    """Return the first lines with enough of torch's lines to learn from: many ranks
    can write thousands of other lines first. None if there are not enough."""
    at = 0
    while any(text.find(one, at) >= 0 for one in _OF_MARKERS):
        lines = text[at:-1].split(b"\n", SAMPLE)[:SAMPLE]
        marked = (line for line in lines if _SAMPLED.search(line) is not None)
        if len(list(islice(marked, _LEAST_MARKS))) == _LEAST_MARKS:
            return lines
        at += sum(map(len, lines)) + len(lines)
        found = _SAMPLED.search(text, at)
        if found is None:
            break
        at = max(at, text.rfind(b"\n", 0, found.start()) + 1)
    return None


class OuterPrefix:
    """A prefix that a tool outside torch put before every line: a time, a rank tag,
    or both.

    It is learnt from the positions of torch's own markers in a sample: the same
    text (except for digits) before most of them is a prefix. Text before only a few
    is output of the program without a line end.
    """

    def __init__(
        self, patterns: Sequence[bytes], shapes: Sequence[bytes] = ()
    ) -> None:
        self.patterns = tuple(patterns)
        self.shapes = tuple(shapes)
        """The prefixes, with each number replaced by 0."""
        self._match = re.compile(
            b"|".join(b"(?:" + p + b")" for p in patterns)
        ).match

    def split(self, line: bytes) -> tuple[bytes | None, bytes]:
        """Return (prefix, line without it); (None, line) for a line without the
        prefix."""
        found = self._match(line)
        if found is None:
            return None, line
        return found.group(), line[found.end() :]

    def prefixes(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the prefixes of the lines that have one."""
        for line in lines:
            found = self._match(line)
            if found is not None:
                yield found.group()

    @staticmethod
    def learn(
        lines: Sequence[bytes], marker: re.Pattern[bytes] = MARKER
    ) -> OuterPrefix | None:
        """Return the prefix of a sample of lines, or None if markers are at the
        start of lines."""
        shapes: dict[bytes, int] = {}
        marked = 0
        for line in lines:
            found = marker.search(line)
            if found is None:
                continue
            marked += 1
            if 0 < found.start() <= _MOST_PREFIX:
                shape = _DIGITS.sub(b"0", line[: found.start()])
                shapes[shape] = shapes.get(shape, 0) + 1
        often = [
            shape
            for shape, count in shapes.items()
            if count >= 3 and not shape.isspace()
        ]
        outer = [
            shape
            for shape in often
            if not any(_ends_in_payload(shape, one) for one in often)
        ]
        if not marked or sum(shapes[shape] for shape in often) * 2 < marked:
            return None
        return OuterPrefix.of_shapes(
            {both for one in outer for both in _of_both_streams(one)}
        )

    @staticmethod
    def of_every_line(lines: Sequence[bytes]) -> OuterPrefix | None:
        """Return the common beginning of all lines of a log with too few of torch's
        lines to learn from, if it is a time or a tag; else None."""
        if len(lines) < _LEAST_ALIKE or any(map(_SAMPLED.match, lines)):
            return None
        shapes = [
            _of_stdout(_NUMBER.sub(b"0", line[:_MOST_PREFIX])) for line in lines
        ]
        ends = [
            found.end()
            for found in _END_OF_PREFIX.finditer(
                _common_start(min(shapes), max(shapes))
            )
        ]
        if not ends:
            return None
        shape = shapes[0][: ends[-1]]
        is_time = TIMES.search(lines[0][: 2 * len(shape)]) is not None
        if not is_time and _TAG.match(shape) is None:
            return None
        return OuterPrefix.of_shapes(_of_both_streams(shape))

    @staticmethod
    def of_indented(lines: Sequence[bytes]) -> OuterPrefix | None:
        """Return the indentation of all lines of a torch.compile log that was
        copied into a block of a text; else None. Other lines of torch are
        recognised after blanks anyway."""
        starts = [line for line in lines if line and not line.isspace()]
        first = starts[0] if starts else b""
        indent = first[: len(first) - len(first.lstrip(b" \t"))]
        is_common = bool(indent) and all(line.startswith(indent) for line in starts)
        if not is_common or not any(
            _LINE_OF_COMPILE.match(line, len(indent)) for line in starts
        ):
            return None
        return OuterPrefix([re.escape(indent)], [indent])

    @staticmethod
    def of_shapes(
        shapes: Iterable[bytes], ends_in_blank: bool = False
    ) -> OuterPrefix:
        """Return a prefix for texts in which each number is a 0. ``ends_in_blank``:
        a blank may follow each."""
        longest = sorted(shapes, key=len, reverse=True)
        longest = longest[:_MOST_SHAPES]
        end = b" ?" if ends_in_blank else b""
        return OuterPrefix(
            [
                re.escape(shape).replace(b"0", rb" {0,20}\d{1,20}(?!\d)") + end
                for shape in longest
            ],
            longest,
        )

    def cuts(self) -> Iterator[tuple[OuterPrefix | None, OuterPrefix | None]]:
        """Yield the prefix split in two, since tools may wrap each other: the
        prefix of each row, and the prefix of the lines after it; the longest first
        part comes first."""
        ends = [
            [0, *(found.end() for found in _END_OF_PART.finditer(one))]
            for one in self.shapes
        ]
        for number in range(max(map(len, ends), default=1) - 1, -1, -1):
            pairs = [
                (shape[: own[number]], shape[own[number] :])
                for shape, own in zip(self.shapes, ends)
                if number < len(own)
            ]
            first, rest = ({one[k] for one in pairs} - {b""} for k in (0, 1))
            if not any(one.isspace() for one in first | rest):
                # A number after the cut includes the blank before it.
                ends_in_blank = any(one.startswith(b"0") for one in rest)
                yield (
                    OuterPrefix.of_shapes(first, ends_in_blank) if first else None,
                    OuterPrefix.of_shapes(rest) if rest else None,
                )

    def beside(self, other: OuterPrefix) -> OuterPrefix:
        """Return a prefix that matches either of two."""
        added = [
            (pattern, shape)
            for pattern, shape in zip(other.patterns, other.shapes)
            if pattern not in self.patterns
        ][:_MOST_SHAPES]
        patterns, shapes = zip(*added) if added else ((), ())
        return OuterPrefix((*self.patterns, *patterns), (*self.shapes, *shapes))


def _ends_in_payload(shape: bytes, outer: bytes) -> bool:
    """True if a text before a marker consists of a prefix and the tab and blanks of
    a payload (TORCH_TRACE)."""
    return shape.startswith(outer + b"\t") and shape[len(outer) :].isspace()


_STREAM = re.compile(rb"\bstd(?:err|out)\b|(?<=Z0)[EO]|(?<=Z 0)[EO]")
_OTHER_STREAM = {b"stderr": b"stdout", b"stdout": b"stderr", b"E": b"O", b"O": b"E"}
_STDOUT = {b"stderr": b"stdout", b"E": b"O"}


def _of_both_streams(shape: bytes) -> tuple[bytes, bytes]:
    """Return the prefix shapes for lines of both streams, stderr and stdout, from
    the shape for one."""
    return shape, _STREAM.sub(lambda found: _OTHER_STREAM[found[0]], shape)


def _of_stdout(shape: bytes) -> bytes:
    """Return a shape with the names of stderr replaced by those of stdout."""
    return _STREAM.sub(lambda found: _STDOUT.get(found[0], found[0]), shape)


def _common_start(first: bytes, other: bytes) -> bytes:
    for index, (mine, its) in enumerate(zip(first, other)):
        if mine != its:
            return first[:index]
    return first[: len(other)]


def with_those_of_tracebacks(
    outer: OuterPrefix | None, text: bytes
) -> OuterPrefix | None:
    """Return a prefix that also matches the prefixes of tracebacks in a text: a
    process that fails at once writes nothing else that shows its prefix. The first
    frame of a traceback must have the same prefix. None if there is no prefix at
    all.

    The tag with which torch begins the lines of a traceback is not included: torch
    writes it before no other lines.
    """
    shapes: set[bytes] = set()
    at = text.find(_TRACEBACK)
    while at >= 0 and len(shapes) < _MOST_SHAPES:
        line = text.rfind(b"\n", 0, at) + 1
        prefix = _without_torch(text[max(line, at - _MOST_PREFIX - 1) : at])
        own = outer.split(prefix)[0] if outer is not None else None
        known = own is not None and (own == prefix or _ends_in_payload(prefix, own))
        if (
            len(prefix) <= _MOST_PREFIX
            and _WORD.search(prefix)
            and not known
            and _goes_on(text, at, prefix)
        ):
            shapes.add(_DIGITS.sub(b"0", prefix))
        at = text.find(_TRACEBACK, at + 1)
    if not shapes:
        return outer
    found = OuterPrefix.of_shapes(shapes)
    if outer is None:
        return found
    return outer.beside(found)


_MOST_SHAPES = 16
"""Number of prefixes that differ in more than their numbers."""
_TRACEBACK = b"Traceback (most recent call last):"
_FRAME = re.compile(rb'  File "[^"\n]{1,500}", line \d')
_FRAME_WITHIN = 4000
"""Number of bytes after the first line of a traceback that are searched for its
first frame: other ranks write in between."""
_WORD = re.compile(rb"\w")


def _goes_on(text: bytes, at: int, prefix: bytes) -> bool:
    """True if a frame of a traceback follows ``at`` with the same prefix, except
    for times."""
    without_times = TIMES.sub(b"", prefix)
    for frame in _FRAME.finditer(text, at, at + _FRAME_WITHIN):
        line = text.rfind(b"\n", 0, frame.start()) + 1
        if (
            TIMES.sub(b"", _without_torch(text[line : frame.start()]))
            == without_times
        ):
            return True
    return False


_OF_LOGGER = re.compile(
    rb"[VDIWEC]\d{4} [\d:.]{8,16} +\d{1,10} [^\s:\]]{1,400}:\d{1,7}\] (?:\[[^\]]*\] )?$"
)
"""The prefix that torch's own logger puts before each line (``TorchLogsFormatter``
in torch/_logging/_internal.py)."""


def _without_torch(prefix: bytes) -> bytes:
    """Return a prefix without the part that torch itself puts before the lines of a
    traceback: a rank tag, or the prefix of its log."""
    logged = _OF_LOGGER.search(prefix)
    if logged is not None:
        return prefix[: logged.start()]
    at = prefix.rfind(b"[rank")
    if at >= 0 and not without_rank(prefix[at:])[1]:
        return prefix[:at]
    return prefix
