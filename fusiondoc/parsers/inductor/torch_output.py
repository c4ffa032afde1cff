"""Extracts lines of torch.compile from the lines of a log: lines of TORCH_LOGS, and
records of TORCH_TRACE. The rest of the log is left to other readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fusiondoc.fusers.inductor.break_texts import suppressed_failure
from fusiondoc.fusers.inductor.compilation import Line
from fusiondoc.parsers.inductor import FAILED, LIMIT, may_hold_lines
from fusiondoc.parsers.inductor.cut_ends import ends_cut
from fusiondoc.parsers.inductor.graph_breaks import (
    graph_break,
    limit_reached,
    recompile,
)
from fusiondoc.parsers.inductor.graph_parts import PartsOfProcess
from fusiondoc.parsers.inductor.log_lines import LogLine, log_line
from fusiondoc.parsers.inductor.structured_trace import (
    HEAD,
    MOST_PAYLOAD,
    UNREAD,
    StructuredTrace,
)
from fusiondoc.parsers.inductor.text_lines import TextLines

_BEGINNINGS = {
    "output_code": ("Output code:",),
    "post_grad_graphs": ("TRACED GRAPH",),
    "graph_breaks": ("Graph break ",),
    "recompiles": ("Recompiling function ",),
    "recompiles_verbose": ("Recompiling function ",),
    "ir_post_fusion": ("AFTER FUSION",),
    "inductor_metrics": ("Graph Metrics:",),
}
"""Beginnings of messages of each artifact that is read and has messages of several
lines."""

_OF_WARNINGS = b"torch/_dynamo/convert_frame.py"
"""The file whose warnings are read. They have no artifact."""
_MOST_PREFIX = 600
"""Number of bytes before the text of a line, at most."""
_FALLBACK = re.compile(r"Using FallbackKernel: (?:torch\.ops\.)?([\w.]+)")
_WARNINGS = ("limit", "failed")
"""Kinds of messages without an artifact."""
_GOES_ON = "goes on"
_MOST_MESSAGE = 64 << 20
_EVENT = re.compile(
    rb"[VDIWEC]\d{4} [\d:.]{8,16} +\d{1,10} [^\s:]{1,400}:\d{1,7}\] \{\"chromium_event\""
)
"""The head of a record that is an event for a profile."""
_NOT_EVENT = re.compile(rb"\n(?!\t)(?!%s)" % _EVENT.pattern)
"""The end of the last of such records, with its payload: this search skips most of
a trace."""
_NOT_PAYLOAD = re.compile(rb"\n(?!\t)")
"""The end of the last line of a payload."""


def _kind_of_warning(line: LogLine) -> str:
    """Return the kind of warning that a line without an artifact begins; "goes on"
    if it may be a later line of a warning; "" for others."""
    if _OF_WARNINGS not in line.file:
        return ""
    if LIMIT in line.text:
        return "limit"
    if FAILED in line.text:
        return "failed"
    return _GOES_ON


class _Message(NamedTuple):
    """A message whose lines follow each other, each with the prefix."""

    artifact: str
    compile_id: str | None
    time: bytes
    line: Line
    lines: list[str]
    numbers: list[int]
    """Line numbers of its lines in the log."""

    @property
    def text_lines(self) -> TextLines:
        """The positions of its lines."""
        return TextLines.numbered(self.line[0], self.numbers)

    def add(self, text: str, position: Line) -> None:
        """Add a line."""
        self.lines.append(text)
        self.numbers.append(position[1])

    def is_warning_of(self, line: LogLine) -> bool:
        """True if it has no artifact, and has the same compilation and time as a
        line."""
        same = (self.compile_id, self.time) == (line.compile_id, line.time)
        return same and self.artifact in _WARNINGS


class _Record(NamedTuple):
    """A record of a trace whose payload follows."""

    kind: bytes
    head: bytes
    line: Line
    payload: list[bytes]


class TorchOutput:
    """Extracts the lines of torch.compile from the text of one process."""

    def __init__(self, rank: int | None = None) -> None:
        self.parts = PartsOfProcess(rank)
        self.trace = StructuredTrace(self.parts)
        self.lines = 0
        """Number of lines that were extracted."""
        self.unknown: list[tuple[int, bytes]] = []
        """Extracted lines of unknown form: number and text."""
        self._messages: dict[bytes, _Message] = {}
        """Process id -> its open message. Workers that compile kernels write
        between the lines of a message of another process."""
        self._record: _Record | None = None
        self._in_unread = False
        """True inside the payload of a skipped record."""
        self._held = 0
        self._last = b""
        """The last chunk of the text."""

    def take(
        self, text: bytes, log: int, number: int
    ) -> Iterator[tuple[int, bytes]]:
        """Extract the lines of torch.compile from a chunk of a log.

        Args:
            text: whole lines, each with its line end.
            log, number: the log, and the number of the first line.

        Yields: The remaining text, in pieces of consecutive lines: the number of
            the first line, and the piece.
        """
        self._last = text
        is_open = self._record is not None or self._in_unread
        is_open = is_open or (
            bool(self._messages) and _OF_WARNINGS in text[:_MOST_PREFIX]
        )
        if not is_open and not may_hold_lines(text):
            self._end_messages()
            yield number, text
            return
        left: list[bytes] = []
        at, current = 0, number
        while at < len(text):
            end = self._whole_payload(text, at) or self._skipped(text, at)
            if end > at:
                skipped = text.count(b"\n", at, end)
                self.lines, current, at = (
                    self.lines + skipped,
                    current + skipped,
                    end,
                )
                continue
            end = text.index(b"\n", at)
            line, at = text[at:end], end + 1
            if not self._take(line, (log, current)):
                left.append(line)
            else:
                self.lines += 1
                if left:
                    yield current - len(left), b"\n".join((*left, b""))
                    left = []
            current += 1
        if left:
            yield current - len(left), b"\n".join((*left, b""))

    def _whole_payload(self, text: bytes, at: int) -> int:
        """Read the lines of a payload from ``at`` on at once; return their end, or
        0 if there are none."""
        if not text.startswith(b"\t", at) or (
            self._record is None and not self._in_unread
        ):
            return 0
        found = _NOT_PAYLOAD.search(text, at)
        end = found.start() + 1 if found is not None else len(text)
        if self._record is not None:
            part = text[at + 1 : min(end - 1, at + 1 + MOST_PAYLOAD - self._held)]
            self._held += end - at
            if part or not self._record.payload:
                self._record.payload.append(part.replace(b"\n\t", b"\n"))
        return end

    def _skipped(self, text: bytes, at: int) -> int:
        """Return the end of a run of skipped events that begins at ``at``; ``at``
        if there is none."""
        if _EVENT.match(text, at) is None:
            return at
        self._end_messages()
        self._end_record()
        self._in_unread = True
        end = _NOT_EVENT.search(text, at)
        if end is not None:
            return end.start() + 1
        return len(text)

    def _take(self, line: bytes, position: Line) -> bool:
        """Read a line; return False for a line of others."""
        if b"] " not in line[:600]:
            return self._goes_on(line)
        record = HEAD.match(line) if b'] {"' in line[:600] else None
        if record is not None:
            self._end_messages()
            self._begin_record(record, position)
            return True
        found = log_line(line)
        if found is None:
            return self._goes_on(line)
        if found.artifact is None:
            return self._warning(found, position)
        self._end_record()
        self._artifact(found, position)
        return True

    def _goes_on(self, line: bytes) -> bool:
        self._end_record()
        return False

    def _begin_record(self, found: re.Match[bytes], position: Line) -> None:
        self._end_record()
        _, head, kind = found.groups()
        if kind in UNREAD:
            self._in_unread = True
            return
        self._record = _Record(kind, head, position, [])
        self._held = 0

    def _end_record(self) -> None:
        self._in_unread = False
        record = self._record
        if record is not None:
            self._record = None
            self.trace.take(record.kind, record.head, record.payload, record.line)

    def _warning(self, found: LogLine, position: Line) -> bool:
        """Read a line without an artifact; return False if it is not read here."""
        text = found.text.decode("utf-8", "replace")
        kind = _kind_of_warning(found)
        message = self._messages.get(found.process)
        if (
            message is not None
            and kind == _GOES_ON
            and message.is_warning_of(found)
        ):
            message.add(text, position)
            return True
        self._end_message(found.process)
        if kind not in _WARNINGS:
            return False
        message = _Message(kind, found.compile_id, found.time, position, [], [])
        message.add(text, position)
        self._messages[found.process] = message
        return True

    def _artifact(self, found: LogLine, position: Line) -> None:
        artifact = found.artifact or ""
        text = found.text.decode("utf-8", "replace")
        if artifact == "fusion":
            self._end_message(found.process)
            if not self.parts.fusion(found.compile_id, text, position):
                self.unknown.append((position[1], found.text))
        elif artifact == "perf_hints":
            self._end_message(found.process)
            fallback = _FALLBACK.match(text)
            if fallback is not None:
                self.parts.fallbacks[fallback.group(1)] = None
        elif artifact in _BEGINNINGS:
            self._message_line(artifact, text, found, position)
        else:
            self._end_message(found.process)

    def _message_line(
        self, artifact: str, text: str, found: LogLine, position: Line
    ) -> None:
        message = self._messages.get(found.process)
        same = message is not None and message[:3] == (
            artifact,
            found.compile_id,
            found.time,
        )
        if not same or text.startswith(_BEGINNINGS[artifact]):
            self._end_message(found.process)
            message = _Message(
                artifact, found.compile_id, found.time, position, [], []
            )
            self._messages[found.process] = message
            self._held = 0
        assert message is not None
        self._held += len(text)
        if self._held <= _MOST_MESSAGE:
            message.add(text, position)

    def _end_messages(self) -> None:
        for process in tuple(self._messages):
            self._end_message(process)

    def _end_message(self, process: bytes) -> None:
        message = self._messages.pop(process, None)
        if message is None:
            return
        text = "\n".join(message.lines)
        if not self._of_message(message, text):
            self.unknown.append((message.line[1], message.lines[0].encode()))
            self.parts.not_known(message.lines[0])

    def _of_message(self, message: _Message, text: str) -> bool:
        """Read a whole message; return False if its form is not known."""
        parts, compile_id = self.parts, message.compile_id
        artifact = message.artifact
        if artifact in ("output_code", "post_grad_graphs"):
            begins = message.lines[0].startswith(_BEGINNINGS[artifact])
            if artifact == "post_grad_graphs":
                parts.post_grad_graph(compile_id, text, message.text_lines)
            elif "def call(" in text or "async_compile" in text:
                parts.output_code(compile_id, text, message.text_lines)
            return begins or "Output code written to" in text
        if artifact == "ir_post_fusion":
            parts.post_fusion_ir(compile_id, text, message.text_lines)
            return message.lines[0].startswith(_BEGINNINGS[artifact])
        if artifact == "graph_breaks":
            found = graph_break(text, compile_id, parts.rank, message.line)
            if found is not None:
                parts.breaks.append(found)
            return found is not None
        if artifact == "inductor_metrics":
            return parts.metrics(compile_id, text)
        if artifact == "failed":
            failed = suppressed_failure(text)
            if failed is not None:
                parts.failed_compilation(
                    compile_id, failed[1], failed[0], message.line
                )
            return failed is not None
        read = limit_reached if artifact == "limit" else recompile
        again = read(text, compile_id, parts.rank, message.line)
        if again is not None:
            parts.recompiles.append(again)
        return again is not None

    def close(self, without_end: bool = False) -> None:
        """Finish at the end of the text, possibly ``without_end`` of its last line:
        open messages are read as far as they came."""
        self._end_record()
        self._end_messages()
        if not self.parts.cut:  # else the truncated texts are counted
            self.parts.cut_records += ends_cut(self._last, without_end)
        self._last = b""
        self.trace.close()
