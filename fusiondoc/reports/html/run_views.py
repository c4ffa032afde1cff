"""What a page says of the run: what its passes were for and how long they took, where the time of a step goes
(one stacked bar, its parts, the modules that take most), numbers compared with eager, what was tried, speed;
expectations, findings, how to reproduce it, and how well the log was read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import groupby
from statistics import median

from fusiondoc.model import count, dataclass
from fusiondoc.model.bench import Part
from fusiondoc.model.change_plan import Try
from fusiondoc.model.report import Fallback, Finding, Report
from fusiondoc.model.runs import (
    Expectation,
    Iteration,
    KnobState,
    Speed,
    UnrecognisedLine,
    Verification,
    furthest_off,
)
from fusiondoc.rendering.units import (
    PAGE,
    difference,
    milliseconds,
    percent,
    ratio,
    seconds,
    share,
    size,
    whole,
)
from fusiondoc.reports import run_words
from fusiondoc.reports.html.group_list import Facts
from fusiondoc.reports.html.page_context import QUOTED, Bar, Context, Quotes, can_change, shown
from fusiondoc.views.formatting import (
    DOING,
    NO_DIFFERENCE,
    near,
    verdict_on_tries,
)
from fusiondoc.views.step_words import remarks, sentence, takes

_ALONE = 3
"""So many equal passes in a row have a line each; more are put together."""


@dataclass(frozen=True)
class Passes:
    """One pass, or several in a row that are alike."""

    numbers: str
    phase: str
    stage: str | None
    bar: Bar | None
    took: str
    made: str
    inputs: int


@dataclass(frozen=True)
class TimeLine:
    """``several``: there is more than one set of inputs."""

    note: str
    rows: tuple[Passes, ...]
    several: bool


@dataclass(frozen=True)
class RankTable:
    """A row for each rank, and what is to be said of them."""

    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    said: tuple[str, ...]


def ranks_view(context: Context) -> RankTable | None:
    """The ranks of the run."""
    ranks = context.report.ranks
    if ranks is None:
        return None
    rows = tuple(run_words.rank_cells(row) for row in ranks.rows)
    return RankTable(
        run_words.of_ranks(ranks) + ".",
        run_words.RANK_HEADER,
        rows,
        tuple(run_words.rank_sentences(context.report)),
    )


def time_line(context: Context) -> TimeLine | None:
    """The iterations: profiling, compiling, steady."""
    report = context.report
    if not report.iterations:
        return None
    spans = _spans(report.iterations)
    longest = max((_median(span) or 0.0 for span in spans), default=0.0)
    profiling = sum(one.stage == "profiling" for one in report.iterations)
    steady = next((one.index for one in report.iterations if one.stage == "steady"), None)
    note = f"{count(profiling, 'pass')} went to profiling"
    note += f"; steady from {steady}." if steady is not None else "; none was steady."
    rows = tuple(_passes(span, longest, report) for span in spans)
    return TimeLine(note, rows, len({one.inputs for one in report.iterations}) > 1)


def _passes(span: Sequence[Iteration], longest: float, report: Report) -> Passes:
    first, last, took = span[0], span[-1], _median(span)
    said = PAGE.known(took, seconds) + (" (median)" if len(span) > 1 and took is not None else "")
    made = [
        g.id
        for g in report.groups
        if g.iteration is not None
        and first.index <= g.iteration <= last.index
        and g.phase in (None, first.phase)
    ]
    return Passes(
        numbers=str(first.index) if first.index == last.index else f"{first.index}–{last.index}",
        phase=first.phase,
        stage=first.stage,
        bar=Bar(took / longest, said, first.stage or "") if took is not None and longest else None,
        took=said,
        made=", ".join(made[:8]) + ("…" if len(made) > 8 else ""),
        inputs=first.inputs,
    )


def _spans(iterations: Sequence[Iteration]) -> list[list[Iteration]]:
    spans: list[list[Iteration]] = []
    by_phase = sorted(iterations, key=lambda one: one.index)
    for _, same in groupby(
        sorted(by_phase, key=lambda one: one.phase != "forward"),
        key=lambda one: (one.phase, one.stage, one.inputs),
    ):
        span = list(same)
        spans += [span] if len(span) > _ALONE else [[one] for one in span]
    return sorted(spans, key=lambda span: (span[0].index, span[0].phase != "forward"))


def _median(span: Sequence[Iteration]) -> float | None:
    known = [one.seconds for one in span if one.seconds is not None]
    return float(median(known)) if known else None


@dataclass(frozen=True)
class Speeds:
    """Eager against fused, timed without dumps."""

    note: str | None
    rows: tuple[Speed, ...]


def speed_view(context: Context) -> Speeds | None:
    report = context.report
    return Speeds(report.speed_note, report.speed) if report.speed else None


@dataclass(frozen=True)
class Compared:
    """One result over all passes."""

    what: str
    same: str
    right: bool
    off_by: str
    of_its_size: str
    allowed: str
    remarks: str


@dataclass(frozen=True)
class Numbers:
    note: str
    rows: tuple[Compared, ...]


def numbers_view(context: Context) -> Numbers | None:
    """``--verify``: fused against eager, what differs first."""
    rows = context.report.verification
    if not rows:
        return None
    by_name: dict[str, list[Verification]] = {}
    for row in rows:
        by_name.setdefault(row.what, []).append(row)
    order = sorted(by_name.values(), key=lambda of: all(row.same for row in of))
    right = sum(all(row.same for row in of) for of in by_name.values())
    passes = len({row.iteration for row in rows})
    note = f"{right} of {len(by_name)} results are the same in all of {passes} passes."
    return Numbers(note, tuple(map(_compared, order)))


def _compared(rows: Sequence[Verification]) -> Compared:
    same = sum(row.same for row in rows)
    worst = furthest_off(rows)
    remarks = ["by statistics"] if worst.by == "statistics" else []
    remarks += [row.detail for row in (worst, *rows) if row.detail][:1]
    return Compared(
        what=worst.what,
        same=f"{same}/{len(rows)}",
        right=same == len(rows),
        off_by=PAGE.known(worst.max_abs, difference),
        of_its_size=PAGE.known(worst.max_rel, difference),
        allowed="equal" if worst.tolerance == 0 else PAGE.known(worst.tolerance, difference),
        remarks="; ".join(filter(None, (": ".join(remarks), worst.judgement))),
    )


@dataclass(frozen=True)
class Figure:
    """A number of a try; ``better`` than that of the run as it was asked for."""

    text: str
    better: bool


@dataclass(frozen=True)
class Tried:
    """A run with one change; ``failed`` says why there are no figures."""

    change: str
    failed: str | None
    figures: tuple[Figure, ...]
    rate: str
    steady: str
    wrong: str
    problem: str


@dataclass(frozen=True)
class Tries:
    rows: tuple[Tried, ...]
    verdict: str


def tries_view(context: Context) -> Tries | None:
    """``--try``: the run again with one change each."""
    rows = context.report.tries
    if not rows:
        return None
    return Tries(tuple(_tried(row, rows[row.against]) for row in rows), verdict_on_tries(rows))


def _speed_of(row: Try) -> str:
    """Against the run as it was asked for, timed in turns."""
    if row.speed is None:
        return "–"
    return ratio(row.speed.value) if row.speed.differs else NO_DIFFERENCE


def _tried(row: Try, asked: Try) -> Tried:
    def against(number: int, base: int, more: bool) -> Figure:
        better = number > base if more else number < base
        return Figure(f"{number:,} ({number - base:+,})" if better else f"{number:,}", better)

    return Tried(
        change=row.change,
        failed=row.problem if row is not asked else None,
        figures=(
            Figure(f"{row.groups:,}", False),
            against(row.ops_fused, asked.ops_fused, True),
            against(row.unfused, asked.unfused, False),
            against(row.fallbacks, asked.fallbacks, False),
        ),
        rate=PAGE.known(row.gb_per_s, whole),
        steady=_speed_of(row),
        wrong=PAGE.count(row.wrong),
        problem=row.problem or "",
    )


_HUES = 8
"""Colours of the page; further parts share the last, grey one."""
_LAYERS = 20


@dataclass(frozen=True)
class Slice:
    """A part of the stacked bar, in units of 1000, and its row."""

    what: str
    hue: str
    x: str
    width: str
    takes: str
    share: str


@dataclass(frozen=True)
class Module:
    """A module and its share of the step."""

    what: str
    takes: str
    share: str
    bar: Bar


@dataclass(frozen=True)
class StepTime:
    """``label`` says the bar in words."""

    note: str | None
    label: str
    slices: tuple[Slice, ...]
    modules: tuple[Module, ...]
    remarks: tuple[str, ...]


def step_view(context: Context) -> StepTime | None:
    """None without a profile, and without a word on why there is none."""
    report = context.report
    steps = report.steps
    if steps is None:
        return StepTime(report.steps_note, "", (), (), ()) if report.steps_note is not None else None
    modules = tuple(
        Module(one.what, milliseconds(one.ms), share(one.share), Bar(one.share, share(one.share)))
        for one in steps.layers[:_LAYERS]
    )
    said = tuple(text[0].upper() + text[1:] + "." for text in remarks(report))
    label = sentence(steps)
    return StepTime(label + ".", label, _slices(steps.parts), modules if len(modules) > 1 else (), said)


def _slices(parts: Sequence[Part]) -> tuple[Slice, ...]:
    made, x = [], 0.0
    for number, part in enumerate(parts):
        width = 1000 * part.share
        hue = f"r{min(number, _HUES - 1)}"
        made.append(
            Slice(part.what, hue, f"{x:.1f}", f"{width:.1f}", milliseconds(part.ms), share(part.share))
        )
        x += width
    return tuple(made)


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
        options=asked.told() if asked else None,
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
