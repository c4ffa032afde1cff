"""A fuser: all facts about it that readers of logs, rules and reports need, in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from re import Pattern


@dataclass(frozen=True)
class Refusals:
    """Lines of the JIT log in which a fusion pass states why it does not take a node."""

    file: str
    """The file of torch that prints them, without folder and ending: ``partition``."""
    mark: bytes
    """How each of these lines begins."""
    form: Pattern[bytes]
    """Group 1 is the text of the cause, group 2 the node as it is printed."""
    causes: Mapping[bytes, tuple[str, str]]
    """Text of a cause -> the code of the finding and the name of the condition (a key of ``Fuser.words``)."""
    other: str
    """The code of a cause that is not known."""


@dataclass(frozen=True)
class Fuser:
    """A fuser of TorchScript. A new one is an entry of the registry (``fusers/__init__.py``)."""

    name: str
    """As options and reports have it: ``nnc``."""
    title: str
    """How a sentence names it: "NNC", "the legacy fuser"."""
    kind: str
    """``Group.kind`` of its fusion groups: ``TensorExprGroup``."""
    takes: frozenset[str] = frozenset()
    """Operators as printed that it can take into a group, for some types and arguments, in some version."""
    can_be_requested: bool = True
    """False for a fuser whose logs are read, and that fusiondoc switches on for no run."""
    taken_in: Callable[[tuple[int, int]], frozenset[str]] | None = None
    """The part of ``takes`` that a version of torch has; None where all versions take the same."""
    since: tuple[int, int] | None = None
    """The first version of torch that is known to have it; None where that limits no run."""
    until: tuple[int, int] | None = None
    """The last version of torch that has it; None: the newest does."""
    devices: frozenset[str] = frozenset(("cpu", "cuda"))
    """Types of the devices that it compiles for, as torch prints them."""
    in_training: bool = True
    """Whether it works in runs that record gradients."""
    inference_only: frozenset[str] = frozenset()
    """Operators that it takes only where no gradients are recorded."""
    seldom: frozenset[str] = frozenset()
    """Operators that it takes only with a knob, or only on one device: nothing is lost next to them."""
    pulled_in: frozenset[str] = frozenset()
    """Views that begin no group, and that a group takes in only where nothing else takes their result."""
    one_library_call: bool = False
    """Whether a group holds at most one convolution or product of matrices, and what comes after it."""
    most_dimensions: int | None = None
    """Of a tensor, in its kernels; None without a limit."""
    exact_sizes: bool = False
    """Whether it compiles for exact sizes whatever the fusion strategy of torch is."""
    writes_to_stdout: bool = False
    """Whether it prints to stdout beside what torch logs to stderr."""
    announces_runs: bool = True
    """Whether a log can show that a kernel runs; without it a crash may be of a compile or of a run."""
    pass_start: str | None = None
    """Header of the graph that its pass prints first, whether it makes groups or not."""
    plan_header: str | None = None
    """Header of the graph that its pass leaves."""
    guards: frozenset[str] = frozenset()
    """Nodes that check types before its groups; they compute nothing of the program."""
    refusals: Refusals | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    """Condition that does not hold -> the reason in a sentence. ``{op}`` and ``{text}`` are fields of
    ``Stated`` (model/reasons/stated.py)."""
    instead: tuple[str, ...] = ()
    """Names of the fusers to try instead, best first."""

    @property
    def pass_headers(self) -> tuple[str, ...]:
        """Headers of the graphs that its pass prints."""
        return tuple(header for header in (self.pass_start, self.plan_header) if header is not None)

    @property
    def node(self) -> str:
        """The kind of its node in a graph: ``prim::TensorExprGroup``."""
        return f"prim::{self.kind}"
