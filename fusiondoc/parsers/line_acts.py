"""What lines without the prefix of the JIT log do to the facts: kernels, fallbacks, marks, output.

Each of these acts is of one position of the log; they may be done again where the same lines stand again
(``repeats.py``)."""

from __future__ import annotations

from typing import Sequence

from fusiondoc.parsers.facts import Facts, FallbackSeen, LineCounts, PassMark, positions
from fusiondoc.parsers.kernels.dump_kinds import digest_of
from fusiondoc.parsers.kernels.launches import KernelTracker
from fusiondoc.parsers.lines.error_texts import LastWords
from fusiondoc.parsers.repeats import Step


class LineActs:
    """Changes the facts of one stream."""

    def __init__(
        self, facts: Facts, counts: LineCounts, kernels: KernelTracker, last_words: LastWords
    ) -> None:
        self._facts = facts
        self._counts = counts
        self._kernels = kernels
        self._last_words = last_words

    def compiled(self, pos: int, name: bytes, source: bytes, digest: bytes | None = None) -> None:
        self._kernels.compiled(name, source, pos, digest)
        self._facts.work.compiles(name.decode("ascii", "replace"), pos)
        if self._facts.iterations:
            self._facts.compiling.add(len(self._facts.iterations) - 1)

    def output(self, pos: int, line: bytes) -> None:
        """A line of another tool, of the program itself, or of what stands around it."""
        theirs = self._facts.other_tools.takes(line, pos)
        if theirs:
            self._counts.recognised += 1
        elif theirs is not None:
            self._counts.unknown(pos, line)
        else:
            self._counts.user_output += 1
            if not self._last_words.take(line, pos):
                self._facts.work.over = pos

    def dump_begins(self, pos: int, line: bytes) -> None:
        self._facts.other_tools.begins(line, pos, not self._facts.levels)

    def ran(self, pos: int, figures: Sequence[bytes]) -> None:
        self._kernels.ran(figures, pos)
        self._facts.work.ran(pos)

    def performed(self, pos: int, figures: Sequence[bytes]) -> None:
        self._kernels.performed(figures, pos)
        self._facts.work.ran(pos)

    def condensed(self, steps: list[Step]) -> list[Step]:
        """Steps that do the same as those of a stretch which is done again: the digest of a kernel's source
        is made once."""
        return [
            (act, line, (*arguments[:2], digest_of(arguments[1])), piece) if act == self.compiled else step
            for step in steps
            for act, line, arguments, piece in (step,)
        ]

    def launched(self, pos: int, figures: tuple[bytes, ...]) -> None:
        self._kernels.launched(figures, pos)
        self._facts.work.launched = pos

    def iteration(self, pos: int, index: int, total: int, phase: str, inputs: int) -> None:
        self._facts.iterations.append(PassMark(index, total, phase, inputs, pos))
        self._facts.work.over = pos

    def nvfuser_gone(self, pos: int) -> None:
        """torch says that nvFuser is not in this TorchScript any more."""
        if self._facts.nvfuser_gone is None:
            self._facts.nvfuser_gone = pos

    def fell_back(self, pos: int, stage: str | None, exact: bool) -> None:
        facts = self._facts
        work = facts.work.last
        facts.work.fell_back(pos)
        last = facts.fallbacks[-1] if facts.fallbacks else None
        if last is not None and stage == last.stage == "compile" and last.graph and not last.warned:
            # manager.cpp dumped the graph of this very failure just before.
            last.warned = True
            last.lines.append(pos)
            return
        owner = work.cache if work is not None and stage in (None, work.stage) else None
        lines = positions()
        lines.append(pos)
        facts.fallbacks.append(FallbackSeen(stage, exact, lines, owner, warned=True))
