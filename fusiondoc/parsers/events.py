"""What lines of a log say, made where a line is recognised.

The line of an event is not part of it: the same lines may stand in a log again
(``repeats.py``), and then the same events happen at other lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusiondoc.parsers.jit.message_headers import GraphKind
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.nnc_failed_conditions import NncState
from fusiondoc.parsers.jit.statements import Block, BlockAgain

Figures = tuple[bytes, ...]
"""The groups of the pattern in ``kernels/launches.py`` that the line matched."""


class KernelSource(NamedTuple):
    """The source of a kernel was printed."""

    kernel: bytes
    code: bytes
    """Empty for one with a digest that was printed before."""
    digest: bytes | None = None


class Ran(NamedTuple):
    """``kernel1 run in 0.1 ms, achieved: 100 GB/s``"""

    figures: Figures


class Performed(NamedTuple):
    """The time of a kernel as ``perf_debug_verbose`` prints it."""

    figures: Figures


class Launched(NamedTuple):
    """``Launch Parameters: BlockDim.x = ...``"""

    figures: Figures


class DumpBegan(NamedTuple):
    """The first line of a text that a dump option prints."""

    line: bytes


class PassBegan(NamedTuple):
    """fusiondoc's own mark: a pass begins, of so many, with one of several
    inputs."""

    number: int
    """From 1."""
    total: int
    phase: str
    inputs: int


class FuserGone(NamedTuple):
    """torch warns that the fuser is not in this TorchScript any more."""


class FellBack(NamedTuple):
    """torch warns that a group runs without its fuser."""

    stage: str | None
    """"compile" or "run"."""
    exact: bool
    """The warning is printed each time."""


class Output(NamedTuple):
    """A line of another tool, of the program itself, or of what stands around
    it."""

    line: bytes


class OutputLines(NamedTuple):
    """Lines of the program that tell nothing; the position is that of the last of
    them."""

    lines: int


class TextDump(NamedTuple):
    """A text that a dump option prints, from its first line to its last."""

    kind: int
    """Its index in ``KINDS`` of ``kernels/kernel_dumps.py``."""
    lines: list[bytes]


class LibraryLine(NamedTuple):
    """A line that a library of kernels prints of what it compiles and runs."""

    line: bytes


class Logged(NamedTuple):
    """A file of torch printed its first message."""

    file: str


class WorkOver(NamedTuple):
    """A message that stands before or after the work of a fuser on a group, never
    inside it."""


class Headers(NamedTuple):
    """Messages have headers."""

    last: Mapping[bytes, bytes]
    """The last header of each prefix."""
    counted: Mapping[str, int]
    """How many messages have each."""


class PrintedGraph(NamedTuple):
    """A graph was printed. The position is that of its message."""

    kind: GraphKind
    below: int
    """Lines from the begin of the message to that of the graph."""
    graph: Print
    fuser: str | None = None
    """The fuser that printed it; None for torch's executors."""


class CacheBegins(NamedTuple):
    """A GraphCache was made; its graph may be cut off."""


class CacheLines(NamedTuple):
    """Messages of one line each about GraphCaches: made, or run."""

    texts: Sequence[bytes]


class Refused(NamedTuple):
    """What a pass states of nodes in several lines; the position is that of the
    first line."""

    block: Block


class RefusedAgain(NamedTuple):
    """The same of lines that stand in the log again."""

    block: BlockAgain


class NncLines(NamedTuple):
    """Messages of one line each in which a pass prints each node that it looks
    at."""

    texts: Sequence[bytes]


class NncLinesAgain(NamedTuple):
    """What such lines state that stand in the log again."""

    block: BlockAgain
    looked_at: int
    """Nodes that the pass looked at."""
    behind: NncState


class LoopNestLines(NamedTuple):
    """Lines of a kernel as loop nests."""

    texts: Sequence[bytes]


class CudaLines(NamedTuple):
    """Lines of the CUDA code of a kernel that is made of loop nests."""

    texts: Sequence[bytes]


EVENT_OF_FILE: Mapping[str, type[LoopNestLines | CudaLines]] = {
    "kernel": LoopNestLines,
    "cuda_codegen": CudaLines,
}
"""Files of torch that print kernels (kernel.cpp, cuda_codegen.cpp), by what they
print."""

Event = (
    KernelSource
    | Ran
    | Performed
    | Launched
    | DumpBegan
    | TextDump
    | LibraryLine
    | PassBegan
    | FuserGone
    | FellBack
    | Output
    | OutputLines
    | Logged
    | WorkOver
    | Headers
    | PrintedGraph
    | CacheBegins
    | CacheLines
    | Refused
    | RefusedAgain
    | NncLines
    | NncLinesAgain
    | LoopNestLines
    | CudaLines
)
