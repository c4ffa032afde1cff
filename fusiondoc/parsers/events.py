"""What lines without the prefix of the JIT log say, made where a line is recognised.

The line of an event is not part of it: the same lines may stand in a log again (``repeats.py``), and then the
same events happen at other lines.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """fusiondoc's own mark: a pass begins, of so many, with one of several inputs."""

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
    """A line of another tool, of the program itself, or of what stands around it."""

    line: bytes


class OutputLines(NamedTuple):
    """Lines of the program that tell nothing; the position is that of the last of them."""

    lines: int


Event = (
    KernelSource
    | Ran
    | Performed
    | Launched
    | DumpBegan
    | PassBegan
    | FuserGone
    | FellBack
    | Output
    | OutputLines
)
