"""Messages of torch's JIT log: ``[LEVEL file.cpp:line] text``, every line of a message with the same prefix;
and which release of torch printed them, by the lines of its source that they name.

A message has no end mark: a run of lines with one prefix is taken as a whole and split where its header text
stands again. What they do to the facts is in ``acts_on_facts.py``. Grammar: torch/csrc/jit/jit_log.cpp.

The lines that tell a release are those of ``Before Fusion:`` and ``Before Compilation:`` of graph_fuser.cpp,
of ``GraphCache constructor``, ``GraphCache created for graph`` and ``running GraphCache`` of
kernel_cache.cpp, and of the statements of partition.cpp, in logs of the wheels of 1.12.1, 1.13.1, 2.0.1 and
2.1.2. 2.0 and 2.1 have the same nvFuser, line for line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from fusiondoc.fusers import FUSERS
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.acts_on_facts import (
    CACHE_MADE,
    FELL_BACK,
    PASS_STARTS,
    POINTER_MADE,
    POINTER_RUNS,
    SINGLE,
    MessageActs,
)
from fusiondoc.parsers.facts import Facts
from fusiondoc.parsers.jit.bare_graphs import PLAN_FILES, HeadlessPlans
from fusiondoc.parsers.jit.message_runs import CONTINUES, PREFIX, Lines, Print, Run
from fusiondoc.parsers.jit.regions import LiveLayers
from fusiondoc.parsers.jit.rejections import Rejections
from fusiondoc.parsers.kernels.launches import KernelTracker
from fusiondoc.parsers.repeats import RunAct, Tape

_LINES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "1.12": {"graph_fuser": (2352, 2432), "kernel_cache": (718, 719, 727), "partition": (233,)},
    "1.13": {"graph_fuser": (2420, 2504), "kernel_cache": (765, 766, 774)},
    "2.0": {"graph_fuser": (2419, 2503), "kernel_cache": (809, 810, 818)},
}

_RELEASES = {
    (file, line): release
    for release, files in _LINES.items()
    for file, lines in files.items()
    for line in lines
}

_PLACE = re.compile(rb"([\w+-]+)\.cpp:(\d{3,6})\]")


def _nvfuser_release(prefixes: Iterable[bytes]) -> str | None:
    """The release whose nvFuser printed messages with these prefixes (``[DUMP graph_fuser.cpp:2419]``); "2.0"
    for 2.0 and 2.1. None where they name no line that tells it, or several releases."""
    places = (_PLACE.search(prefix) for prefix in prefixes)
    told = {
        _RELEASES.get((place.group(1).decode("ascii", "replace"), whole_number(place.group(2)) or 0))
        for place in places
        if place is not None
    } - {None}
    return told.pop() if len(told) == 1 else None


_INDENTED = (b"  Added node ", b"  Got #partitions: ")
"""Messages of torch/csrc/jit/codegen/onednn/graph_helper.cpp that begin like the lines of a graph."""

OF_NNC = b"tensorexpr_fuser"
"""The file of torch whose messages of one line are taken together."""

_AFTER_WORK = (*PLAN_FILES, "partition")
"""Files of torch whose messages stand before or after the work on a group, never inside it."""


class JitMessages:
    """Takes runs of JIT log lines in order and notes what they say in ``facts``."""

    def __init__(
        self, facts: Facts, tape: Tape, kernels: KernelTracker, layers: Sequence[LiveLayers] = ()
    ) -> None:
        self._facts = facts
        self._tape = tape
        self._counts = tape.counts
        self._kernels = kernels
        self._open: dict[bytes, Run] = {}
        self._held: bytes | None = None
        self._last_single: bytes | None = None
        self._without_start: bytes | None = None
        """The prefix of the last message whose start is not in the log."""
        self._files: dict[bytes, str] = {}
        self._headless = HeadlessPlans()
        self._headers: dict[bytes, bytes] = {}
        """Prefix -> the header that it had last: a statement of torch's source prints one kind of graph."""
        refusals = [fuser.refusals for fuser in FUSERS.values() if fuser.refusals is not None]
        self._rejections = {one.file: Rejections(one) for one in refusals}
        """By the file of torch that prints them."""
        self._acts = acts = MessageActs(facts, kernels, layers)
        self.bare = acts.bare
        self.condensed = acts.condensed
        """See there."""
        self._rejected = {
            file: RunAct(acts.rejected, _refusals_by(reader)) for file, reader in self._rejections.items()
        }
        self._pointers = RunAct(acts.pointer_lines, _payloads)
        self._nnc_says = RunAct(acts.nnc_lines, _behind_prefixes)
        self._nnc_prints = {
            "kernel": RunAct(acts.nnc.nest_lines, _payloads),
            "cuda_codegen": RunAct(acts.nnc.cuda_lines, _payloads),
        }

    # -- runs -----------------------------------------------------------------------------------------------

    def take(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """Lines that start with ``prefix`` (up to its ``]``), consecutive in the log from ``pos`` on."""
        cut = len(prefix) + 1
        first = lines.first[cut:]
        if self._file(prefix) in _AFTER_WORK:
            self._tape.do(self._acts.work_over, pos)
        if not first.startswith(CONTINUES) and not (not first and self._may_go_on(prefix)):
            if self._single(prefix, first, lines, cut, pos):
                return
            self.settle()
            if prefix in self._open:
                self._finish(prefix)
            self._open[prefix] = Run(lines, cut, pos)
            if first.startswith(CACHE_MADE):
                self._tape.do(self._acts.cache_may_begin, pos)
        elif prefix in self._open:
            if self._held != prefix:
                self.settle()
            if self._open[prefix].headless:
                self._take_headless(prefix, lines, cut, pos)
                return
            self._extend(prefix, lines, pos)
        elif prefix == self._last_single:
            # Blocks of the node that the last line printed, or more of a loop nest.
            own, rest = lines.cut_at(_going_on(lines.split(), cut))
            self._take_nnc(self._file(prefix), own, cut, pos)
            self._counts.recognised += own.length
            self._take_rest(prefix, rest, pos + own.length)
            return
        elif first.startswith(b"graph(") and (self._facts.levels or self._file(prefix) not in PLAN_FILES):
            # A message that is nothing but a graph.
            self.settle()
            self._open[prefix] = Run(lines, cut, pos)
        else:
            # The start of this message is not in the log, unless it is one of the indented ones of oneDNN.
            if first.startswith(_INDENTED) or self._file(prefix) not in PLAN_FILES:
                own, rest = lines.cut_at(_going_on(lines.split(), cut))
                self._counts.truncated += not first.startswith(_INDENTED) and prefix != self._without_start
                self._without_start = prefix
                self._counts.recognised += own.length
                self._take_rest(prefix, rest, pos + own.length)
                return
            self.settle()
            self._take_headless(prefix, lines, cut, pos)
            return
        self._held = prefix if self._open[prefix].complete else None

    def _may_go_on(self, prefix: bytes) -> bool:
        """Whether an empty line may be of the message before it: one is open, or a kernel of NNC is printed,
        of which the text that was read ended there."""
        return prefix in self._open or (
            prefix == self._last_single and self._file(prefix) in self._nnc_prints
        )

    def take_several(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """Messages of NNC of one line each, as ``RunEnds`` finds them; ``prefix`` is that of the first."""
        self._tape.do(self._acts.work_over, pos)
        self.settle()
        last = lines.text.rfind(b"\n") + 1
        self._last_single = lines.text[last : lines.text.index(b"]", last) + 1]
        self._logged(self._file(prefix), pos)
        self._tape.do_run(self._nnc_says, pos, lines, 0)
        self._counts.recognised += lines.length

    def _take_headless(self, prefix: bytes, lines: Lines, cut: int, pos: int) -> None:
        """Lines of a graph whose header is not in the log; the message after it may follow among them."""
        own, rest = lines.cut_at(_going_on(lines.split(), cut))
        if prefix not in self._open:
            self._open[prefix] = Run(own, cut, pos, headless=True)
        elif own.length:
            self._extend(prefix, own, pos)
        self._held = prefix if self._open[prefix].complete else None
        self._take_rest(prefix, rest, pos + own.length)

    def _extend(self, prefix: bytes, lines: Lines, pos: int) -> None:
        run = self._open[prefix]
        if run.where[0][1] < self._tape.pos:
            self._tape.spoil()
        run.extend(lines, pos)

    def _take_rest(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """What stands behind the lines of a message whose end shows only in what follows."""
        if lines.length:
            self.take(prefix, lines, pos)

    def settle(self) -> None:
        """Note the last message now if it is complete: something that may depend on it follows."""
        if self._held is not None:
            self._finish(self._held)

    def at_rest(self) -> bool:
        """Note the last message, as a new one begins; whether nothing is open then but what broke off."""
        if self._held is not None:
            if self._open[self._held].begins(FELL_BACK):
                return False  # when the work is over depends on whether the new one is known already
            self._finish(self._held)
        return True

    @property
    def last_ones(self) -> tuple[bytes | None, bytes | None, tuple[bytes, ...]]:
        """The prefixes of the last message of one line, of the last one whose start is not in the log, and of
        those that are open."""
        return self._last_single, self._without_start, tuple(self._open)

    @last_ones.setter
    def last_ones(self, prefixes: tuple[bytes | None, bytes | None, tuple[bytes, ...]]) -> None:
        self._last_single, self._without_start, _ = prefixes

    def close(self) -> None:
        """The log ends: what is open stays cut off."""
        for prefix in list(self._open):
            self._finish(prefix)
        for reader in self._rejections.values():
            reader.clear()
        self._acts.close()
        self._facts.plans += self._headless.plans(self._headers, self._facts.plans)
        self._facts.release = _nvfuser_release(self._files)

    def _finish(self, prefix: bytes) -> None:
        run = self._open.pop(prefix)
        self._tape.read()
        if self._held == prefix:
            self._held = None
        if run.where[0][1] < self._tape.pos:
            self._tape.spoil()
        self._counts.recognised += run.length
        self._logged(self._file(prefix), run.where[0][1])
        if run.headless or not run.complete:
            self._counts.truncated += 1
        if run.headless:
            self._tape.spoil()
            self._headless.add(prefix, self._file(prefix), run)
            return
        text = run.text
        end = text.find(b"\n")
        header = text[run.cut : end if end >= 0 else None].strip()
        if header in PASS_STARTS:
            start = self._acts.nnc_starts if header == PASS_STARTS[1] else self._acts.nvfuser_starts
            at = run.at + end + 1 if run.at >= 0 else -1
            behind = Print(text[end + 1 :] if end >= 0 else b"", run.cut, None, None, at)
            self._tape.do_graph(start, run.where[0][1], run.where[0][1], behind)
            del behind
        del text
        if len(header) < 80:
            self.note_headers({prefix: header}, {})
        known = header.decode("utf-8", "replace") if len(header) < 80 and b"graph(" not in header else "other"
        handler = self._acts.of_header.get(header)
        if handler is None:
            self.note_headers({}, {known: 1})
            return
        for at, graph_at, graph in run.graphs():
            self.note_headers({}, {known: 1})
            self._tape.do_graph(handler, at, graph_at, graph)

    def note_headers(self, last: Mapping[bytes, bytes], counted: Mapping[str, int]) -> None:
        """The last header of each prefix, and how many messages have each."""
        self._tape.note_headers(last, counted)
        self._headers.update(last)
        for header, count in counted.items():
            self._facts.headers[header] = self._facts.headers.get(header, 0) + count

    def _file(self, prefix: bytes) -> str:
        name = self._files.get(prefix)
        if name is None:
            found = PREFIX.match(prefix)
            name = self._files[prefix] = found.group(1).decode("ascii") if found else ""
        return name

    # -- messages of one line -------------------------------------------------------------------------------

    def _single(self, prefix: bytes, first: bytes, lines: Lines, cut: int, pos: int) -> bool:
        """Take a run of one-line messages; False if the run holds a graph."""
        name = self._file(prefix)
        act: RunAct | None = None
        if name in self._rejected and not prefix.startswith(b"[DUMP "):
            self.settle()
            self._tape.do_run(self._rejected[name], pos, lines, cut)
        elif name == "kernel_cache" and first.startswith((POINTER_MADE, POINTER_RUNS)):
            act = self._pointers
        elif name == "tensorexpr_fuser" and first.startswith(SINGLE):
            act = self._nnc_says
        elif b"graph(" in first or prefix.startswith(b"[DUMP ") or first in (b"", b"<GRAPH_EXPORT>"):
            return False
        self.settle()
        self._last_single = prefix
        self._logged(name, pos)
        self._take_nnc(name, lines, cut, pos)
        if act is not None:
            self._tape.do_run(act, pos, lines, cut)
        self._counts.recognised += lines.length
        return True

    def _take_nnc(self, name: str, lines: Lines, cut: int, pos: int) -> None:
        act = self._nnc_prints.get(name)
        if act is not None:
            self._tape.do_run(act, pos, lines, cut)

    def _logged(self, file: str, pos: int) -> None:
        """A file of torch printed something."""
        if file not in self._facts.levels:
            self._tape.do(self._acts.logged, pos, file)


def _refusals_by(reader: Rejections) -> Callable[[Lines, int], tuple[object]]:
    return lambda lines, cut: (reader.found(lines, cut),)


def _payloads(lines: Lines, cut: int) -> tuple[list[bytes]]:
    """What is printed on each line."""
    return ([line[cut:] for line in lines.split()],)


def _behind_prefixes(lines: Lines, _: int) -> tuple[list[bytes]]:
    """The same where each line has a prefix of its own."""
    return ([line[line.index(b"]") + 2 :] for line in lines.split()],)


def _going_on(lines: list[bytes], cut: int) -> int:
    """How many of the first lines can go on with the message before them."""
    for i, line in enumerate(lines):
        if not line.startswith(CONTINUES, cut) and len(line) > cut:
            return i
    return len(lines)
