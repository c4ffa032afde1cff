"""A run of a model as one line of JSON, which ``check`` writes for a history of
many runs."""

from __future__ import annotations

from fusiondoc.model import dataclass

SCHEMA = "fusiondoc.run/1"
HOLDS, BROKEN, FAILED = "holds", "broken", "failed"
"""Values of ``RunLine.status``."""


@dataclass(frozen=True)
class GroupLine:
    """A fusion group of the run."""

    phase: str | None
    ops: tuple[str, ...]
    """Its operators in order, such as ``aten::add``."""
    lines: tuple[str, ...]
    """``file:line`` of the program that they come from, each once; file names
    without folders."""
    count: int
    """Its nodes in the plans of the run: equal layers are one group with a
    count."""


@dataclass(frozen=True)
class OutsideLine:
    """Operators of the run in no group, by kind and reason."""

    phase: str | None
    op: str
    code: str
    """Code of the reason."""
    count: int


@dataclass(frozen=True)
class RunLine:
    """A run of a model. Unknown values are null."""

    schema: str
    model: str
    """The name of its section in the file of expectations; without a section the
    model, as reports name it."""
    date: str
    """When it ran, in UTC: ISO 8601 to the second. A result from the cache keeps
    the date of its run."""
    commit: str | None
    """The first 12 digits of the program's commit."""
    status: str
    """"holds", "broken" (an expectation is broken) or "failed" (no result:
    ``error`` has the cause)."""
    torch: str | None = None
    device: str | None = None
    """Name of the GPU; "cpu" if the machine has none."""
    fuser: str | None = None
    host: str | None = None
    cached: bool = False
    """The model was not run: its result is that of ``date``."""
    groups: tuple[GroupLine, ...] = ()
    held: int = 0
    """Expectations that hold."""
    lost: tuple[str, ...] = ()
    """The broken expectations, each in a sentence."""
    operators: int = 0
    """Operators in groups."""
    coverage: float | None = None
    """From 0 to 1: operators in groups, over the operators that ran and that the
    fuser takes."""
    fallbacks: int = 0
    group_bytes: int | None = None
    """Bytes that groups read and write in one run; null if shapes are not known."""
    unfused_bytes: int | None = None
    """Bytes of results of operators in no group, written and read again, in one
    run."""
    ms: float | None = None
    """Time of a step without the profiler, else of a profiled step, in
    milliseconds; null without a profile."""
    error: str | None = None
    outside: tuple[OutsideLine, ...] = ()
    """Operators in no group, without those that never ran."""
    settings: str | None = None
    """The requested settings of the fuser and of the run, such as ``knob
    inlining=off``."""
    fusiondoc: str | None = None
    """Version of fusiondoc."""
    backward: bool | None = None
    """True if it ran a backward pass; null if that is not known."""
    ended_early: bool = False
    """The run, or its log, ended before all groups were made: a missing group is
    not known to be lost."""

    @property
    def number_of_groups(self) -> int:
        """Fusion nodes: instances of the groups."""
        return sum(group.count for group in self.groups)
