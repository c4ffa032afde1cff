"""Whether the fuser or the program caused the error of a run (``fault.json``),
found by the runs that followed it.

For a failed pass of ``--verify`` the probe finds this in the same process
(``eager_pass`` in the records).
"""

from __future__ import annotations

from enum import Enum

from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import Try


class Blame(Enum):
    """Whether the program or the fuser caused an error."""

    PROGRAM = "program"
    """The same run fails without the fuser too."""
    FUSER = "fuser"
    """Without the fuser the same run ends without an error; with it the error
    occurred again."""
    UNSTEADY = "unsteady"
    """The same run passed without the fuser, and once more with it: the error comes
    and goes."""


@dataclass(frozen=True)
class FailingGroup:
    """A group of the report that was run alone, fused and unfused, after an error
    of the whole run."""

    group: str
    """The group's id."""
    fails: bool
    """Whether it also fails alone: it raises an error, dies, or gives other results
    than its unfused operators."""
    outcome: str
    """The failure in a line: ``output 1 (%14): sizes [2, 64, 64, 4], unfused [2, 4,
    64, 64]``."""
    operators: tuple[str, ...] = ()
    """Operators of the smallest part that still fails in this way; () if none was
    searched for."""
    of: int = 0
    """Number of operators of the whole group."""
    finished: bool = True
    """Whether the search for that part was completed."""


@dataclass(frozen=True)
class FuserFault:
    """The results of the runs after a failed run under a fuser.

    ``unfused`` and ``again`` are folders of captures inside that of the run:
    without the fuser, and once more with it; None where there was no such run.
    """

    blame: Blame | None = None
    """None if the runs did not show it, for example without a result of the run
    without the fuser."""
    unfused: str | None = None
    unfused_error: str | None = None
    """The error of the run without the fuser."""
    again: str | None = None
    alone: tuple[FailingGroup, ...] = ()
    around: tuple[Try, ...] = ()
    """Runs with a change of the settings; the first has the requested settings."""

    @property
    def culprit(self) -> FailingGroup | None:
        """The first group that fails alone."""
        return next((way for way in self.alone if way.fails), None)

    @property
    def ways(self) -> tuple[Try, ...]:
        """The changes that were run and worked; first those that leave most
        operators fused."""
        worked = []
        for way in self.around[1:]:
            if way.problem is None and not way.wrong:
                worked.append(way)
        return tuple(
            sorted(worked, key=lambda way: (-way.ops_fused, way.fallbacks))
        )

    @property
    def held_against_eager(self) -> bool:
        """Whether the results of these runs were compared with eager; those of a
        script are not."""
        return all(way.wrong is not None for way in self.ways)
