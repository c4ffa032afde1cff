"""Passes the lines of one stream (one rank, or the whole log) to the parsers for
them.

Lines come in order, with their positions; runs of JIT log lines and codegen frames
are read as a whole, so that little work is done per line.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from re import Match

from fusiondoc.numbers import whole_numbers
from fusiondoc.parsers.events import (
    DumpBegan,
    Event,
    FellBack,
    FuserGone,
    KernelSource,
    LibraryLine,
    Output,
    OutputLines,
    PassBegan,
    TextDump,
)
from fusiondoc.parsers.facts import MARK, Facts, LineCounts
from fusiondoc.parsers.fuser_work import KernelNamed
from fusiondoc.parsers.gathering import Gathering
from fusiondoc.parsers.jit.bare_graphs import BareGraphs
from fusiondoc.parsers.jit.message_runs import (
    FRAME,
    GLUED,
    PREFIX,
    Lines,
    RunEnds,
    may_hold_a_mark,
    run_end,
)
from fusiondoc.parsers.jit.messages import JitMessages
from fusiondoc.parsers.jit.nnc_failed_conditions import FILE as FILE_OF_CONDITIONS
from fusiondoc.parsers.jit.regions import LiveLayers
from fusiondoc.parsers.kernels.kernel_dumps import DumpReader
from fusiondoc.parsers.kernels.kernel_sources import (
    ENDS_CODE,
    FRAME_LIMIT,
    NEXT_FRAME,
    KernelSources,
    index_of,
)
from fusiondoc.parsers.kernels.launches import (
    FRAME_END,
    FRAME_START,
    KERNEL_LINES,
    OLD_FRAME_ENDS,
    event_of,
)
from fusiondoc.parsers.lines.failures import shows_a_crash
from fusiondoc.parsers.lines.torch_warnings import (
    CONTINUES,
    FALLBACK,
    KNOWN,
    is_cpp_warning,
    is_fuser_gone,
    is_python_warning,
    stage_of,
)
from fusiondoc.parsers.program_output import Pieces
from fusiondoc.parsers.repeats import LATER, Repeats, State, Stretch, Tape, is_first

_OF_CONDITIONS = FILE_OF_CONDITIONS.encode()
_FRAME_LINES = 500
"""Number of lines that are searched at once: the lines after an interruption are
searched again."""


class Stream:
    """State of one stream. ``feed`` reads lines, ``close`` ends the stream."""

    def __init__(
        self,
        facts: Facts,
        counts: LineCounts,
        layers: Sequence[LiveLayers] = (),
    ) -> None:
        self.facts = facts
        self._counts = counts
        self._run_ends = RunEnds()
        # Logs are read without a collector: no part may refer to the whole.
        weak = weakref.proxy(self)
        self._gathering = Gathering(
            facts, counts, lambda: weak.messages.settle(), layers
        )
        self._tape = tape = Tape(counts, self._gathering.take)
        self._repeats = Repeats(self._tape)
        self.messages = JitMessages(self._gathering, counts, self._tape)
        self._text = DumpReader(
            lambda kind, lines, pos: tape.happens(pos, TextDump(kind, lines))
        )
        self._frame: tuple[bytes, list[bytes], int] | None = None
        self._old_frame = False
        self._frame_at = 0
        """Position after the last line of the open frame."""
        self._sources = KernelSources()
        self._bare = BareGraphs(self._gathering.graphs.bare, counts)
        self._warning = False
        self._blank = 0
        """Number of empty lines that may or may not belong to a dump."""
        self._after = 0
        """Number of empty lines since the last dump."""

    def feed_text(self, text: bytes, pos: int) -> int:
        """Read consecutive lines of the log as one text, each with its line end;
        ``pos`` is the position of the first. Return the number of lines. The same
        as ``feed``, but runs of JIT log lines are not split. If the search for
        stretches returns LATER, the rest is not read."""
        first, at = pos, 0
        while at < len(text):
            found = PREFIX.match(text, at)
            if self._is_at_rest(text, at, found):
                again = self._repeats.met(text, at, pos, self._state)
                if again is LATER:
                    break
                if again is not None:
                    self._do_again(again, text, at, pos)
                    at, pos = at + again.size, pos + again.lines
                    continue
            if found is None or self._text.open or self._frame is not None:
                whole = None
                if text.startswith(b"=======", at):
                    whole = self._whole_frame(text, at, pos)
                if whole is not None:
                    at, pos = at + whole[0], pos + whole[1]
                    continue
                end = self._run_ends.without_prefix(text, at)
                for stop, is_output in Pieces(text, at, end, self._is_idle):
                    own = text[at : stop - 1]
                    pos += (
                        self._output(own, pos)
                        if is_output
                        else self.feed(own.split(b"\n"), pos)
                    )
                    at = stop
            else:
                prefix = found.group()
                run = None
                if found.group(1) == _OF_CONDITIONS:
                    run = self._run_ends.line_messages(text, at)
                if run is not None:
                    self._leave_others()
                    self.messages.take_several(prefix, run, pos)
                else:
                    run = self._run_ends.run(text, at, prefix)
                    self._take_run(prefix, run, pos)
                end = at + len(run.text) + 1
                pos += run.length
            at = end
        self._repeats.leave()
        return pos - first

    def feed_part(self, text: bytes, pos: int, may_leave: int) -> tuple[int, int]:
        """The same as ``feed_text``, but lines from ``may_leave`` on may be left if
        they are better read together with the text that follows. Return the number
        of lines and bytes that were read."""
        self._repeats.begin_text(may_leave)
        lines, left = self.feed_text(text, pos), self._repeats.left
        return lines, len(text) if left is None else left

    def _is_at_rest(self, text: bytes, at: int, found: Match[bytes] | None) -> bool:
        """True if nothing is open before the line at ``at``, and a message or the
        source of a kernel begins on it. ``found``: the match of PREFIX there."""
        if self._text.open or self._frame is not None:
            return False
        if found is not None:
            if not is_first(text, found.end()):
                return False
            self._leave_others()
        elif (
            text.startswith(b"====", at)
            and FRAME.match(text, at) is not None
            and not self._bare.open
        ):
            if self._blank:
                self._end_blanks(True)
        else:
            return False
        return self.messages.at_rest()

    def _state(self) -> State:
        return State(
            *self.messages.last_ones,
            self._warning,
            self._bare.open,
            self._gathering.failures.in_traceback,
        )

    def _do_again(self, stretch: Stretch, text: bytes, at: int, pos: int) -> None:
        self._tape.do_again(stretch, text, at, pos)
        after = stretch.after
        self.messages.last_ones, self._warning = after[:3], after.warning

    def _take_run(self, prefix: bytes, run: Lines, pos: int) -> None:
        self._leave_others()
        self.messages.take(prefix, run, pos)

    def _is_idle(self) -> bool:
        """True if a line without any of the signs is output of the program."""
        is_open = (
            self._text.open
            or self._text.inside
            or self._frame is not None
            or self._bare.open
        )
        return (
            not (is_open or self._warning)
            and self._gathering.failures.idle
            and self.facts.other_tools.idle
        )

    def _output(self, text: bytes, pos: int) -> int:
        """Read lines of the program's own output; the last one is not empty."""
        if self._blank:
            self._end_blanks(False)
        self._after = 0
        lines = text.count(b"\n") + 1
        self._happens(OutputLines(lines), pos + lines - 1)
        return lines

    def _happens(self, event: Event, pos: int) -> None:
        """Emit the event of a line."""
        self._tape.happens(pos, event)

    def _leave_others(self) -> None:
        """Begin a message: other open texts end before it."""
        if self._blank:
            self._end_blanks(False)
        self._text.leave()

    def feed(self, lines: list[bytes], pos: int) -> int:
        """Read consecutive lines of the log; ``pos`` is the position of the first.
        Return the number of lines."""
        i = 0
        n = len(lines)
        match = PREFIX.match
        text = self._text
        while i < n:
            if text.open:
                i = self._in_dump(lines, i)
                continue
            if self._frame is not None:
                i = self._in_frame(lines, i, pos)
                continue
            line = lines[i]
            found = match(line) if line[:2] in (b"[D", b"[U") else None
            if found is None:
                self._plain(line, pos + i)
                i += 1
                continue
            end = run_end(lines, i, n, found.group())
            self._take_run(found.group(), Lines.of(lines[i:end]), pos + i)
            i = end
        return n

    def close(self) -> None:
        """Finish at the end of the stream: open texts are truncated."""
        if self._frame is not None:
            self._cut_frame(*self._frame)
        self._bare.end()
        self._end_blanks(False)
        self._end_dump()
        self.messages.close()
        self._gathering.close()
        self._repeats.close()

    # -- codegen frames -------------------------------------------------------------------------------------

    def _whole_frame(
        self, text: bytes, at: int, pos: int
    ) -> tuple[int, int] | None:
        """Read the source of a kernel that is in the text completely, without other
        lines in between; return its number of bytes and lines. None for any other
        source."""
        if self._text.open or self._frame is not None or self._bare.open:
            return None
        found = self._sources.whole(text, at)
        if found is None:
            return None
        name, source, span, end = found
        if self._blank:
            self._end_blanks(True)
        self._after = 0
        self.messages.settle()
        self._text.enter()
        self._counts.recognised += source.lines + 2
        code, digest = source.read(span)
        self._happens(KernelSource(name, code, digest), pos)
        return end - at, source.lines + 2

    def _in_frame(self, lines: list[bytes], i: int, pos: int) -> int:
        """Read lines of an open frame from ``i`` on; return the index of the first
        line after them."""
        assert self._frame is not None
        name, code, start = self._frame
        most = min(len(lines), i + _FRAME_LINES)
        end = index_of(lines, FRAME_END, i, most)
        if self._old_frame:
            end = min(
                end, *(index_of(lines, mark, i, most) for mark in OLD_FRAME_ENDS)
            )
        part = lines[i:end]
        text = b"\n".join(part)
        if any(mark in text for mark in ENDS_CODE):
            for k, line in enumerate(part):
                cut_off = any(mark in line for mark in NEXT_FRAME)
                found = PREFIX.search(line)
                if not cut_off and found is None:
                    continue
                code.extend(part[:k])
                if cut_off or found is None:
                    # The process died while writing it, and another process wrote
                    # the next lines.
                    self._counts.truncated += 1
                    self._counts.recognised += len(code)
                    self._frame = None
                    return i + k
                if k:
                    self._frame_at = pos + i + k
                self._interrupted_frame(
                    line, found.start(), found.group(), pos + i + k
                )
                return i + k + 1
        code.extend(part)
        if end == most:
            if len(code) > FRAME_LIMIT:
                self._counts.truncated += 1
                self._counts.recognised += len(code)
                self._frame = None
            self._frame_at = pos + end
            return end
        self._frame = None
        self._counts.recognised += len(code) + 1
        self.messages.settle()
        source = b"\n".join(code).strip(b"\n")
        self._happens(KernelSource(name, source), start)
        self._text.enter()
        return end + 1

    def _interrupted_frame(
        self, line: bytes, start: int, prefix: bytes, pos: int
    ) -> None:
        """Read a JIT log line inside a frame, where stdout and stderr interleave:
        it is removed from the kernel's text."""
        assert self._frame is not None
        self._tape.spoil()
        self.facts.disordered = True
        if start:
            self._frame[1].append(line[:start])
            self._frame_at = pos + 1
            self._counts.recognised -= 1  # it counts with the message
        self.messages.take(prefix, Lines.of([line[start:]]), pos)

    def _cut_frame(self, name: bytes, code: list[bytes], start: int) -> None:
        """Record that the log ends in a kernel's source. A shell's line about a
        crash follows it, often on the line that was being written."""
        self._frame = None
        self._counts.truncated += 1
        end = next(
            (
                k
                for k in range(max(0, len(code) - 200), len(code))
                if shows_a_crash(code[k])
            ),
            len(code),
        )
        self._counts.recognised += end
        kernel = KernelNamed(name.decode("ascii", "replace"), start)
        self.messages.settle()
        self.facts.work.compiles(*kernel)
        self.facts.work.cut_kernel = kernel
        for k in range(end, len(code)):
            self._plain(code[k], self._frame_at + k - len(code))

    # -- text dumps -----------------------------------------------------------------------------------------

    def _in_dump(self, lines: list[bytes], i: int) -> int:
        """Read lines of an open dump from ``i`` on; return the index of the first
        line after them."""
        if self._text.refused(lines[i]):
            self._counts.recognised -= 1
            self._counts.user_output += 1
            return i
        end = self._text.take(lines, i)
        self._counts.recognised += end - i
        return end

    def _end_dump(self) -> None:
        if self._text.refused(b""):
            self._counts.recognised -= 1
            self._counts.user_output += 1
        self._text.end()

    # -- other lines ----------------------------------------------------------------------------------------

    def _plain(self, line: bytes, pos: int) -> None:
        if not line:
            if self._text.inside and not self._blank and self._after < 3:
                # Dumps end with one to three empty lines.
                self._after += 1
                self._counts.recognised += 1
            else:
                # Dumps also begin with one: the following lines show to what it
                # belongs.
                self._blank += 1
            return
        self._after = 0
        if self._bare.open:
            self._tape.spoil()
            if self._bare.goes_on(line, pos):
                return
        taken = self._consumed(line, pos)
        if self._blank:
            self._end_blanks(taken)
        if not taken:
            glued = GLUED.search(line) if may_hold_a_mark(line) else None
            if glued is not None and glued.start():
                self.feed([line[glued.start() :]], pos)
                return
            if line.startswith((b"[DUMP ", b"[UPDATE ", b"[DEBUG ")):
                self._counts.unknown(pos, line)
            else:
                self._happens(Output(line), pos)
            return
        self._counts.recognised += 1

    def _end_blanks(self, dump: bool) -> None:
        if dump:
            self._counts.recognised += self._blank
        else:
            self._counts.user_output += self._blank
        self._blank = 0

    def _consumed(self, line: bytes, pos: int) -> bool:
        """Read a line that is more than output of the program; return False for
        other lines."""
        if line.startswith(b"[fusiondoc] "):
            return self._mark(line, pos)
        event = event_of(line)
        if event is not None:
            self._happens(event, pos)
            if not isinstance(event, LibraryLine):
                self._text.enter()
            return True
        if line.startswith(b"=") and self._frame_starts(line, pos):
            return True
        if (
            b"graph(" in line
            and _may_be_bare(line)
            and self._bare.starts(line, pos)
        ):
            self._tape.spoil()
            self._warning = False
            return True
        if self._text.starts(line, pos):
            # Without torch's own log, lines that the parser of a dump leaves are
            # the rest of that dump.
            self._happens(DumpBegan(line), pos)
            return True
        return self._warned(line, pos)

    def _frame_starts(self, line: bytes, pos: int) -> bool:
        """True if the source of a kernel begins on this line."""
        found = FRAME_START.match(line)
        if found is None:
            return False
        self.messages.settle()
        self._text.enter()
        self._frame = (found.group(1), [], pos)
        self._old_frame = line.startswith(b"==== ")
        return True

    def _mark(self, line: bytes, pos: int) -> bool:
        found = MARK.match(line)
        if found is None:
            return False
        if found.group(5):
            self._tape.spoil()  # an open text may continue after it
            self._counts.leave_out(*whole_numbers(found.groups()[4:]))
            return True
        self.messages.settle()
        if found.group(1):
            index, total, phase, inputs = found.groups()[:4]
            number, of, shape = whole_numbers((index, total, inputs))
            self._happens(PassBegan(number, of, phase.decode("ascii"), shape), pos)
        return True

    def _warned(self, line: bytes, pos: int) -> bool:
        """Read a warning of torch about fusion, or a line that belongs to it;
        return False for other lines."""
        python = b"Warning: " in line and is_python_warning(line)
        cpp = not python and is_cpp_warning(line)
        fallback = FALLBACK.search(line) if b"FALLBACK" in line else None
        if fallback is not None:
            self.messages.settle()
            self._happens(FellBack(stage_of(fallback.group(1)), cpp), pos)
            self._warning = True
            return True
        if python or cpp:
            self._warning = KNOWN.search(line) is not None
            if is_fuser_gone(line) and self.facts.fuser_gone is None:
                self._happens(FuserGone(), pos)
            return self._warning
        if self._warning and CONTINUES.search(line):
            return True
        goes_on = self._warning and line.startswith(b"  ")
        self._warning = False
        return goes_on


def _may_be_bare(line: bytes) -> bool:
    return not line.startswith(KERNEL_LINES) and GLUED.search(line) is None
