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
    """Whose error it is."""

    PROGRAM = "program"
    """The same run fails without the fuser too."""
    FUSER = "fuser"
    """Without the fuser the same run ends without an error; with it the error came
    again."""
    UNSTEADY = "unsteady"
    """The same run passed without the fuser, and once more with it: the error comes
    and goes."""


@dataclass(frozen=True)
class FailingGroup:
    """A group of the report that was run alone, fused and unfused, after an error
    of the whole run."""

    group: str
    """Its id."""
    fails: bool
    """Alone it fails too: it raises an error, dies, or gives other results than its
    unfused operators."""
    outcome: str
    """In a line: ``output 1 (%14): sizes [2, 64, 64, 4], unfused [2, 4, 64,
    64]``."""
    operators: tuple[str, ...] = ()
    """Operators of the smallest part that still fails so; () if none was looked
    for."""
    of: int = 0
    """How many operators the whole group has."""
    finished: bool = True
    """Whether the search for that part came to its end."""


@dataclass(frozen=True)
class FuserFault:
    """The results of the runs after a failed run under a fuser.

    ``unfused`` and ``again`` are folders of captures inside that of the run:
    without the fuser, and once more with it; None where there was no such run.
    """

    blame: Blame | None = None
    """None where the runs did not show it, such as without a result of the run
    without the fuser."""
    unfused: str | None = None
    unfused_error: str | None = None
    """The error of the run without the fuser."""
    again: str | None = None
    alone: tuple[FailingGroup, ...] = ()
    around: tuple[Try, ...] = ()
    """Runs with a change of the settings; the first is the run as it was
    requested."""

    @property
    def culprit(self) -> FailingGroup | None:
        """The first group that fails alone."""
        return next((way for way in self.alone if way.fails), None)

    @property
    def ways(self) -> tuple[Try, ...]:
        """The changes that were run and seen to work, those that leave most
        operators fused first."""
        worked = [
            way for way in self.around[1:] if way.problem is None and not way.wrong
        ]
        return tuple(
            sorted(worked, key=lambda way: (-way.ops_fused, way.fallbacks))
        )

    @property
    def held_against_eager(self) -> bool:
        """Whether the results of these were compared with eager; those of a program
        that runs as it is are not."""
        return all(way.wrong is not None for way in self.ways)
