"""The lines of torch.compile in all logs of a run, by process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fusiondoc.fusers.inductor.compilation import Compilation
from fusiondoc.parsers.facts import LineCounts, position
from fusiondoc.parsers.inductor import may_hold_lines
from fusiondoc.parsers.inductor.debug_files import DebugFiles
from fusiondoc.parsers.inductor.joined import compilation_of
from fusiondoc.parsers.inductor.structured_trace import rank_in_name
from fusiondoc.parsers.inductor.torch_output import TorchOutput
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.tagged_lines import Tag, ranks


class TorchOutputs:
    """The lines of torch.compile of several logs, each of one or more processes."""

    def __init__(self, counts: LineCounts) -> None:
        self._counts = counts
        self._open: dict[Tag, TorchOutput] = {}
        """The processes of the current log."""
        self._done: list[tuple[Tag, TorchOutput]] = []
        self._files = DebugFiles()

    def may_hold(self, tag: Tag, text: bytes) -> bool:
        """True if lines of a process may belong to torch.compile."""
        return tag in self._open or may_hold_lines(text)

    def take(
        self, tag: Tag, text: bytes, log: int, number: int
    ) -> Iterator[tuple[int, bytes]]:
        """The same as ``TorchOutput.take``, for the process with this tag. Counts
        the lines that are read."""
        output = self._open.setdefault(tag, TorchOutput())
        lines, unknown = output.lines, len(output.unknown)
        yield from output.take(text, log, number)
        new = output.unknown[unknown:]
        self._counts.recognised += output.lines - lines - len(new)
        for line, unread in new:
            self._counts.unknown(position(log, line), unread)

    def take_file(self, path: Path, data: bytes, log: int) -> None:
        """Read a file that Inductor wrote for a graph. ``log``: its number among
        the logs."""
        self._files.take(path, data.decode("utf-8", "replace"), log)
        self._counts.recognised += data.count(b"\n") + (not data.endswith(b"\n"))

    def end_log(
        self, log: LogInput, last: Tag = None, without_end: bool = False
    ) -> None:
        """Finish a log whose last line has the tag ``last``. The rank of a trace is
        in the name of the log."""
        for tag, output in self._open.items():
            output.close(without_end and tag == last)
            rank = log.rank if log.rank is not None else rank_in_name(log.name)
            output.parts.rank = rank if rank is not None else output.parts.rank
            if output.lines:
                self._done.append((tag, output))
        self._open.clear()

    def compilation(self, first: bytes | None) -> Compilation | None:
        """Return the contents of all logs so far; None if no line belongs to
        torch.compile.

        Args:
            first: the text for the tag None (``TaggedLog.first``).
        """
        both = [*self._done, *self._open.items()]
        files = self._files.process()
        if files is None and not any(output.lines for _, output in both):
            return None
        tagged = ranks(dict.fromkeys(tag for tag, _ in both), first)
        for tag, output in both:
            if output.parts.rank is None:
                output.parts.rank = tagged.get(tag)
        processes = [output.parts for _, output in both]
        return compilation_of(processes if files is None else [*processes, files])
