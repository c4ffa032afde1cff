"""Plans whose header was cut off: the log begins inside them. Their groups that are printed whole count."""

from __future__ import annotations

from typing import Mapping, Sequence

from fusiondoc.parsers.facts import PlanLevel, PlanUse
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.message_lines import Run
from fusiondoc.parsers.jit.plan import summarise_rest

PLAN_FILES = ("graph_fuser", "tensorexpr_fuser", "profiling_graph_executor_impl")
"""Files of torch that print plans."""

_HEADERS = frozenset((b"Before Compilation:", b"After TExprFuser:", b"Optimized Graph:"))
_MOST = 20
"""A log that was cut has one; damaged ones may have any number."""


class HeadlessPlans:
    """Graphs without a header, looked at when all is read: what they are shows in the rest of the log."""

    def __init__(self) -> None:
        self._runs: list[tuple[bytes, str, Run]] = []

    def add(self, prefix: bytes, file: str, run: Run) -> None:
        """``file``: of torch, that printed it."""
        if len(self._runs) < _MOST and any(line.startswith(b"with ", run.cut) for line in run.lines):
            self._runs.append((prefix, file, run))

    def plans(self, headers: Mapping[bytes, bytes], others: Sequence[PlanUse]) -> list[PlanUse]:
        """Those that are plans.

        Args:
            headers: of each prefix. A statement of torch's source prints one kind of graph.
            others: the plans that have a header.
        """
        planned = any(use.level <= PlanLevel.EXECUTOR for use in others)
        made = []
        for prefix, file, run in self._runs:
            header = headers.get(prefix)
            # Of nvFuser's graphs, only plans hold groups; of the others, see whether a plan is there.
            if header not in _HEADERS and (header is not None or (planned and file != "graph_fuser")):
                continue
            plan = summarise_rest(parse_dump([line[run.cut :] for line in run.lines]))
            if plan.groups:
                made.append(_use(run, PlanUse(plan, PlanLevel.EXECUTOR, headless=True)))
        return made


def _use(run: Run, use: PlanUse) -> PlanUse:
    start = run.position(0)
    use.lines.append(start)
    stretches = run.stretches(0, len(run.lines))
    if stretches is not None:
        use.stretches[start] = stretches
    return use
