"""Assigns dumps to kernels, by the order of the log.

One compile prints its schedule and lowering first, then (codegen frame, file,
ptxas) the kernel's name: so dumps before the first name of a kernel belong to that
kernel. Dumps that are printed when a group's runtime is made (segmenter,
heuristics) come before all of its kernels. If no names follow at all, kernels are
numbered as in torch: from 1 in order of compilation (executor.cpp,
fusion_id_counter_), unless a compile failed.

This module also reads the contents of segmented_fusion, segmenter_logging and
scheduler_params. Formats: fusion_segmenter.cpp, kernel_cache.cpp and the
schedulers' parameter classes of torch 1.11 to 2.1.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from fusiondoc.fusers.dump_kind import COMPILE, GROUP, SCHEDULE, DumpKind
from fusiondoc.model import dataclass, field
from fusiondoc.numbers import whole_numbers
from fusiondoc.parsers.facts import DumpSeen, Facts, KernelUse, Runtime
from fusiondoc.parsers.fuser_work import CacheInstance
from fusiondoc.parsers.kernels.kept_texts import TextStore

_PARAMETERS = re.compile(rb"=+ (\w+) Parameters =+")
_TENSOR = re.compile(r"T(\d{1,9})_")
_GROUP = re.compile(r"^g\{\((\S+)\)\n", re.M)
_REJECTED = re.compile(r"Scheduler _(\S+)_ \*\*\*rejected\*\*\* because : (.*)")
_ACCEPTED = re.compile(r"\*\*\*Accepted\*\*\* as: (\S+)")
_CONSIDERING = re.compile(r"^\*\*Segmenter\*\* Considering fusion:.*\n", re.M)


@dataclass(frozen=True)
class Expression:
    """A line of fusion IR: the tensors that it makes and takes, by number, and the
    operation."""

    makes: tuple[int, ...]
    takes: tuple[int, ...]
    text: str
    """The text right of the first ``=``."""


@dataclass(frozen=True)
class PrintedSegment:
    """One segment as segmented_fusion prints it."""

    scheduler: str
    inputs: frozenset[int]
    outputs: frozenset[int]
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Candidate:
    """A fusion that the segmenter tried on the schedulers. Without expressions it
    is the whole fusion."""

    expressions: tuple[Expression, ...]
    refused: tuple[tuple[str, str], ...]
    accepted: str | None
    line: int
    """Offset of its first line in the text."""


def scheduler_of_parameters(text: bytes) -> str | None:
    """Return the scheduler whose parameters these are, by its name in the dump;
    None without one."""
    found = _PARAMETERS.search(text)
    if found is None:
        return None
    name = found.group(1).decode("ascii").lower()
    if name == "reduction" and b"\nPersistent Kernel" in text:
        return "persistent"
    return name


@lru_cache(maxsize=256)
def parts_of(dump: str) -> tuple[PrintedSegment, ...]:
    """Return the segments of a ``Segmented_Fusion`` dump, in its order."""
    _, _, details = dump.partition("group details:")
    starts = list(_GROUP.finditer(details))
    parts = []
    for found, after in zip(
        starts, [*(s.start() for s in starts[1:]), len(details)]
    ):
        body = details[found.end() : after]
        inputs, _, rest = body.partition("outputs:")
        outputs, _, expressions = rest.partition("\n\n")
        parts.append(
            PrintedSegment(
                found.group(1),
                frozenset(_numbers(inputs)),
                frozenset(_numbers(outputs)),
                expressions_of(expressions),
            )
        )
    return tuple(parts)


def run_order(parts: Sequence[PrintedSegment]) -> list[int]:
    """Return the order in which segments are compiled and run: always the first
    segment whose inputs are ready (kernel_cache.cpp, prepareRuntimeOrder). [] if
    there is no such order."""
    missing: set[int] = set()
    for part in parts:
        missing.update(part.outputs)
    order: list[int] = []
    while len(order) < len(parts):
        before = len(order)
        for index, part in enumerate(parts):
            if index not in order and not (part.inputs & missing - part.outputs):
                order.append(index)
                missing -= part.outputs
        if len(order) == before:
            return []
    return order


@lru_cache(maxsize=256)
def candidates_of(dump: str) -> tuple[Candidate, ...]:
    """Return the fusions that the segmenter tried, in order. The first may be the
    whole fusion."""
    candidates, text = [], dump
    starts = [0, *(found.start() for found in _CONSIDERING.finditer(text))]
    for start, end in zip(starts, [*starts[1:], len(text)]):
        part = text[start:end]
        fusion, verdicts = part, part
        if part.startswith("**Segmenter**"):
            lines = part.split("\n")
            cut = 0
            for k, line in enumerate(lines):
                if line.startswith(("Scheduler _", "***")):
                    cut = k
                    break
            fusion = "\n".join(lines[1:cut]) if cut else "\n".join(lines[1:])
            verdicts = "\n".join(lines[cut:]) if cut else ""
        else:
            fusion = ""
        refused = dict.fromkeys(_REJECTED.findall(verdicts))
        accepted = _ACCEPTED.search(verdicts)
        if refused or accepted:
            candidates.append(
                Candidate(
                    expressions_of(fusion),
                    tuple(refused),
                    accepted.group(1) if accepted else None,
                    text.count("\n", 0, start),
                )
            )
    return tuple(candidates)


def expressions_of(text: str) -> tuple[Expression, ...]:
    """Return the expressions on tensors in lines of fusion IR."""
    found = []
    for block in _blocks(text):
        left, equals, right = block.partition("=")
        makes = tuple(_numbers(left))
        if equals and makes:
            found.append(Expression(makes, tuple(_numbers(right)), right.strip()))
    return tuple(found)


def _blocks(text: str) -> list[str]:
    """Split fusion IR into expressions. An expression begins with a line at the
    margin; a Welford has three such lines, with commas."""
    blocks: list[str] = []
    for line in text.split("\n"):
        if not line.strip() or line.startswith(("}", "%", "Inputs", "Outputs")):
            continue
        if blocks and (line.startswith(" ") or blocks[-1].endswith(",")):
            blocks[-1] += "\n" + line
        else:
            blocks.append(line)
    return blocks


def _numbers(text: str) -> list[int]:
    return list(dict.fromkeys(whole_numbers(_TENSOR.findall(text))))


_TEXTS = 4
"""Number of different texts of one option that are kept for a kernel: arguments
differ with every launch."""

_SEGMENTS = b"Segmented_Fusion"

_SCHEDULING = frozenset(
    ("fusion_ir_presched", "transform_propagator", "inline_propagator")
)
"""They come before all other dumps of a compile; only the first of them is printed
just once."""

_WAITING = 64
"""Number of compiles that can wait for the name of their kernel."""


@dataclass
class _Compile:
    """The dumps of a kernel whose name is not known yet."""

    owner: CacheInstance | None
    dumps: dict[str, list[DumpSeen]] = field(default_factory=dict)
    whole: bool = False
    """True if one of the dumps is printed exactly once per compile: so this is one
    compile."""

    def over(self, option: str, kind: DumpKind) -> bool:
        """True if this dump belongs to the next compile: it was printed already, or
        it is a dump of scheduling and lowering has begun."""
        if option in _SCHEDULING and not self.dumps.keys() <= _SCHEDULING:
            return True
        return option in self.dumps and not kind.again


class DumpsInOrder:
    """The dumps of one stream and the names of kernels, in order: each dump is given
    to the kernel that it is about."""

    def __init__(self, facts: Facts, texts: TextStore) -> None:
        self._facts = facts
        self._texts = texts
        self._waiting: deque[_Compile] = deque()
        self._nameless: list[_Compile] = []
        self._runtime: Runtime | None = None
        self._owner: CacheInstance | None = None
        self._names = False

    # -- dumps ----------------------------------------------------------------------------------------------

    def of_kernel(
        self, kernel: KernelUse, option: str, lines: list[bytes], pos: int
    ) -> None:
        """Add a dump that names its kernel."""
        if sum(seen.option == option for seen in kernel.dumps) < _TEXTS:
            self._add(kernel, self._seen(option, text_of(lines), pos))

    def dumped(self, kind: DumpKind, lines: list[bytes], pos: int) -> None:
        """Add a dump of a compile or of a group."""
        text = text_of(lines)
        if kind.stage == COMPILE:
            option = _option(kind, text)
            last = self._waiting[-1] if self._waiting else None
            if last is None or last.over(option, kind):
                last = _Compile(self._owner)
                self._waiting.append(last)
                if len(self._waiting) > _WAITING:
                    self._give_up(self._waiting.popleft())
            last.whole = last.whole or not kind.again
            dumps = last.dumps.setdefault(option, [])
            seen = self._seen(option, text, pos)
            if seen is not None:
                dumps.append(seen)
        elif kind.stage in (GROUP, SCHEDULE):
            self._of_group(kind, text, pos)

    def _of_group(self, kind: DumpKind, text: bytes, pos: int) -> None:
        seen = self._seen(kind.option, text, pos)
        if seen is None:
            return
        runtime = self._runtime
        if runtime is None or runtime.kernels or _begins(runtime, text):
            self._leave(runtime)
            runtime = self._runtime = Runtime(self._owner)
        runtime.dumps.append(seen)
        runtime.lines.append(pos)
        if kind.stage == SCHEDULE:
            name = scheduler_of_parameters(text)
            if name is not None:
                runtime.schedulers.add(name)
        elif text.startswith(_SEGMENTS):
            runtime.segments = seen.text
        elif kind.option == "segmented_fusion":
            runtime.whole = seen.text
        elif kind.option == "segmenter_logging":
            runtime.segmenter.append(seen)

    def _seen(self, option: str, text: bytes, pos: int) -> DumpSeen | None:
        kept = self._texts.keep(text)
        if kept is None:
            return None
        return DumpSeen(option, kept, pos)

    # -- kernels --------------------------------------------------------------------------------------------

    def named(self, kernel: KernelUse) -> None:
        """Record that a kernel is named after its compile, for the first time or (a
        frame) again."""
        self._names = True
        if self._waiting:
            for seen in self._waiting.popleft().dumps.values():
                for dump in seen:
                    self._add(kernel, dump)
        runtime = self._runtime
        if runtime is not None and kernel not in runtime.kernels:
            if not runtime.kernels and runtime.shows_segments:
                self._facts.runtimes.append(runtime)
            runtime.kernels.append(kernel)
            for dump in runtime.dumps:
                self._add(kernel, dump)
            self._scheduler(runtime)

    def _scheduler(self, runtime: Runtime) -> None:
        """Set the scheduler from the printed parameters, if all of them belong to
        one scheduler. The group must be known, or have one kernel only."""
        (only,) = runtime.schedulers if len(runtime.schedulers) == 1 else (None,)
        certain = only is not None and (
            runtime.owner is not None or len(runtime.kernels) == 1
        )
        for kernel in runtime.kernels:
            kernel.scheduler = only if certain else None

    def launched(self) -> None:
        """Record that a known kernel runs: dumps that wait for a name belong to a
        compile that failed, and parameters of heuristics belong to this run."""
        while self._waiting:
            self._give_up(self._waiting.popleft())
        if self._runtime is not None and not self._runtime.kernels:
            self._runtime = None

    def runs(self, cache: CacheInstance) -> None:
        """Record that another group runs."""
        while self._waiting:
            self._give_up(self._waiting.popleft())
        self._leave(self._runtime)
        self._runtime = None
        self._owner = cache

    def close(self) -> None:
        while self._waiting:
            self._give_up(self._waiting.popleft())
        self._leave(self._runtime)
        if self._names or self._facts.kernels or self._facts.fallbacks:
            return
        for number, made in enumerate(self._nameless, 1):
            kernel = KernelUse(f"kernel{number}", made.owner)
            kernel.reports = 1
            for seen in made.dumps.values():
                for dump in seen:
                    self._add(kernel, dump)
                    kernel.lines.append(dump.lines[0])
            self._facts.kernels.append(kernel)

    def _leave(self, runtime: Runtime | None) -> None:
        """Keep a runtime without named kernels if its group is known: it shows how
        the group was segmented."""
        if (
            runtime is not None
            and runtime.shows_segments
            and not runtime.kernels
            and runtime.owner is not None
        ):
            self._facts.runtimes.append(runtime)

    def _give_up(self, made: _Compile) -> None:
        if made.whole and not self._names:
            self._nameless.append(made)

    def _add(self, kernel: KernelUse, seen: DumpSeen | None) -> None:
        if seen is None:
            return
        same = 0
        for known in kernel.dumps:
            if known.option == seen.option:
                if known.text is seen.text:
                    if seen.lines[0] not in known.lines[-1:]:
                        known.lines.extend(seen.lines)
                    return
                same += 1
        if same < _TEXTS or seen.option in ("scheduler_params", "segmented_fusion"):
            kernel.dumps = (
                *kernel.dumps,
                DumpSeen(seen.option, seen.text, seen.lines[0]),
            )


def text_of(lines: list[bytes]) -> bytes:
    """Return the lines of a dump without the empty lines around it."""
    return b"\n".join(lines).strip(b"\n")


def _begins(runtime: Runtime, text: bytes) -> bool:
    """True if this dump is the first of another runtime: each runtime has these
    dumps once, in this order."""
    if text.startswith(b"***Runtime***: Try to schedule fusion un-"):
        return (
            bool(runtime.segmenter)
            or runtime.whole is not None
            or runtime.segments is not None
        )
    if text.startswith(b"Segment the fusion"):
        return runtime.whole is not None or runtime.segments is not None
    return text.startswith(_SEGMENTS) and runtime.segments is not None


def _option(kind: DumpKind, text: bytes) -> str:
    """Return the option that printed a dump. fusion_ir_presched prints the same
    form as fusion_ir_math, before anything is bound to threads; a ``%kernel``
    without transforms is the lowered one (kernel_ir)."""
    if (
        kind.option == "fusion_ir_math"
        and b"blockIdx." not in text
        and b"threadIdx." not in text
    ):
        return "fusion_ir_presched"
    if kind.option == "fusion_ir" and b"TransformPrinter" not in text:
        return "kernel_ir"
    return kind.option
