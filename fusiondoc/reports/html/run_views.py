"""What a page says of the run: what its passes were for and how long they took, where the time of a step goes
(one stacked bar, its parts, the modules that take most), numbers compared with eager, what was tried, speed;
expectations, findings, how to reproduce it, and how well the log was read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from fusiondoc.model import dataclass
from fusiondoc.model.report import Fallback, Finding
from fusiondoc.model.runs import (
    Expectation,
    KnobState,
    UnrecognisedLine,
)
from fusiondoc.rendering.units import (
    percent,
    seconds,
    size,
)
from fusiondoc.reports.html.group_list import Facts
from fusiondoc.reports.html.page_context import QUOTED, Context, Quotes, can_change, shown
from fusiondoc.views.formatting import (
    DOING,
    near,
)
from fusiondoc.views.step_words import takes

MOST_SINGLE = 100
"""Findings on single operators; the table of those operators has all."""


@dataclass(frozen=True)
class Expectations:
    """What ``check`` expected, and what was found; the broken ones first."""

    note: str
    rows: tuple[Expectation, ...]


def expectations_view(context: Context) -> Expectations | None:
    rows = context.report.expectations
    if not rows:
        return None
    broken = sum(not row.holds for row in rows)
    note = f"{len(rows) - broken} of {len(rows)} hold" + (f", {broken} broken." if broken else ".")
    return Expectations(note, tuple(sorted(rows, key=lambda row: row.holds)))


@dataclass(frozen=True)
class FindingRow:
    finding: Finding
    where: str
    takes: str | None
    quotes: Quotes


@dataclass(frozen=True)
class FallbackRow:
    fallback: Fallback
    doing: str
    times: str
    quotes: Quotes


@dataclass(frozen=True)
class Findings:
    """Worst first. Those on single operators are folded: ``single`` of them, of which the first are rows."""

    main: tuple[FindingRow, ...]
    single: int
    rows: tuple[FindingRow, ...]
    fallbacks: tuple[FallbackRow, ...]


def findings_view(context: Context) -> Findings:
    def row(finding: Finding) -> FindingRow:
        quotes = context.quotes(finding.evidence)
        return FindingRow(finding, shown(finding.source), takes(finding.time), quotes)

    told = (one for one in context.report.findings if not one.in_header)
    findings = sorted(told, key=lambda one: not can_change(one.code))
    single = [one for one in findings if one.in_rows]
    return Findings(
        main=tuple(row(one) for one in findings if not one.in_rows),
        single=len(single),
        rows=tuple(map(row, single[:MOST_SINGLE])),
        fallbacks=tuple(
            FallbackRow(
                one,
                DOING.get(one.stage, one.stage),
                f"{one.count:,}" if one.count_exact else f"at least {one.count:,}",
                context.quotes(one.evidence),
            )
            for one in context.report.fallbacks
        ),
    )


@dataclass(frozen=True)
class Reproduce:
    """The command, the variables that were set, the machine and the knobs."""

    command: str | None
    variables: str | None
    environment: Facts
    options: Facts | None
    knobs: tuple[KnobState, ...]


def reproduce_view(context: Context) -> Reproduce | None:
    """None where nothing of it is known."""
    report = context.report
    command, asked = report.target.command, report.target.options
    known = {name: value for name, value in report.target.environment_set.items() if _SET.fullmatch(name)}
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in known.items()) or None
    if not (command or exports or report.environment or asked is not None or report.knobs):
        return None
    return Reproduce(
        command=_shell(command) if command else None,
        variables=exports,
        environment=tuple(report.environment.items()),
        options=asked.values_in_words() if asked else None,
        knobs=report.knobs,
    )


_SET = re.compile(
    r"PYTORCH_JIT_(?:LOG_LEVEL|TYPE_VERBOSITY)|PYTORCH_NVFUSER_(?:DUMP|ENABLE|DISABLE|DISABLE_FALLBACK)"
    r"|(?:ONEDNN|ONEDNN_GRAPH|DNNL)_VERBOSE"
)
"""Variables that fusiondoc sets: a capture or report of another's may name any, and lines are there to be
copied."""


def _shell(words: Sequence[str]) -> str | None:
    """The command as one types it; the program's own path says nothing to others. None for one that is not
    fusiondoc's: somebody else may have written the capture."""
    program = re.split(r"[/\\]", words[0]) if words else [""]
    if program[-1] not in ("fusiondoc", "fusiondoc.exe") and program[-2:] != ["fusiondoc", "__main__.py"]:
        return None
    return " ".join(map(shlex.quote, ["fusiondoc", *words[1:]]))


@dataclass(frozen=True)
class Log:
    """How well the log was read, and where it is kept."""

    facts: Facts
    files: tuple[str, ...]
    kept: str | None
    unknown: tuple[UnrecognisedLine, ...]


def log_view(context: Context) -> Log:
    report = context.report
    stats, timing = report.parse, report.timing
    child, overhead = timing.get("child"), timing.get("overhead")
    return Log(
        facts=(
            ("Lines", f"{stats.lines:,} ({size(stats.bytes)})"),
            ("Recognised", percent(stats.recognised / stats.lines) if stats.lines else "–"),
            ("Of the program itself", f"{stats.user_output:,}"),
            ("Unknown", f"{stats.unrecognised:,}"),
            ("Cut off", f"{stats.truncated:,} blocks" if stats.truncated else None),
            ("The model's process", seconds(child) if child is not None else None),
            ("Added by fusiondoc", seconds(overhead) if overhead is not None else None),
        ),
        files=tuple(map(near, context.log_files())),
        kept=report.target.capture,
        unknown=stats.first_unrecognised[:QUOTED],
    )
