"""Numbers of operators outside groups, summed over the executors that have a plan."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Iterable, Sequence

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.parsers.rows.group_rows import Copies


def by_log(copies: Iterable[Copies]) -> list[Copies]:
    """Those of one log as one."""
    found: dict[int, Copies] = {}
    for one in copies:
        before = found.get(one.file)
        if before is not None:
            one = Copies(one.file, before.plans + one.plans, before.fallbacks + one.fallbacks)
        found[one.file] = one
    return list(found.values())


@dataclass
class Tally:
    """A number that is summed over executors. Logs that show the same plans are not summed."""

    plans: dict[int, Fraction] = field(default_factory=dict)
    """By log."""
    fallbacks: dict[int, Fraction] = field(default_factory=dict)
    most: int = 0
    """In one print, where prints tell no executor."""
    rest: int = 0
    """Of plans that are not in the log."""

    def add(self, number: int, copies: Sequence[Copies]) -> None:
        """What one plan has, times the executors that have the plan."""
        if not copies:
            self.most = max(self.most, number)
        for one in copies:
            self.plans[one.file] = self.plans.get(one.file, Fraction(0)) + number * one.plans
            self.fallbacks[one.file] = self.fallbacks.get(one.file, Fraction(0)) + number * one.fallbacks

    @property
    def total(self) -> int:
        """Fallback functions count where no other plan has the operator."""
        counted = max(self.plans.values(), default=Fraction(0)) or max(
            self.fallbacks.values(), default=Fraction(0)
        )
        return max(ceil(counted), self.most) + self.rest
