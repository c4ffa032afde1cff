"""The contents of log lines as events, which are made where a line is recognised.

An event does not contain its position: the same lines may be repeated in a log
(``repeats.py``), and then the same events occur at other positions.
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
    """b"" if a source with this digest was printed before."""
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
    """fusiondoc's own mark that a pass begins: its number, the number of passes,
    and which of several inputs it uses."""

    number: int
    """From 1."""
    total: int
    phase: str
    inputs: int


class FuserGone(NamedTuple):
    """torch warns that this TorchScript no longer has the fuser."""


class FellBack(NamedTuple):
    """torch warns that a group runs without its fuser."""

    stage: str | None
    """"compile" or "run"."""
    exact: bool
    """True if the warning is printed every time."""


class Output(NamedTuple):
    """A line of another tool, of the program itself, or of its surroundings, such
    as a launcher."""

    line: bytes


class OutputLines(NamedTuple):
    """Lines of the program without facts; the position is that of the last line."""

    lines: int


class TextDump(NamedTuple):
    """A text that a dump option prints, from its first line to its last."""

    kind: int
    """Its index in ``KINDS`` of ``kernels/kernel_dumps.py``."""
    lines: list[bytes]


class LibraryLine(NamedTuple):
    """A line that a library of kernels prints about a kernel that it compiles or
    runs."""

    line: bytes


class Logged(NamedTuple):
    """A file of torch printed its first message."""

    file: str


class WorkOver(NamedTuple):
    """A message that comes before or after the work of a fuser on a group, never
    during it."""


class Headers(NamedTuple):
    """The headers of messages."""

    last: Mapping[bytes, bytes]
    """The last header of each prefix."""
    counted: Mapping[str, int]
    """Header -> number of messages."""


class PrintedGraph(NamedTuple):
    """A graph was printed. The position is that of its message."""

    kind: GraphKind
    below: int
    """Number of lines from the beginning of the message to that of the graph."""
    graph: Print
    fuser: str | None = None
    """The fuser that printed it; None for torch's executors."""


class CacheBegins(NamedTuple):
    """A GraphCache was made; its graph may be truncated."""


class CacheLines(NamedTuple):
    """One-line messages about GraphCaches that are made or run."""

    texts: Sequence[bytes]


class NodeStatements(NamedTuple):
    """The statements of a pass about nodes in several lines; the position is that
    of the first line."""

    block: Block


class RefusedAgain(NamedTuple):
    """The same for repeated lines."""

    block: BlockAgain


class NncLines(NamedTuple):
    """One-line messages in which a pass prints each node that it considers."""

    texts: Sequence[bytes]


class NncLinesAgain(NamedTuple):
    """The statements in such lines, if they are repeated."""

    block: BlockAgain
    looked_at: int
    """Number of nodes that the pass considered."""
    behind: NncState


class LoopNestLines(NamedTuple):
    """Lines of a kernel in the form of loop nests."""

    texts: Sequence[bytes]


class CudaLines(NamedTuple):
    """Lines of the CUDA code of a kernel that is made from loop nests."""

    texts: Sequence[bytes]


EVENT_OF_FILE: Mapping[str, type[LoopNestLines | CudaLines]] = {
    "kernel": LoopNestLines,
    "cuda_codegen": CudaLines,
}
"""File of torch that prints kernels (kernel.cpp, cuda_codegen.cpp) -> the event for
its lines."""

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
    | NodeStatements
    | RefusedAgain
    | NncLines
    | NncLinesAgain
    | LoopNestLines
    | CudaLines
)
