"""Time and compilations of a run's passes, by set of inputs."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.model import dataclass
from fusiondoc.model.groups import Group
from fusiondoc.model.runs import Iteration


@dataclass(frozen=True)
class ShapeRow:
    """Figures of a set of inputs: seconds of its first pass and of a pass that
    compiled nothing (median)."""

    inputs: int
    passes: int
    compiled: int
    groups: tuple[str, ...]
    first: float | None
    steady: float | None


def by_inputs(
    iterations: Sequence[Iteration], groups: Sequence[Group]
) -> list[ShapeRow]:
    """Return a row for each set of inputs, if there are several; else an empty
    list."""
    numbers = sorted({i.inputs for i in iterations})
    if len(numbers) < 2:
        return []
    rows = []
    for number in numbers:
        mine = [i for i in iterations if i.inputs == number]
        indexes = {i.index for i in mine}
        calm = [i for i in mine if i.stage not in ("compiling", "profiling")]
        steady = []
        for i in calm:
            if i.seconds is not None:
                steady.append(i.seconds)
        steady.sort()
        rows.append(
            ShapeRow(
                inputs=number,
                passes=len(mine),
                compiled=sum(i.stage == "compiling" for i in mine),
                groups=tuple(g.id for g in groups if g.iteration in indexes),
                first=mine[0].seconds,
                steady=steady[len(steady) // 2] if steady else None,
            )
        )
    return rows
