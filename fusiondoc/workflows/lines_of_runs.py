"""Lines of runs (``model/run_lines.py``): of a report, and appended to a file."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path, PurePath

from fusiondoc.errors import UsageError
from fusiondoc.model.checked_models import CheckedModels, CheckOutcome
from fusiondoc.model.report import Group, Report
from fusiondoc.model.run_lines import (
    BROKEN,
    FAILED,
    HOLDS,
    SCHEMA,
    GroupLine,
    OutsideLine,
    RunLine,
)
from fusiondoc.model.source import Source
from fusiondoc.model.typed_fields import as_json
from fusiondoc.model.unfused_bytes import unfused_bytes
from fusiondoc.whole_files import alone
from fusiondoc.workflows.survey_facts import facts_of_report
from fusiondoc.workflows.survey_plans import RunPlan


def line_of(
    report: Report, model: str, *, date: str | None = None, cached: bool = False
) -> RunLine:
    """The line of a checked report.

    Args:
        model: the name of its section.
        date: when it ran (ISO 8601, UTC); now by default.
        cached: the report is of an earlier run.
    """
    lost = _lost(report)
    date = date or now()
    facts = facts_of_report(report, model, date)
    environment = report.environment
    groups = []
    for group in report.groups:
        if group.respecialises is None:
            groups.append(_group_line(group))
    return RunLine(
        schema=SCHEMA,
        model=model,
        date=date,
        commit=environment.get("commit") or None,
        status=BROKEN if lost else HOLDS,
        torch=environment.get("torch") or None,
        device=environment.get("gpu") or "cpu",
        fuser=report.fuser.effective,
        host=platform.node() or None,
        cached=cached,
        groups=tuple(groups),
        held=len(report.expectations) - len(lost),
        lost=lost,
        operators=report.coverage.ops_fused,
        coverage=report.coverage.fraction,
        fallbacks=report.times_fallen_back,
        group_bytes=_group_bytes(report.groups),
        unfused_bytes=unfused_bytes(report.unfused),
        ms=facts.row.step_ms,
        outside=outside_of(facts.plan),
        settings=facts.row.settings,
        fusiondoc=facts.row.fusiondoc,
        backward=facts.plan.backward,
        ended_early=facts.plan.ended_early,
    )


def lines_of_check(checked: CheckedModels) -> Iterator[RunLine]:
    """The lines of a check of many models; none for a section that was not run."""
    for model in checked.models:
        if model.outcome is CheckOutcome.FAILED:
            yield failed_line(
                model.section, model.why or "failed", commit=checked.commit
            )
        elif model.report is not None:
            cached = model.cached_from is not None
            yield line_of(
                model.report, model.section, date=model.cached_from, cached=cached
            )


def failed_line(model: str, error: str, *, commit: str | None = None) -> RunLine:
    """The line of a model that gave no result."""
    return RunLine(
        schema=SCHEMA,
        model=model,
        date=now(),
        commit=commit,
        status=FAILED,
        host=platform.node() or None,
        error=error,
    )


def now() -> str:
    """The time in UTC, ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def append_lines(file: Path, lines: Iterable[RunLine]) -> None:
    """Add lines at the end of a file; jobs that run side by side keep the lines of
    each.

    Raises:
        UsageError: it cannot be written.
    """
    text = "".join(json.dumps(as_json(line)) + "\n" for line in lines)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with alone(file), file.open("ab") as out:
            out.write(text.encode("ascii"))
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", "Choose another file."
        ) from None


def _lost(report: Report) -> tuple[str, ...]:
    """A sentence for each expectation that is broken."""
    broken = [row for row in report.expectations if not row.holds]
    return tuple(f"expected {row.expected}; found {row.found}" for row in broken)


def outside_of(plan: RunPlan) -> tuple[OutsideLine, ...]:
    """The operators of a plan in no group, by kind and reason."""
    counts: Counter[tuple[str | None, str, str]] = Counter()
    for row in plan.outside:
        counts[row.phase, row.operator.op, row.code] += row.nodes
    lines = []
    for (phase, op, code), count in counts.items():
        lines.append(OutsideLine(phase, op, code, count))
    return tuple(lines)


def _group_line(group: Group) -> GroupLine:
    lines = []
    for node in group.nodes:
        found = Source.parse(node.user_source or node.source)
        if found is not None:
            lines.append(f"{PurePath(found.file).name}:{found.line}")
    return GroupLine(
        group.phase, group.ops, tuple(dict.fromkeys(lines)), group.count
    )


def _group_bytes(groups: Iterable[Group]) -> int | None:
    """Bytes that all groups read and write; None where one of them does not state
    them."""
    total = 0
    for group in groups:
        if group.respecialises is not None:
            continue
        if group.bytes_in is None or group.bytes_out is None:
            return None
        total += (group.bytes_in + group.bytes_out) * group.count
    return total
